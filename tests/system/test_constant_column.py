"""A column that is constant in the public table and not in the private one: nothing may congratulate.

In the public table `kids` is 0 in every row, in the private one it is 0 to 7, and three rows in four have some.
Whatever the schema makes of that, a person hears of it at every step.
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import openprior as op
from openprior.errors import OpenPriorWarning
from tests.console import say

N = 4000
SHARE = 0.76
CLIPPED = """
[columns.kids]
kind = "integer"
low = 0
high = 0
missing = true
out_of_domain = "clip"

[columns.sex]
kind = "categorical"
values = ["F", "M"]
other = true
out_of_domain = "other"
"""


def survey(seed: int, kids: list[float]) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"kids": rng.choice(len(kids), N, p=kids), "sex": rng.choice(["F", "M"], N)})


PUBLIC, PRIVATE = survey(1, [1.0]), survey(2, [0.24, 0.3, 0.2, 0.1, 0.06, 0.05, 0.03, 0.02])
TRUTH = float((PRIVATE["kids"] > 0).mean())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("constant")
    PUBLIC.to_csv(folder / "public.csv", index=False)
    PRIVATE.to_csv(folder / "private.csv", index=False)
    (folder / "clipped.toml").write_text(CLIPPED)
    return folder


@pytest.fixture(scope="module", params=["drafted", "clipped"])
def schema(request: pytest.FixtureRequest) -> op.Schema:
    if request.param == "clipped":
        return op.Schema.from_toml(CLIPPED)
    with pytest.warns(OpenPriorWarning, match="'kids' is 0 in every public row"):
        return op.Schema.draft(PUBLIC)


def test_the_draft_says_so_and_clips_nothing(place: Path) -> None:
    said = say("schema", "draft", str(place / "public.csv"), "-o", str(place / "draft.toml"))
    assert said.code == 0 and "'kids' is 0 in every public row" in said.out + said.err
    text = (place / "draft.toml").read_text()
    assert "# 'kids' is 0 in every public row; any other value will be 'other'" in text
    column = op.Schema.load(place / "draft.toml")["kids"]
    assert column.out_of_domain == "other" and column.labels == ("0", "other")


def test_the_check_shows_the_share(schema: op.Schema) -> None:
    assert schema.check(PUBLIC)["kids"].outside == 0
    exact = schema.check(PRIVATE, private=True)
    assert exact["kids"].outside == TRUTH and exact.worst[0].name == "kids"
    noisy = schema.check(PRIVATE, epsilon=1.0)
    assert noisy["kids"].outside == pytest.approx(TRUTH, abs=0.05) and "kids 7" in noisy.verdict


def test_the_screening_says_it_first(schema: op.Schema) -> None:
    found = op.screen(PRIVATE, {"last year": PUBLIC}, schema=schema, epsilon=1.0)
    assert found.outside is not None and found.outside.column == "kids"
    assert found.outside.low < TRUTH < found.outside.high or abs(found.outside.share - TRUTH) < 0.05
    assert found.verdict.startswith("Before any table is taken: the schema cannot hold 7")
    assert "kids" in found.best.verdict


def test_the_evaluation_says_it_first(schema: op.Schema, tmp_path: Path, place: Path) -> None:
    made = op.release(
        PRIVATE,
        PUBLIC,
        schema=schema,
        workload=2,
        epsilon=5.0,
        delta=1e-6,
        mechanism="mst",
        seed=1,
        out=tmp_path / "r",
    )
    found = op.evaluate(made, PRIVATE)
    assert found.workload_error < 0.1, "the codes congratulate"
    kids = found.losses[0]
    assert kids.column == "kids" and kids.before == pytest.approx(TRUTH, abs=0.05) and kids.after < 0.05
    assert found.warning is not None and found.warning.startswith("LARGE LOSS in column 'kids'")
    said = say("evaluate", str(tmp_path / "r"), "--private", str(place / "private.csv"), "--quick")
    assert said.out.startswith("LARGE LOSS in column 'kids': its released values are 7")
    page = (tmp_path / "r.evaluation" / "report.html").read_text()
    assert "What the schema lost" in page and page.index("LARGE LOSS") < page.index("NOT PRIVATE: computed")
    told = json.loads(
        say("evaluate", str(tmp_path / "r"), "--private", str(place / "private.csv"), "--quick", "--json").out
    )
    assert told["losses"]["kids"]["before"] == pytest.approx(TRUTH, abs=0.05)


def test_a_column_that_fits_is_not_accused() -> None:
    schema = op.Schema.draft(PRIVATE)
    made = op.release(PRIVATE, schema=schema, workload=1, epsilon=5.0, delta=1e-6, mechanism="mst", seed=1)
    assert op.evaluate(made, PRIVATE).warning is None
    assert pytest.approx(SHARE, abs=0.02) == TRUTH
