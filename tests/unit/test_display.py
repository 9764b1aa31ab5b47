"""Results show themselves in few lines, and in a notebook as HTML in which nothing of theirs can act."""

import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.display import Sheet, listed
from openprior.schema.base import Schema
from openprior.schema.columns import Categorical

EVIL = "<script>window.harmed=1</script>\x1b[2J\n\"'><img src=x onerror=harm()>"
VALUES = ("a", EVIL.replace("\n", " "), "<b>c</b>")


class Tags(HTMLParser):
    """The tags and attributes of a text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


@pytest.fixture(scope="module")
def shown() -> dict[str, Any]:
    """One result of each kind, of columns and labels that are markup and control characters."""
    names = (EVIL, *(f"column {i}" for i in range(30)))
    schema = Schema(tuple(Categorical(name=n, values=VALUES) for n in names))
    small = Schema(schema.columns[:3])
    rng = np.random.default_rng(1)
    public, private = (
        pa.table({n: rng.choice(VALUES, 150, p=first if n == EVIL else None).tolist() for n in names})
        for first in ((0.9, 0.05, 0.05), (0.05, 0.05, 0.9))
    )
    given: dict[str, Any] = {"workload": op.all_marginals(2), "schema": small, "epsilon": 1.0, "delta": 1e-9}
    made = [
        op.release(private, public, mechanism=m, dataset=EVIL, **given) for m in (op.PublicProxy(), op.Mst())
    ]
    return {
        "schema": schema,
        "workload": op.all_marginals(2).on(schema.domain),
        "plan": op.plan(schema, n=1000, epsilon=1.0, delta=1e-9, workload=op.all_marginals(2)),
        "screening": op.screen(private, {EVIL: public}, schema=small, epsilon=1.0),
        "release": made[0],
        "certificate": made[1].certificate,
        "evaluation": op.evaluate(made[0], private),
        "groups": op.evaluate_groups(made[0], private, [EVIL]),
        "estimate": op.estimate_error(made[0], private, epsilon=1.0),
        "comparison": op.compare({EVIL: made[0], "mst": made[1]}, private),
        "among themselves": op.compare({EVIL: made[0], "mst": made[1]}),
    }


KINDS = (
    "schema", "workload", "plan", "screening", "release", "certificate", "evaluation", "groups", "estimate",
    "comparison", "among themselves",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_prints_short_and_plain(shown: dict[str, Any], kind: str) -> None:
    text = repr(shown[kind])
    assert str(shown[kind]) == text
    lines = text.split("\n")
    assert 2 <= len(lines) <= 26
    assert max(map(len, lines)) <= 330
    assert all(line.isprintable() for line in lines), "a terminal would obey what is no letter"


def test_warnings_of_a_loss_are_whole_and_plain(shown: dict[str, Any]) -> None:
    assert EVIL in shown["evaluation"].warning
    for kind in ("evaluation", "comparison"):
        lines = repr(shown[kind]).split("\n")
        lost = [i for i, line in enumerate(lines) if "LARGE LOSS in column" in line]
        assert lost and all(lines[i].endswith("a larger ε.") for i in lost)
        assert lines[lost[-1] + 1].startswith("NOT PRIVATE")


@pytest.mark.parametrize("kind", KINDS)
def test_a_notebook_gets_escaped_html(shown: dict[str, Any], kind: str) -> None:
    text = shown[kind]._repr_html_()
    found = Tags(text)
    assert found.tags <= {
        *("div", "p", "b", "table", "thead", "tbody", "tr", "th", "td"),
        *("svg", "title", "style", "rect", "text", "g"),
    }
    assert not {a for a in found.attributes if a.startswith("on")} | (found.attributes & {"src", "href"})
    assert "<script" not in text and "<img" not in text
    assert len(text) < 60_000


@pytest.mark.parametrize("kind", ["evaluation", "groups", "comparison"])
def test_what_is_not_private_says_so_in_both(shown: dict[str, Any], kind: str) -> None:
    for text in (repr(shown[kind]), shown[kind]._repr_html_()):
        assert "NOT PRIVATE: computed from the private table; do not publish" in text
    for other in ("schema", "plan", "screening", "release", "estimate", "among themselves"):
        assert "NOT PRIVATE" not in repr(shown[other]) + shown[other]._repr_html_()


def test_a_seeded_release_says_so(shown: dict[str, Any]) -> None:
    table = pa.table({"a": [0, 1] * 60})
    made = op.release(
        table, None, schema=Schema.from_sizes({"a": 2}), epsilon=1.0, delta=1e-9, mechanism=op.Mst(), seed=1
    )
    for text in (repr(made), made._repr_html_(), repr(made.certificate)):
        assert "NOT PRIVATE (seeded noise)" in text
    assert "NOT PRIVATE" not in repr(shown["release"])


def test_a_sheet_is_cut_and_aligned() -> None:
    sheet = Sheet("many", ("name", "size"), tuple((f"row {i}", f"{i:,}") for i in range(2000)), ("the end",))
    lines = sheet.text().split("\n")
    assert lines[:3] == ["many", "name    size", "row 0      0"]
    assert lines[-2:] == ["… and 1,984 more", "the end"]
    assert sheet.html().count("<tr>") == 17
    wide = Sheet("x" * 999, ("", ""), (("y" * 999, "z" * 999),)).text()
    assert max(map(len, wide.split("\n"))) <= 330 and "…" in wide


def test_listed_names_all_or_counts_the_rest() -> None:
    assert listed(["a", "b"], 2) == "a, b"
    assert listed([str(i) for i in range(2000)], 2) == "0, 1 and 1,998 more"


def test_the_long_ones_name_what_matters(shown: dict[str, Any]) -> None:
    assert re.search(r"^column 3 +categorical +3 values", repr(shown["schema"]), re.MULTILINE)
    assert "… and 15 more" in repr(shown["schema"])
    assert "ε = 1" in repr(shown["plan"]) and "Workload of 465 marginals" in repr(shown["workload"])


@pytest.mark.slow
def test_the_results_that_take_longer_print_short_too() -> None:
    schema = Schema.from_sizes({f"c{i}": 3 for i in range(4)})
    rng = np.random.default_rng(1)
    one, other = (pa.table({n: rng.integers(0, 3, 200) for n in schema.names}) for _ in range(2))
    given: dict[str, Any] = {"schema": schema, "epsilon": 1.0, "delta": 1e-9}
    made = op.release(one, other, mechanism=op.PublicProxy(), **given)
    grid = [op.Mst(), op.PublicProxy()]
    tuned = op.tune(other, grid=grid, seeds=1, workers=1, **given)
    for result in (op.evaluate_quality(made, one), tuned, op.audit(op.Mst(), runs=1, neighbours=1)):
        assert "<table>" in result._repr_html_()
        lines = repr(result).split("\n")
        assert 3 <= len(lines) <= 26 and max(map(len, lines)) <= 330
