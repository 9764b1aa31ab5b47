"""Errors by group against numbers worked out by hand, and their picture."""

import xml.etree.ElementTree as ET

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.errors import OptionError
from openprior.report.heat import heat_picture
from openprior.tables.encode import encode_table

SCHEMA = op.Schema.from_sizes({"area": 3, "year": 2, "x": 2, "y": 2})


def table(rows: list[tuple[int, int, int, int]]) -> pa.Table:
    return pa.table(dict(zip(SCHEMA.names, zip(*rows, strict=True), strict=True)))


def test_two_groups_by_hand() -> None:
    # Area 0: private (0,0)×3, (1,1)×1; released (0,0)×1, (1,1)×1: |3/4 − 1/2| + |1/4 − 1/2| = 0.5.
    # Area 1: equal shares, so 0 whatever the number of rows.
    private = table([(0, 0, 0, 0)] * 3 + [(0, 0, 1, 1)] + [(1, 1, 0, 1)] * 2)
    released = table([(0, 0, 0, 0), (0, 0, 1, 1)] + [(1, 1, 0, 1)] * 5 + [(2, 0, 0, 0)])
    found = op.evaluate_groups(released, private, ["area", "year"], schema=SCHEMA, marginals=None)
    assert found.labels == (("0", "0"), ("1", "1"))
    np.testing.assert_allclose(found.errors, [0.5, 0.0])
    assert found.error == pytest.approx(0.25)
    assert found.counts_off.tolist() == [-2, 3]
    assert found.stray == 1
    assert found.penalised == 0
    assert found.worst[0] == (("0", "0"), 0.5)
    assert "NOT PRIVATE" in found.notice


def test_the_penalty_starts_where_it_says() -> None:
    private = table([(0, 0, 0, 0)] * 10)
    for rows, expected in ((12, 0.0), (13, 2.0), (7, 2.0), (8, 0.0)):
        found = op.evaluate_groups(
            table([(0, 0, 0, 0)] * rows), private, ["area"], schema=SCHEMA, marginals=None, penalty=3
        )
        assert found.error == expected
        assert found.penalised == int(expected > 0)


def test_a_group_without_released_rows() -> None:
    private, released = table([(0, 0, 0, 0), (1, 0, 0, 0)]), table([(0, 0, 0, 0)])
    found = op.evaluate_groups(released, private, ["area"], schema=SCHEMA, marginals=None)
    np.testing.assert_allclose(found.errors, [0.0, 1.0])


def test_random_marginals_are_repeatable_and_encoded_tables_do() -> None:
    rng = np.random.default_rng(0)
    sizes = {"g": 2, **{f"c{i}": 3 for i in range(6)}}
    schema = op.Schema.from_sizes(sizes)
    tables = [pa.table({n: rng.integers(0, s, 200) for n, s in sizes.items()}) for _ in range(2)]
    first, again = (
        op.evaluate_groups(tables[0], tables[1], ["g"], schema=schema, marginals=4, seed=3) for _ in range(2)
    )
    assert (first.errors == again.errors).all()
    other = op.evaluate_groups(tables[0], tables[1], ["g"], schema=schema, marginals=4, seed=4)
    assert (first.errors != other.errors).any()
    codes = [encode_table(t, schema) for t in tables]
    same = op.evaluate_groups(codes[0], codes[1], ["g"], schema=schema, marginals=4, seed=3)
    assert (first.errors == same.errors).all()


def test_clumsy_users_are_told() -> None:
    rows = table([(0, 0, 0, 0)])
    with pytest.raises(OptionError, match="schema"):
        op.evaluate_groups(rows, rows, ["area"])
    with pytest.raises(OptionError, match="leave some"):
        op.evaluate_groups(rows, rows, list(SCHEMA.names), schema=SCHEMA)
    with pytest.raises(op.OpenPriorError, match="nowhere"):
        op.evaluate_groups(rows, rows, ["nowhere"], schema=SCHEMA)


def test_the_picture_has_groups_down_and_years_across() -> None:
    private = table([(0, 0, 0, 0), (0, 1, 0, 0), (2, 1, 1, 1)])
    released = table([(0, 0, 0, 0), (0, 1, 1, 1), (2, 1, 1, 1)])
    found = op.evaluate_groups(released, private, ["area", "year"], schema=SCHEMA, marginals=None)
    picture = ET.fromstring(found.picture())
    texts = [e.text for e in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("0.00") == 2
    assert texts.count("2.00") >= 1  # the cell, and the end of the scale
    assert any("NOT PRIVATE" in str(t) for t in texts)


SVG = "{http://www.w3.org/2000/svg}"


def test_labels_are_escaped_and_gaps_left_white() -> None:
    drawn = heat_picture(["<a&b>"], ["1", "2"], np.array([[0.5, np.nan]]), 'a "title" <b>')
    picture = ET.fromstring(drawn)
    texts = [e.text for e in picture.iter(f"{SVG}text")]
    assert "<a&b>" in texts and 'a "title" <b>' in texts
    assert texts.count("0.50") == 2  # the cell, and the end of the scale
    (cell,) = picture.iter(f"{SVG}g")
    assert cell.findtext(f"{SVG}title") == "<a&b>, 1: 0.500"


def test_the_picture_needs_no_other_file_and_says_all_of_its_title() -> None:
    title = "errors " * 60 + "NOT PRIVATE"
    drawn = heat_picture(["a"], ["two\nlines"], np.array([[1.0]]), title)
    picture = ET.fromstring(drawn)
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "") and "url(" not in drawn
    heads = [e for e in picture.iter(f"{SVG}text") if e.get("class") == "head"]
    assert " ".join(str(e.text) for e in heads) == title
    cell = next(e for e in picture.iter(f"{SVG}rect") if e.get("fill-opacity"))
    assert float(cell.get("y", 0)) > max(float(e.get("y", 0)) for e in heads) + 24
    assert cell.get("fill-opacity") == "1.00"
