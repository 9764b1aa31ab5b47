"""Choosing a public table on a validation table: the least error wins at each ε, and no private table gets in."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from typer.testing import CliRunner

import openprior as op
from openprior.command_line.main import app
from openprior.errors import OptionError, PrivacyError
from openprior.guidance.experiment import Run
from openprior.guidance.validation import Tried, chosen
from tests.conftest import random_table

SIZES = {"a": 3, "b": 4, "c": 2}
AT: dict[str, Any] = {
    "schema": op.Schema.from_sizes(SIZES),
    "workload": 2,
    "delta": 1e-9,
    "workers": 1,
    "seeds": 2,
}


def rows(n: int, seed: int, skew: float = 1.0) -> pa.Table:
    table = random_table(SIZES, n, seed, skew)
    return pa.table({name: pa.array(c) for name, c in zip(SIZES, table.columns, strict=True)})


def near(n: int, seed: int) -> pa.Table:
    return rows(4000, 5, 0.3).take(np.random.default_rng(seed).integers(0, 4000, n))


def test_the_table_that_is_like_the_validation_table_is_taken_at_every_epsilon() -> None:
    found = op.choose_public(
        {"far": rows(500, 2, 3.0), "near": near(500, 3)}, near(1000, 1), epsilon=[0.1, 2.0],
        grid=["public", "pmw-pub:rounds=2"], **AT,
    )  # fmt: skip
    assert found.epsilons == (0.1, 2.0)
    assert [found.best(e).public for e in found.epsilons] == ["near", "near"]
    assert found.best(0.1).error == min(t.error for t in found.at(0.1)) > 0
    assert len(found.results) == 8
    assert found.best(2.0).runs[0].max_error == found.best(2.0).errors[0]
    with pytest.raises(OptionError, match="a choice for each ε"):
        found.best()
    with pytest.raises(OptionError, match="nothing was tried at ε = 5"):
        found.best(5)
    text = str(found)
    assert "ε = 0.1: take near with" in text
    assert "take this" in found._repr_html_()
    plain = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert [c["public"] for c in plain["choices"]] == ["near", "near"]
    assert plain["by"] == "max"


def test_what_is_compared_decides() -> None:
    one, other = (Run(0.1, 0.5, 1.0),), (Run(0.2, 0.3, 1.0),)
    public = op.PublicProxy()
    for by, best in (("workload", "one"), ("max", "other")):
        tried = [Tried(name, 1.0, public, by, runs) for name, runs in (("one", one), ("other", other))]
        found = chosen(tried, by=by, delta=0.0, seeds=1, caveats=())
        assert found.best().public == best
        assert "one seed, which may be luck" in found.verdict(1.0)


def test_a_setting_that_fails_is_last_and_all_of_them_are_an_error() -> None:
    broken = Tried("one", 1.0, op.PublicProxy(), "max", (Run(failure="too large"),))
    fine = Tried("other", 1.0, op.PublicProxy(), "max", (Run(0.1, 0.9, 1.0),))
    found = chosen([broken, fine], by="max", delta=0.0, seeds=1, caveats=())
    assert found.best().public == "other"
    assert found.verdict(1.0).endswith("no other table ran.")
    assert "too large" in str(found)
    assert found.as_dict()["results"][1]["error"] is None
    with pytest.raises(OptionError, match="every setting failed at ε = 1; one, public: too large"):
        chosen([broken], by="max", delta=0.0, seeds=1, caveats=())


def test_no_table_takes_two_places(tmp_path: Path) -> None:
    validation = near(300, 1)
    with pytest.raises(OptionError, match="'same' is the validation table itself"):
        op.choose_public({"same": near(300, 1)}, validation, epsilon=1.0, **AT)
    for name, table in (("private", near(200, 7)), ("copy", near(200, 7)), ("public", near(200, 8))):
        pa.csv.write_csv(table, tmp_path / f"{name}.csv")
    files = {name: str(tmp_path / f"{name}.csv") for name in ("private", "copy", "public")}
    for candidates, stand_in in (([files["copy"]], validation), ([files["public"]], files["copy"])):
        with pytest.raises(PrivacyError, match="has the same bytes as the private one"):
            op.choose_public(candidates, stand_in, epsilon=1.0, private=files["private"], **AT)
    with pytest.raises(OptionError, match="no public table to choose from"):
        op.choose_public([], validation, epsilon=1.0, **AT)
    with pytest.raises(OptionError, match="there is no epsilon"):
        op.choose_public(near(9, 3), validation, epsilon=[], **AT)


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, table in (("near", near(300, 3)), ("far", rows(300, 2, 3.0)), ("validation", near(400, 1))):
        pa.csv.write_csv(table, f"{name}.csv")
    op.Schema.from_sizes(SIZES).save("schema.toml")
    words = shlex.split(
        "choose-public validation.csv --public near.csv --public far.csv --epsilon 1 --epsilon 0.5 --delta 1e-9 "
        "--schema schema.toml --workload 1 --try public --workers 1 --seeds 1 --quiet"
    )
    told = CliRunner().invoke(app, [*words, "--json"])
    assert told.exit_code == 0, told.output
    assert [c["public"] for c in json.loads(told.output)["choices"]] == ["near", "near"]
    apart = ["divergences", "validation.csv", "far.csv", "--schema", "schema.toml", "--workload", "1"]
    assert CliRunner().invoke(app, apart).output.startswith("NOT PRIVATE")
