"""Identifiers are noted and left out of a draft; what only looks like one by its name or its values is not."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from openprior.errors import OpenPriorWarning, SchemaError
from openprior.schema.base import Schema

N = 600
RNG = np.random.default_rng(4)


def every(count: int) -> list[int]:
    """So many numbers, in turn."""
    return [7 * (i % count) for i in range(N)]


def words(count: int, word: str = "w") -> list[str]:
    return [f"{word}{i % count}" for i in range(N)]


def shuffled(values: Sequence[int]) -> list[int]:
    return [values[i] for i in RNG.permutation(len(values))]


LEFT_OUT: dict[str, list[Any]] = {
    "id": every(N),
    "patientID": every(N),
    "record_no": every(N - 100),
    "": list(range(N)),
    "email": words(N, "a@b"),
    "home_phone": words(N, "+49"),
    "uuid": words(N),
    "last name": words(450),
    "account nr": every(150),
    "remark": words(400, "free text "),
    "ids_with_gaps": [None if i % 9 == 0 else float(i) for i in range(N)],
    "subject": every(25),
    "customer_no": every(60),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_an_identifier_is_left_out_with_the_line_that_takes_it_in(name: str) -> None:
    table = pa.table({"sex": every(2), name: LEFT_OUT[name]})
    with pytest.warns(OpenPriorWarning, match=f'left out of the schema.*include=."{name}".') as said:
        schema = Schema.draft(table)
    assert len(said) == 1
    assert schema.names == ("sex",) and f'person_id = "{name}"' in schema.notes[name]
    assert schema.to_toml().startswith(f"# '{name}' looks like ")
    assert Schema.from_toml(schema.to_toml()) == schema
    assert Schema.draft(table, include=[name]).names == ("sex", name)
    assert Schema.draft(table, exclude=[name]).names == ("sex",)
    assert Schema.draft(table, person_id=name).person_id == name


PLAIN: dict[str, list[Any]] = {
    "phone": ["yes", "no"] * (N // 2),
    "no": every(2),
    "id": every(3),
    "region_no": every(40),
    "school name": words(30),
    "number_of_children": every(12),
    "number of steps": shuffled(every(N)),
    "income_cents": shuffled(every(N)),
    "idle": shuffled(every(N)),
    "height": list(RNG.normal(170, 10, N)),
    "id_score": list(RNG.normal(170, 10, N)),
    "occupation": words(200),
    "index_price": list(RNG.lognormal(3, 1, N)),
    "name_day": [f"2020-0{i % 9 + 1}-01" for i in range(N)],
}


@pytest.mark.parametrize("name", PLAIN)
def test_what_only_looks_like_one_stays(name: str) -> None:
    schema = Schema.draft(pa.table({"sex": every(2), name: PLAIN[name]}))  # a warning is an error here
    assert schema.names == ("sex", name) and "looks like" not in "".join(schema.notes.values())


def test_persons_with_several_rows() -> None:
    table = pa.table({"sex": every(2), "patient_id": every(150)})
    with pytest.warns(OpenPriorWarning, match="several rows each .150 values in 600 rows") as said:
        Schema.draft(table)
    assert "about one row and not about one person" in str(said[0].message)


def test_a_running_number_is_noted_and_stays() -> None:
    with pytest.warns(OpenPriorWarning, match='running number.*--exclude "n"'):
        schema = Schema.draft(pa.table({"sex": every(2), "n": shuffled(range(N))}))
    assert schema.names == ("sex", "n") and schema["n"].size <= 33
    for values in (every(N), [str(v) for v in every(N)], [None, *every(N)[1:]]):
        with pytest.warns(OpenPriorWarning, match="running number"):
            Schema.draft(pa.table({"sex": every(2), "n": values}))


def test_a_cut_list_of_values_is_noted() -> None:
    with pytest.warns(
        OpenPriorWarning, match="'job' has 250 values, of which the 100 most frequent are kept"
    ):
        schema = Schema.draft(pa.table({"job": words(250)}), max_values=100)
    assert schema["job"].size == 101


def test_missing_values_are_no_values() -> None:
    """Two of three are missing, and the rest differ."""
    text = ["" if i % 3 else f"text {i}" for i in range(N)]
    with pytest.warns(OpenPriorWarning, match="'remark' looks like an identifier"):
        Schema.draft(pa.table({"sex": every(2), "remark": text}))


def test_wishes_that_cannot_be() -> None:
    table = pa.table({"sex": every(2), "id": every(N)})
    with pytest.raises(SchemaError, match="no column 'x' to take in; it has sex, id"):
        Schema.draft(table, include=["x"])
    with pytest.raises(SchemaError, match="cannot be taken in and be left out"):
        Schema.draft(table, include=["id"], exclude=["id"])
    with pytest.raises(SchemaError, match="cannot be taken in and be the person id"):
        Schema.draft(table, include=["id"], person_id="id")
    with pytest.raises(SchemaError, match=r'every column of table looks like an identifier.*include "id"'):
        Schema.draft(table.select(["id"]))
