"""What the report opens with, what the schema can say, and labels that stay readable."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import csv

import openprior as op
from openprior.errors import OpenPriorError, OpenPriorWarning
from openprior.releases import release as resumed
from openprior.releases.certificate import Certificate
from openprior.releases.description import described_as
from openprior.releases.result import Release
from openprior.report import render
from openprior.report.heat import heat_picture, text_width
from openprior.report.scope import scope_of
from openprior.schema.base import Schema
from openprior.schema.bins import Integer, Real
from openprior.schema.columns import Categorical

LONG = ("never married, living with parents or relatives", "married", "no answer")
SCHEMA = Schema(
    (
        Real(name="income", bins=(0, 12_000, 30_000, 250_000), out_of_domain="clip", missing=True),
        Integer(name="age", bins=(18, 40, 99)),
        Categorical(name="status", values=LONG, other=True, out_of_domain="other"),
    )
)
SAID = {"title": "Survey <2024>", "about": "Two\n\nparagraphs & <b>", "contact": "office@example.org"}


def rows(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "income": rng.uniform(0, 240_000, 200),
            "age": rng.integers(18, 99, 200),
            "status": rng.choice(LONG, 200).tolist(),
        }
    )


def release(public: Any, **more: Any) -> Release:
    given = {"epsilon": 1.0, "delta": 1e-9, "workload": op.all_marginals(1), "schema": SCHEMA, **more}
    return op.release(rows(1), public, mechanism=op.PublicProxy(), **given)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("head")
    csv.write_csv(rows(2), place / "survey-2023.csv")
    release(place / "survey-2023.csv", out=place / "made", dataset="survey-2024", **SAID)
    return place / "made"


def test_the_head_is_kept_under_seal_and_shown(folder: Path) -> None:
    made = op.open_release(folder)
    assert made.certificate.description.to_dict() == {**SAID, "public": "survey-2023"}
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert (
        "<h1>Survey &lt;2024&gt;</h1>" in page
        and "<title>Survey &lt;2024&gt;, release report</title>" in page
    )
    assert "Two\n\nparagraphs &amp; &lt;b&gt;" in page and "Contact: office@example.org" in page
    assert "the public table <b>survey-2023</b> of 200 rows" in page and "(survey-2024)" in page
    text = (folder / "certificate.json").read_bytes()
    assert Certificate.from_json(text).to_json().encode() == text
    for change in ((b'"contact"', b'"contacts"'), (b'"office@example.org"', b"7")):
        with pytest.raises(OpenPriorError, match="damaged"):
            Certificate.from_json(text.replace(*change))


def test_without_a_head_the_dataset_is_the_title() -> None:
    page = render(release(rows(2), dataset="people"))
    assert "<h1>people</h1>" in page and "with a public table of 200 rows" in page
    assert "Contact" not in page and 'class="about"' not in page


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"title": 7}, "title cannot be 7"),
        ({"title": "two\nlines"}, "control character"),
        ({"title": "x" * 201}, "the title has 201 letters; use at most 200"),
        ({"about": "bell \x07"}, "control character"),
        ({"contact": "\ud800"}, "cannot be written as UTF-8"),
        ({"about": rows(1)}, "about cannot be a Table"),
    ],
)
def test_a_head_that_cannot_be_is_refused_before_anything_is_read(given: dict[str, Any], said: str) -> None:
    with pytest.raises(OpenPriorError, match=said):
        op.release("no such private table", epsilon=1.0, delta=1e-9, **given)


def test_a_head_is_stripped_and_may_have_lines() -> None:
    assert described_as(" a ", "b\n\tc", None).to_dict() == {
        "title": "a",
        "about": "b\n\tc",
        "contact": "",
        "public": "",
    }


def test_a_head_that_comes_too_late_is_told(folder: Path) -> None:
    """A run that was stopped after its folder was written is finished as it is."""
    made = op.open_release(folder)
    for given in (described_as(None, None, None), described_as(*SAID.values())):
        resumed._same_description(made, given)
    with pytest.warns(OpenPriorWarning, match="stay as they were"):
        resumed._same_description(made, described_as("another", None, None))


def test_the_schema_says_what_it_can_say(folder: Path) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    section = page[page.index('<section id="scope">') : page.index('<section id="columns">')]
    plain = [
        re.sub(r"<[^>]+>", " ", row).split() for row in re.findall(r"<tr>(.*?)</tr>", section, re.DOTALL)
    ]
    said = [" ".join(words) for words in plain[1:]]
    beside = "a value of its own 3 bins from public rows"
    assert said[0] == f"income real 0 to 250,000 3 bins moved to the nearest end {beside}"
    assert said[1] == "age integer 18 to 99 2 bins refused refused 2 bins from public rows"
    assert said[2].endswith("3 values told as “other” told as “other” –")
    assert "The ends of <b>income</b> also hold" in section and "spread evenly" not in section


def test_where_values_inside_bins_came_from() -> None:
    inside = {"income": {"public": 1, "uniform": 2}, "age": {"public": 2, "uniform": 0}}
    scope = scope_of(SCHEMA, inside)
    assert [row.inside for row in scope.rows] == [
        "1 bin from public rows, 2 bins spread evenly",
        "2 bins from public rows",
        "",
    ]
    assert scope.uniform == ("income",) and scope.knows_inside
    poor = rows(2).filter(pc.less(rows(2)["income"], 12_000))
    page = render(release(poor))
    assert "In some bins of <b>income</b> the synthetic values are spread evenly" in page
    assert "1 bin from public rows, 2 bins spread evenly" in page


def test_open_ends_are_told() -> None:
    pay = Real(name="income", bins=(0, 12_000, 30_000, 250_000), out_of_domain="open", missing=True)
    page = render(release(rows(2), schema=Schema((pay, *SCHEMA.columns[1:]))))
    assert "below 12,000 … 30,000 or more" in page and "in the first or last bin, which have no end" in page
    assert "also hold everything" not in page


def test_bins_are_spelled_for_a_reader(folder: Path) -> None:
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "12,000 to below 30,000" in page and "18 to 39" in page
    assert "real, 3 bins, missing" in page and "categorical, 3 values, other" in page
    assert "12000" not in page and "[18, 40)" not in page
    assert 'class="rows above two"' in page and 'class="rows beside"' in page


def test_names_that_are_too_long_lose_their_middle_and_fit() -> None:
    names = ["household income before tax and transfers", "household income after tax and transfers", "x"]
    drawn = heat_picture(names, names, np.full((3, 3), 0.03), "errors")
    texts = re.findall(r'<text[^>]*text-anchor="(?:end|middle)">([^<]*)</text>', drawn)
    labels = [t for t in texts if "…" in t]
    assert len(labels) >= 2 and all(t.startswith("house") and t.endswith("s") for t in labels)
    assert max(map(text_width, labels)) <= 260
    assert "0.0300" in drawn, "small errors keep their digits"
