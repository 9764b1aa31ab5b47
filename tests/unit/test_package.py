"""The public names are pinned, importing is light, and versions agree."""

import subprocess
import sys
import tomllib
from pathlib import Path

import openprior as op

PUBLIC = {
    "Aim",
    "Certificate",
    "Combined",
    "DualQuery",
    "Gem",
    "GemPub",
    "Hdmm",
    "Hierarchy",
    "Ide",
    "ImportanceWeights",
    "JamPgm",
    "Mst",
    "Mwem",
    "MwemPub",
    "OpenPriorError",
    "PmwPub",
    "Progress",
    "PublicPrior",
    "PublicProxy",
    "Reading",
    "Release",
    "Schema",
    "Tilt",
    "Workload",
    "all_marginals",
    "audit",
    "best_mixture_error",
    "choose_public",
    "combine",
    "compare",
    "divergences",
    "estimate_error",
    "evaluate",
    "evaluate_groups",
    "evaluate_quality",
    "fit_prior",
    "mechanisms",
    "open_prior",
    "open_release",
    "plan",
    "random_marginals",
    "release",
    "screen",
    "target_marginals",
    "tune",
}


def test_the_public_names_are_these_and_all_resolve() -> None:
    assert set(op.__all__) == PUBLIC
    for name in PUBLIC:
        assert getattr(op, name) is not None
        assert name in dir(op)


def test_functions_are_not_hidden_by_modules_of_the_same_name() -> None:
    import openprior.evaluation.metrics
    import openprior.methods.tilt as t
    import openprior.releases.folder as f

    assert t.Tilt is op.Tilt
    assert callable(f.write)
    assert openprior.evaluation.metrics.evaluate is op.evaluate
    for name in ("evaluate", "mechanisms", "release", "plan", "screen", "tune"):
        assert callable(getattr(op, name)), name


def test_importing_the_package_and_its_help_loads_nothing_heavy() -> None:
    code = (
        "import sys, openprior, openprior.command_line.main\n"
        "heavy = {'numba', 'scipy', 'opendp', 'pandas', 'pyarrow', 'jinja2', 'numpy', 'sklearn', 'jax'}\n"
        "heavy &= set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_version_is_one() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["version"] == op.__version__


def test_unknown_names_are_attribute_errors() -> None:
    assert not hasattr(op, "nonsense")
