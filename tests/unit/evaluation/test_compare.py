"""Releases side by side: the numbers are those of `evaluate`, and private figures stay where they may be."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.errors import OpenPriorError, OptionError, ReleaseError
from openprior.evaluation.metrics import NOTICE
from openprior.releases.result import Release
from openprior.schema.base import Schema
from openprior.schema.columns import Categorical
from tests.console import say

SIZES = {"a": 3, "b": 2, "c": 4}
SCHEMA = Schema.from_sizes(SIZES)


def rows(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table({n: rng.integers(0, 1 + rng.integers(1, k, 200)) for n, k in SIZES.items()})


PRIVATE, PUBLIC = rows(1), rows(2)


def made(mechanism: Any, schema: Schema = SCHEMA, **more: Any) -> Release:
    given = {"epsilon": 1.0, "delta": 1e-9, "workload": op.all_marginals(2), **more}
    return op.release(PRIVATE, PUBLIC, schema=schema, mechanism=mechanism, **given)


@pytest.fixture(scope="module")
def pair() -> dict[str, Release]:
    return {"proxy": made(op.PublicProxy()), "mst": made(op.Mst(), epsilon=2.0)}


@pytest.mark.parametrize("of", ["synthetic", "answers"])
@pytest.mark.parametrize(
    "workload", [None, op.all_marginals(1), op.Workload([("c", "a"), ("b",)], [3.0, 1.0])]
)
def test_the_numbers_are_those_of_evaluate(pair: dict[str, Release], of: str, workload: Any) -> None:
    found = op.compare(pair, PRIVATE, workload=workload, of=of)
    for compared in found.releases:
        expected = op.evaluate(pair[compared.name], PRIVATE, workload=workload, of=of)
        assert compared.errors == expected
        assert found.per_column[compared.name] == expected.per_column
    errors = [c.errors.workload_error for c in found.releases if c.errors is not None]
    assert errors == sorted(errors) and found.best is found.releases[0]
    assert found.notice == NOTICE
    assert {(c.name, c.mechanism, c.epsilon) for c in found.releases} == {
        ("proxy", "public", 1.0),
        ("mst", "mst", 2.0),
    }


def test_distances_are_those_of_the_rows(pair: dict[str, Release]) -> None:
    found = op.compare(pair, workload=op.all_marginals(1))
    expected = op.evaluate(pair["mst"], pair["proxy"].synthetic, workload=op.all_marginals(1)).workload_error
    assert found.distances["proxy", "mst"] == found.distances["mst", "proxy"] == pytest.approx(expected)


def test_columns_in_another_order_and_other_columns(pair: dict[str, Release]) -> None:
    """Of columns that are declared alike the counts are compared, whatever order a schema has them in."""
    turned = Schema(tuple(SCHEMA[n] for n in ("c", "b", "a")))
    finer = Categorical(name="b", values=("0", "1"), dtype="string")
    other = Schema((SCHEMA["c"], finer, SCHEMA["a"]))
    found = op.compare({"as it is": pair["proxy"], "turned": made(op.PublicProxy(), turned)}, PRIVATE)
    first, second = found.releases
    assert first.errors is not None and second.errors is not None
    # Different rows are drawn, but of the same answers.
    same = op.compare(
        {"as it is": pair["proxy"], "turned": made(op.PublicProxy(), turned)}, PRIVATE, of="answers"
    )
    assert same.distances["as it is", "turned"] == pytest.approx(0)
    assert same.left_out == () and same.columns == ("a", "b", "c")
    less = op.compare({"as it is": pair["proxy"], "other": made(op.PublicProxy(), other)}, PRIVATE)
    assert less.left_out == ("b",) and less.columns == ("a", "c")
    assert "Left out, as the releases do not declare them alike: b." in repr(less)
    for compared in less.releases:
        assert set(compared.errors.per_column if compared.errors else ()) == {"a", "c"}
    alone = made(op.PublicProxy(), Schema((finer,)))
    with pytest.raises(OptionError, match="no column that all of them declare alike"):
        op.compare([pair["proxy"], alone], PRIVATE)


def test_without_the_private_table_nothing_private_is_told(pair: dict[str, Release]) -> None:
    found = op.compare(pair)
    assert found.notice == "" and "NOT PRIVATE" not in found.html() + repr(found)
    assert all(c.errors is None and c.seconds is None for c in found.releases)
    assert [c.name for c in found.releases] == ["proxy", "mst"]
    with pytest.raises(OptionError, match="give private="):
        _ = found.best
    seeded = made(op.PublicProxy(), seed=1)
    said = op.compare([pair["mst"], seeded])
    assert said.notice.startswith("NOT PRIVATE") and "NOT PRIVATE" in said.html()


def test_seconds_stand_beside_private_figures_only_and_are_never_written(
    pair: dict[str, Release], tmp_path: Path
) -> None:
    timed = {c.name: c.seconds for c in op.compare(pair, PRIVATE).releases}
    assert all(s is not None and s > 0 for s in timed.values())
    pair["mst"].save(tmp_path / "release")
    assert op.open_release(tmp_path / "release").seconds is None
    assert b"seconds" not in (tmp_path / "release" / "certificate.json").read_bytes()


def test_as_json_and_as_a_page(pair: dict[str, Release], tmp_path: Path) -> None:
    found = op.compare({"<script>x</script>": pair["proxy"], "mst": pair["mst"]}, PRIVATE)
    facts = found.as_dict()
    assert facts["notice"] == NOTICE and len(facts["distances"]) == 1
    assert facts["releases"][0]["workload_error"] == found.best.errors.workload_error  # type: ignore[union-attr]
    page = found.html()
    assert "<script>x" not in page and "&lt;script&gt;x" in page and page.count("<svg") == 2
    assert NOTICE in page and "https:" not in page
    found.save(tmp_path / "new" / "page.html")
    found.save(tmp_path / "new" / "page.html")
    pair["mst"].save(tmp_path / "release")
    with pytest.raises(ReleaseError, match="to be published, and a comparison with the private table is NOT"):
        found.save(tmp_path / "release" / "page.html")
    among = op.compare(pair)
    with pytest.raises(ReleaseError, match="to be published, and one file more would break its seal"):
        among.save(tmp_path / "release" / "page.html")
    among.save(tmp_path / "public.html")
    with pytest.raises(ReleaseError, match="not an earlier evaluation"):
        found.save(tmp_path / "public.html")


@pytest.mark.parametrize(
    ("releases", "said"),
    [
        ([], "no release to compare"),
        ("release", "one release cannot"),
        ({"a": 3}, "3 cannot be compared"),
        ({3: "release"}, "cannot be called 3"),
        ({" ": "release"}, "cannot be called"),
        (["nowhere", "nowhere too"], "is not a release folder"),
        (PRIVATE, "cannot be a Table"),
        (None, "cannot be None"),
    ],
)
def test_what_cannot_be_compared(releases: Any, said: str) -> None:
    with pytest.raises(OpenPriorError, match=said):
        op.compare(releases, PRIVATE)
    with pytest.raises(OptionError, match="of ="):
        op.compare(releases, PRIVATE, of="rows")


def test_the_command(pair: dict[str, Release], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow import csv

    monkeypatch.chdir(tmp_path)
    csv.write_csv(PRIVATE, "private.csv")
    pair["mst"].save("one")
    pair["proxy"].save("two")
    ended = say("compare", "one", "second=two", "--private", "private.csv")
    assert ended.code == 0 and ended.out.startswith(NOTICE), ended
    assert "second" in ended.out and "wrote one.evaluation/comparison.html" in ended.out
    assert NOTICE in Path("one.evaluation/comparison.html").read_text(encoding="utf-8")
    among = say("compare", "one", "two/", "--json")
    assert (
        among.code == 0 and '"notice": ""' in among.out and Path("one.comparison/comparison.html").is_file()
    )
    for words, said in (
        (("one",), "one release cannot be compared"),
        (("one", "one"), "two releases are called 'one'"),
        (("one", "=two"), "write FOLDER or NAME=FOLDER"),
        (("one", "three"), "three is not a release folder"),
        (("one", "two", "--report", "two/page.html"), "one file more would break its seal"),
        (("one", "two", "--report", "private.csv"), "exists and is not an earlier evaluation"),
        (("one", "two", "--report", "private.csv/page.html"), "as private.csv is no folder"),
    ):
        refused = say("compare", *words)
        assert refused.code == 1 and said in refused.err, refused
    op.open_release("one")
    op.open_release("two")


def test_a_report_of_an_evaluation_may_go_into_a_folder_that_is_not_there(
    pair: dict[str, Release], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyarrow import csv

    monkeypatch.chdir(tmp_path)
    csv.write_csv(PRIVATE, "private.csv")
    pair["mst"].save("one")
    for place, file in (("new/er", "new/er/report.html"), ("x/y.html", "x/y.html")):
        ended = say("evaluate", "one", "--private", "private.csv", "--quick", "--report", place)
        assert ended.code == 0 and f"wrote {file}" in ended.out, ended
        assert NOTICE in Path(file).read_text(encoding="utf-8")
    refused = say("evaluate", "one", "--private", "private.csv", "--quick", "--report", "private.csv/r.html")
    assert refused.code == 1 and "as private.csv is no folder; choose another place" in refused.err


def test_a_comparison_is_frozen(pair: dict[str, Release]) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        op.compare(pair).notice = "fine"  # type: ignore[misc]
