# Everything sets itself up: a local .venv from pyproject.toml, with the versions of constraints.txt. No activation.
# First what running needs; the tests' tools and the extras (Spark, JAX, databases) are added when a target needs them.
PYTHON ?= python3
BIN := .venv/bin
VENV := .venv/.made
RUNS := .venv/.runs
STAMP := .venv/.installed
# Modules are compiled when they are first imported: compiling all of them here takes longer than downloading them.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -c constraints.txt
# Many tests start processes, which is faster with modules that are compiled once.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help setup extras demo test check format bench slow results rivals docs golden loops browser postgres lock clean

help: ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

setup: $(RUNS) ## create .venv with what openprior needs to run

extras: $(STAMP) ## add to .venv the tests' tools, and what Spark, GEM and further file formats need

$(VENV): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "openprior needs Python 3.11 or newer; say PYTHON=python3.12 make ..."; exit 1; }
	$(PYTHON) -m venv --clear .venv
	@touch $(VENV)

$(RUNS): $(VENV)
	$(INSTALL) -e .
	@touch $(RUNS)

$(STAMP): $(VENV)
	$(INSTALL) -e '.[dev,spark,files,neural]'
	@touch $(RUNS) $(STAMP)

demo: $(RUNS) ## release the embedded demo survey, with a report
	@rm -rf demo-release
	$(BIN)/openprior demo -o demo-release

check: $(STAMP) ## format, lint, types, layers
	$(BIN)/ruff format --check src tests benchmarks docs/build_api.py
	$(BIN)/ruff check src tests benchmarks docs/build_api.py
	$(BIN)/mypy
	$(BIN)/lint-imports

test: $(STAMP) ## the tests and the doctests
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

slow: $(STAMP) ## the long statistical tests
	$(BIN)/python -m pytest -m slow

bench: $(STAMP) ## speed, with the peer in the same run
	$(BIN)/python -m benchmarks.speed
	$(BIN)/python -m benchmarks.spark
	$(BIN)/python -m benchmarks.tilt
	$(BIN)/python -m benchmarks.first_run
	$(BIN)/python -m benchmarks.width
	$(BIN)/python -m benchmarks.tilt_growth
	$(BIN)/python -m benchmarks.growth_plot
	$(BIN)/python -m benchmarks.agency
	$(BIN)/python -m benchmarks.graphical race

results: $(STAMP) ## accuracy tables on the real data, written to benchmarks/results
	$(BIN)/python -m benchmarks.accuracy
	$(BIN)/python -m benchmarks.never_hurts
	$(BIN)/python -m benchmarks.baselines
	$(BIN)/python -m benchmarks.growth
	$(BIN)/python -m benchmarks.linear
	$(BIN)/python -m benchmarks.groups
	$(BIN)/python -m benchmarks.intervals
	$(BIN)/python -m benchmarks.tuning
	$(BIN)/python -m benchmarks.plots

rivals: $(STAMP) ## other tools beside ours, each in an environment of its own; takes hours
	$(BIN)/python -m benchmarks.rivals

format: $(STAMP) ## rewrite the files in the project's format
	$(BIN)/ruff format src tests benchmarks docs/build_api.py
	$(BIN)/ruff check --fix src tests benchmarks docs/build_api.py

docs: $(STAMP) ## write docs/api.md and the tables of methods from the source
	$(BIN)/python docs/build_api.py

golden: $(STAMP) ## pin the outcomes of seeded runs anew, where a change means to change them
	$(BIN)/python -m tests.golden.runs

loops: $(STAMP) ## list anew which compiled loops each mechanism calls, for compiling them beforehand
	$(BIN)/python -m tests.loops

browser: ## install Chromium for the tests of the report, where Debian packages can be installed
	@command -v chromium >/dev/null || { apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium >/dev/null; } \
	  || echo "no Chromium: the tests of the report in a browser will be skipped"

postgres: ## install a PostgreSQL server for its tests, where Debian packages can be installed
	@ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { apt-get -qq update && apt-get -qq install -y --no-install-recommends postgresql >/dev/null; } \
	  || echo "no PostgreSQL: the tests of tables on a server will be skipped"

lock: ## write constraints.txt anew from the newest versions that fit
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet -e '.[dev,spark,files,neural]'
	.venv-lock/bin/python -m pip freeze --exclude-editable > constraints.txt
	rm -rf .venv-lock

clean: ## remove what was built
	rm -rf .venv .venv-lock demo-release .pytest_cache .mypy_cache .ruff_cache .hypothesis
