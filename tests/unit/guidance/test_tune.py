"""Tuning on public data: pairs, verdicts by hand, workers, and settings that fail."""

import dataclasses
import inspect
import json
import math
import os
import subprocess
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.command_line import arguments
from openprior.errors import EncodeError, OptionError, SchemaError, SourceError
from openprior.guidance.experiment import Experiment, Run, scaled_epsilon
from openprior.guidance.grid import default_grid, described, grid_of, options_text
from openprior.guidance.tune import tune
from openprior.guidance.verdict import Setting, Tuning, judged
from openprior.methods.public import PublicProxy
from openprior.privacy.calibrate import rho_from_epsilon_delta
from openprior.progress import Progress
from openprior.schema.base import Schema
from tests.conftest import random_table

SIZES = {"a": 3, "b": 4, "c": 2}
SCHEMA = Schema.from_sizes(SIZES)
AT: dict[str, Any] = {
    "schema": SCHEMA,
    "workload": op.all_marginals(2),
    "epsilon": 1.0,
    "delta": 1e-9,
    "workers": 1,
}
MST, PUBLIC, PMW = op.Mst(), op.PublicProxy(), op.PmwPub(rounds=3)


def rows(n: int, seed: int, skew: float = 1.0) -> pa.Table:
    table = random_table(SIZES, n, seed, skew)
    return pa.table({name: pa.array(c) for name, c in zip(SIZES, table.columns, strict=True)})


def test_a_good_prior_beats_a_tiny_budget() -> None:
    found = tune(rows(2000, 1), grid=[op.Mst(compress=False), PUBLIC], **{**AT, "epsilon": 0.02})
    assert found.best.mechanism == PUBLIC
    assert found.margin is not None
    assert found.margin.is_clear
    assert found.verdict.startswith("public wins by ")
    assert found.options_text == "-m public"
    assert "-m public -o release" in found.command()
    assert found.seeds == 3
    assert "drift" in found.caveats[0]


def test_a_bad_prior_loses_to_a_large_budget_and_the_results_are_repeatable() -> None:
    heard: list[Progress] = []
    at = {**AT, "epsilon": 8.0, "grid": {"public": {}, "mst": {}}, "seeds": 2}
    found = tune(rows(2000, 1, 0.2), rows(1000, 2, 2.5), progress=heard.append, **at)
    assert found.best.mechanism == MST
    assert {told.phase for told in heard} == {"trying settings"}
    assert (heard[0].done, heard[-1].done) == (0, 4)
    assert {told.total for told in heard} == {4}
    assert "One pair of tables" in found.caveats[0]
    again = tune(rows(2000, 1, 0.2), rows(1000, 2, 2.5), **at)
    assert [s.errors for s in again.results] == [s.errors for s in found.results]


def test_more_rows_mean_less_noise() -> None:
    few, many = (
        tune(rows(400, 1), grid=[MST], rows=n, seeds=1, **AT).best.workload_error for n in (None, 200_000)
    )
    assert many < 0.5 * few
    assert scaled_epsilon(1.0, 1e-9, 3000, 1000) > 3
    rho = rho_from_epsilon_delta(scaled_epsilon(1.0, 1e-9, 3000, 1000), 1e-9)
    assert rho == pytest.approx(9 * rho_from_epsilon_delta(1.0, 1e-9))
    assert scaled_epsilon(1.0, 0.0, 3000, 1000) == 3.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dies(PublicProxy):
    """Ends its process at once."""

    name: ClassVar[str] = "dies"

    def run(self, *args: Any) -> Any:
        os._exit(9)


def test_workers_change_nothing_and_a_setting_that_fails_or_dies_is_reported() -> None:
    public = rows(600, 3)
    broken = op.JamPgm(size_limit=1e-9)
    here = tune(public, grid=[PUBLIC, broken, PMW, MST], seeds=2, **AT)
    there = tune(public, grid=[PUBLIC, broken, Dies(), PMW, MST], seeds=2, **{**AT, "workers": 2})
    assert [s.name for s in there.results[:3]] == [s.name for s in here.results[:3]]
    for mine, theirs in zip(here.results[:3], there.results[:3], strict=True):
        assert theirs.errors == pytest.approx(mine.errors, rel=1e-6)  # the workers compile for themselves
    assert here.results[-1].mechanism == broken
    assert "size_limit" in here.results[-1].failures[0]
    failed = {s.mechanism.name: s for s in there.results[3:]}
    assert failed["jam-pgm"].failures == here.results[-1].failures
    assert failed["dies"].failures[0] == "seed 0: its process ended with code 9; is there too little memory?"
    assert len(failed["dies"].failures) == 2
    assert there.best.mechanism == here.best.mechanism
    assert ("dies", "failed") in [row[:2] for row in there.table().rows]
    text = json.dumps(there.as_dict(), allow_nan=False)
    assert json.loads(text)["results"][-1]["workload_error"] is None


def test_an_interrupt_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    real = subprocess.Popen

    def popen(*args: Any, **options: Any) -> Any:
        started.append(real(*args, **options))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", popen)

    def interrupt(told: Progress) -> None:
        if told.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tune(rows(600, 3), grid=[PUBLIC, MST], seeds=20, progress=interrupt, **{**AT, "workers": 2})
    assert len(started) == 2
    assert all(process.poll() is not None for process in started)


# Verdicts, by hand.


def setting(mechanism: Any, errors: list[float], seconds: float = 1.0) -> Setting:
    return Setting(mechanism, tuple(Run(e, 2 * e, seconds) for e in errors))


def verdict(*found: Setting) -> Tuning:
    return judged(found, epsilon=1.0, delta=1e-9, of="synthetic")


def test_a_paired_margin_by_hand() -> None:
    # Errors vary much from seed to seed, their difference hardly: 0.1, 0.12, 0.11.
    found = verdict(setting(MST, [1.1, 2.12, 3.11]), setting(PUBLIC, [1.0, 2.0, 3.0]))
    assert found.best.mechanism == PUBLIC
    assert found.margin is not None
    assert found.margin.difference == pytest.approx(0.11)
    assert found.margin.standard_error == pytest.approx(0.01 / math.sqrt(3))
    assert found.margin.share == pytest.approx(0.11 / 2.11)
    assert found.margin.is_clear
    assert found.verdict == "public wins by 5.2 % ± 0.3 % over mst (3 seeds)."
    assert found.best.standard_error == pytest.approx(1 / math.sqrt(3))
    assert found.best.max_error == pytest.approx(4.0)


def test_settings_that_cannot_be_told_apart() -> None:
    noisy = [0.100, 0.105, 0.095]
    slow, fast = setting(op.Tilt(), noisy, 60.0), setting(PMW, [0.102, 0.099, 0.100], 3.0)
    found = verdict(slow, fast)
    assert found.results[0] is slow
    assert found.best is fast
    assert found.verdict == (
        "pmw-pub, rounds = 3 and tilt cannot be told apart with 3 seeds; pmw-pub, rounds = 3 is faster: "
        "take pmw-pub, rounds = 3."
    )
    alike = verdict(slow, setting(PMW, [0.102, 0.099, 0.100], 50.0))
    assert alike.best.mechanism == op.Tilt()
    assert "tilt has the smaller mean: take tilt, or try more seeds" in alike.verdict
    # Neither is one that is faster but may be a tenth worse taken.
    assert verdict(slow, setting(PMW, [0.14, 0.10, 0.09], 3.0)).best is slow


def test_one_seed_or_one_setting_says_little() -> None:
    one = verdict(setting(MST, [0.2]), setting(PUBLIC, [0.1]))
    assert one.margin is not None
    assert one.margin.standard_error is None
    assert "may be luck" in one.verdict
    alone = verdict(setting(MST, [0.2, 0.3]))
    assert (alone.margin, alone.runner_up) == (None, None)
    assert "only setting" in alone.verdict
    assert alone.table().rows[0][-1] == "take this"


# Stand-ins.


def experiment(newer: pa.Table, schema: Schema = SCHEMA, past: pa.Table | None = None) -> Experiment:
    work = op.all_marginals(2).on(schema.domain)
    return Experiment(newer, past, schema, work, 1.0, 1e-9, None, "synthetic")


def test_halves_are_disjoint_whole_and_new_for_every_seed() -> None:
    public = rows(101, 1).append_column("row", pa.array(range(101)))
    halves = experiment(public)
    mine, prior = halves.tables(0)
    assert (mine.num_rows, prior.num_rows) == (50, 51)
    assert sorted(mine["row"].to_pylist() + prior["row"].to_pylist()) == list(range(101))
    assert halves.tables(0)[0].equals(mine)
    assert not halves.tables(1)[0].equals(mine)


def test_a_person_stays_in_one_half_and_rows_without_an_id_are_persons() -> None:
    schema = dataclasses.replace(SCHEMA, person_id="who", max_rows_per_person=3)
    owners = np.arange(120) // 3
    with_ids = experiment(rows(120, 1).append_column("who", pa.array(owners)), schema)
    mine, prior = with_ids.tables(0)
    assert mine.num_rows == 60
    assert not set(mine["who"].to_pylist()) & set(prior["who"].to_pylist())
    without, _ = experiment(rows(120, 1), schema).tables(0)
    assert len(set(without["who"].to_pylist())) == without.num_rows == 60
    assert experiment(rows(120, 1), schema, past=rows(9, 2)).tables(5)[0].column_names == [*SIZES, "who"]
    found = tune(rows(120, 1), grid=[MST], seeds=1, **{**AT, "schema": schema})
    assert not found.best.failures


# Grids.


def test_grids_are_products_without_repetition() -> None:
    grid = grid_of(
        {
            "pmw-pub": {"rounds": [None, 5], "guard": [0.0, 0.05]},
            "tilt": {"rounds": [None, 8, 8], "particles": [None]},
            "mst": {},
        }
    )
    assert [described(m) for m in grid] == [
        "pmw-pub, guard = 0.0",
        "pmw-pub",
        "pmw-pub, rounds = 5, guard = 0.0",
        "pmw-pub, rounds = 5",
        "tilt",
        "tilt, rounds = 8",
        "mst",
    ]
    assert grid_of({"pmw-pub": {"output": "average"}}) == [op.PmwPub(output="average")]


@pytest.mark.parametrize(
    "mechanism",
    [
        op.Tilt(rounds=7, alpha=0.1 + 0.2),
        op.PmwPub(replay=False, output="average", rounds=9),
        op.Mwem(groups=(("a", "b"), ("c",))),
        op.Hierarchy(levels=(("a",), ("b", "c")), split=(1.0, 4.5)),
        op.Ide(queries=("prefixes(a)", "where(a=0-1, b=1)"), noise="laplace"),
        op.PublicProxy(),
    ],
)
def test_the_text_of_options_is_what_the_command_line_reads(mechanism: Any) -> None:
    import shlex

    words = shlex.split(options_text(mechanism))
    assert words[:2] == ["-m", mechanism.name]
    assert arguments.mechanism(mechanism.name, words[3::2]) == mechanism


def test_the_default_grid_fits_the_budget() -> None:
    assert {m.name for m in default_grid()} >= {"tilt", "pmw-pub", "public"}
    assert all(m.is_pure for m in default_grid(pure=True))  # type: ignore[attr-defined]
    found = tune(rows(300, 1), seeds=1, **{**AT, "delta": 0.0})
    assert found.best.mechanism.name == "ide"
    assert not any(s.failures for s in found.results)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"grid": []}, "the grid is empty"),
        ({"grid": {}}, "the grid is empty"),
        ({"grid": [op.Tilt]}, "is no mechanism; give an instance"),
        ({"grid": [op.Tilt(), op.Tilt(rounds=None)]}, "the grid has tilt twice"),
        ({"grid": {"tlit": {}}}, "mechanism 'tlit' is unknown; there are aim"),
        ({"grid": {"tilt": {"round": [8]}}}, "option 'round' is unknown for tilt; it has rounds"),
        ({"grid": {"tilt": {"rounds": ["many"]}}}, "tilt cannot be .* rounds \\('many'\\) must be"),
        ({"grid": {"tilt": {"rounds": [0]}}}, "rounds \\(0\\) must be at least 1"),
        ({"grid": {"tilt": [8]}}, "the options of tilt are a list; give a mapping"),
        (
            {"grid": [op.JamPgm(size_limit=1e-9)]},
            "every setting failed; jam-pgm, size_limit = 1e-09, seed 0: size_limit",
        ),
        ({"seeds": 0}, "seeds \\(0\\) must be a whole number of at least 1"),
        ({"rows": 1}, "rows \\(1\\) must be"),
        ({"workers": 0}, "workers \\(0\\) must be"),
        ({"of": "tables"}, "of = 'tables' is unknown"),
        ({"epsilon": 0.0}, "epsilon \\(0.0\\) must be"),
        ({"delta": 2.0}, "delta \\(2.0\\) must lie"),
    ],
)
def test_clumsy_settings_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        tune(rows(50, 1), **{**AT, "grid": [PUBLIC], **options})


def test_clumsy_tables_are_refused() -> None:
    at = {**AT, "grid": [PUBLIC]}
    with pytest.raises(OptionError, match="the public table has 1 rows; give one of at least 4"):
        tune(rows(1, 1), **at)
    with pytest.raises(OptionError, match="the past table has 1 rows; give one of at least 2"):
        tune(rows(50, 1), rows(1, 2), **at)
    with pytest.raises(SchemaError, match="the past table: it has no column 'c'; it has a, b"):
        tune(rows(50, 1), rows(50, 2).drop_columns(["c"]), **at)
    strange = rows(50, 2).set_column(2, "c", pa.array([7] * 50))
    with pytest.raises(EncodeError, match=r"the past table: .*column 'c' has values outside"):
        tune(rows(50, 1), strange, **at)
    with pytest.raises(SourceError, match=r"no file nowhere\.csv"):
        tune("nowhere.csv", **at)


def test_no_private_table_can_be_given_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = set(inspect.signature(tune).parameters)
    assert names == {
        "public", "past", "schema", "workload", "epsilon", "delta", "grid", "seeds", "rows", "of", "workers",
        "reading", "progress",
    }  # fmt: skip
    monkeypatch.chdir(tmp_path)
    tune(rows(60, 1), grid=[PUBLIC], of="answers", **AT)
    assert list(tmp_path.iterdir()) == []
