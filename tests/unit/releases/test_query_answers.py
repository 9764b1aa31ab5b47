"""Queries by labels: what they count, what they say in a certificate, and their answers in the release."""

import dataclasses
import json
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.command_line import arguments
from openprior.errors import OpenPriorWarning, OptionError, ReleaseError, WorkloadError
from openprior.methods.shared.linear_answers import answers_of
from openprior.models.support import SupportModel
from openprior.privacy.events import event_from_dict
from openprior.privacy.ledger import Ledger
from openprior.privacy.measurement import Measurement
from openprior.privacy.statistics import QueryAnswers
from openprior.privacy.weighted_sums import WeightedSums
from openprior.questions.queries import Queries
from openprior.questions.query_labels import conditions_text, in_codes, in_labels, query_texts
from openprior.releases.intervals import known_answers
from openprior.releases.measurements import Measurements
from openprior.releases.query_answers import answered_queries
from openprior.tables.encode import encode_table

SCHEMA = op.Schema.from_toml(
    """
[columns.age]
kind = "integer"
bins = [0, 18, 30, 45, 60, 99]
missing = true
[columns.sex]
kind = "categorical"
values = ["F", "M", 'say "x", |=y']
[columns."home, area"]
kind = "categorical"
values = ["TX1", "TX2", "NY1"]
other = true
out_of_domain = "other"
[hierarchies.state]
column = "home, area"
prefix = 2
"""
)
DOMAIN = SCHEMA.domain
ROWS = 600


def table(seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    ages = rng.integers(0, 99, ROWS)
    return pa.table(
        {
            "age": pa.array(ages, mask=ages > 90),
            "sex": rng.choice(["F", "M", 'say "x", |=y'], ROWS),
            "home, area": rng.choice(["TX1", "TX2", "NY1", "elsewhere"], ROWS),
        }
    )


@pytest.mark.parametrize(
    ("query", "codes"),
    [
        ({"sex": "F"}, "where(sex=0)"),
        ({"sex": ["F", "M"], "age": "[18, 30)"}, "where(sex=0-1, age=1)"),
        ({"age": [17, "[45, 60)", "missing", 99.0]}, "where(age=0|3-5)"),
        ({"sex": 'say "x", |=y'}, "where(sex=2)"),
        ({"home, area": ("TX1", "other")}, 'where("home, area"=0|3)'),
        ({"state": "TX"}, 'where("home, area"=0-1)'),
        ({"state": "TX", "home, area": ["TX2", "NY1"]}, 'where("home, area"=1)'),
        ('where(sex="F"|"M", age="[18, 30)"-"[45, 60)")', "where(sex=0-1, age=1-3)"),
        ('where(sex=F, age="25")', "where(sex=0, age=1)"),
        ("where(sex=0, age=0-2|4)", "where(sex=0, age=0-2|4)"),
        ('where(age=0-1|"missing", sex=1)', "where(sex=1, age=0-1|5)"),
        ('ranges(age, "[0, 18)"-"[18, 30)", "[60, 99]", 0-3)', "ranges(age, 0-1, 4, 0-3)"),
        ("prefixes(age)", "prefixes(age)"),
        ('marginal(sex, "home, area")', 'marginal(sex, "home, area")'),
    ],
    ids=str,
)  # fmt: skip
def test_labels_become_codes(query: object, codes: str) -> None:
    (text,) = query_texts(query)
    assert in_codes(text, SCHEMA) == codes
    Queries.parse(codes, DOMAIN)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"sex": "W"}, "column 'sex' has no value 'W'; it has 'F', 'M'"),
        ({"sx": "F"}, "did you mean 'sex'"),
        ({"age": 120}, "no value '120'"),
        ({"age": "[18, 31)"}, "did you mean '[18, 30)'"),
        ({"age": []}, "allows nothing"),
        ({}, "counts all rows"),
        ({3: "F"}, "name columns by their texts"),
        ({"sex": None}, "such as 'missing'"),
        ({"state": "CA"}, "level 'state' has no value 'CA'; it has 'TX', 'NY', 'other'"),
        ({"state": "NY", "home, area": "TX1"}, "contradict"),
        ('where(sex="F", sex=1)', "not understood"),
        ('where(sex="F"', "not understood"),
        ('where(age="[45, 60)"-"[0, 18)")', "put the first label first"),
        ('ranges(age, "[0, 18)"-"[18, 30)"-"[60, 99]")', "not understood"),
        ("where(age=0-9)", "outside the codes"),
        ("nonsense", "not understood"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_is_reserved(query: object, said: str) -> None:
    ledger = Ledger()
    with pytest.raises(WorkloadError) as caught:
        op.release(
            table(1),
            table(2),
            schema=SCHEMA,
            epsilon=1,
            delta=1e-6,
            mechanism=op.Ide(queries=[query]),
            ledger=ledger,
        )
    assert said in str(caught.value)
    assert ledger.datasets() == []


def test_a_mechanism_that_nobody_told_the_schema_refuses_labels() -> None:
    with pytest.raises(WorkloadError, match="only a schema knows labels"):
        Queries.parse('where(sex="F")', DOMAIN)
    for wrong in (3, [3], [None]):
        with pytest.raises(OptionError):
            op.Ide(queries=wrong)
    assert op.Ide(queries={"sex": "F"}).queries == ('where(sex="F")',)


def test_codes_become_labels_again() -> None:
    labels = {c.name: c.labels for c in SCHEMA.columns}
    for text in (
        "prefixes(age)",
        'where("home, area"=0|2, sex=2, age=1-4)',
        "marginal(sex, age)",
        "ranges(age, 0-1, 5)",
    ):
        queries = Queries.parse(text, DOMAIN)
        again = [Queries.parse(in_codes(words, SCHEMA), DOMAIN) for words in in_labels(queries, labels, {})]
        assert all(q.marginal == queries.marginal for q in again)
        assert (np.concatenate([q.members for q in again]) == queries.members).all()
    assert in_labels(Queries.parse("where(age=1-4)", DOMAIN), labels, {"sex": 0}) == [
        'where(sex="F", age="[18, 30)"-"[60, 99]")'
    ]


def test_answers_and_intervals_against_counts_by_hand(tmp_path: Path) -> None:
    private = table(1)
    asked = [
        {"sex": "F", "age": ["[0, 18)", "missing"]},
        'ranges(age, "[0, 18)"-"[30, 45)", "[60, 99]")',
        {"state": "TX"},
    ]
    made = op.release(
        private, table(2), schema=SCHEMA, workload=[("age", "sex")], epsilon=20, delta=1e-6, seed=1,
        mechanism=op.Ide(choose="none", queries=asked), out=tmp_path / "r", format="csv",
    )  # fmt: skip
    assert made.certificate.options["queries"] == query_texts(asked)  # what was asked, as it was asked
    *events, errors = made.certificate.events
    assert [e.statistic.text for e in events] == [in_codes(t, SCHEMA) for t in query_texts(asked)]
    assert errors.statistic.kind == "errors"
    again = op.open_release(tmp_path / "r").answers()
    assert again.equals(made.answers())
    rows = [row for row in again.to_pylist() if row["query"] is not None]
    assert [row["query"] for row in rows] == [
        'where(age="[0, 18)"|"missing", sex="F")',
        'where(age="[0, 18)"-"[30, 45)")',
        'where(age="[60, 99]")',
        'where("home, area"="TX1"|"TX2")',
    ]
    people = private.to_pylist()
    truth = [
        sum(p["sex"] == "F" and (p["age"] is None or p["age"] < 18) for p in people),
        sum(p["age"] is not None and p["age"] < 45 for p in people),
        sum(p["age"] is not None and p["age"] >= 60 for p in people),
        sum(p["home, area"].startswith("TX") for p in people),
    ]
    for row, true in zip(rows, truth, strict=True):
        assert row["basis"] == "measured"
        assert row["low"] <= true <= row["high"] <= true + 9
        assert row["estimate"] == pytest.approx(true, abs=4)
        assert row["cell"] is None and row["age"] is None
    cells = [row for row in again.to_pylist() if row["query"] is None]
    assert len(cells) == 18 and all(row["age"] and row["sex"] for row in cells)


def test_queries_inside_a_part_say_the_part_and_sum_within_it() -> None:
    coded = encode_table(table(3), SCHEMA)
    model = SupportModel(coded, np.ones(ROWS), float(ROWS))
    people = table(3).to_pylist()
    text = "where(sex=1)"
    statistic = QueryAnswers.of(Queries.parse(text, DOMAIN))
    for part, inside in (
        ({"age": 1}, lambda p: p["age"] is not None and 18 <= p["age"] < 30),
        ({"state": 0}, lambda p: p["home, area"].startswith("TX")),
        ({"state": 0, "age": 5}, lambda p: p["home, area"].startswith("TX") and p["age"] is None),
    ):
        item = Measurement(statistic, np.array([11.0]), 2.0, "laplace", part)
        (answered,) = answered_queries(model, SCHEMA, Measurements(SCHEMA.full_domain, [item]))
        assert answered.numbers[0].tolist() == [sum(p["sex"] == "M" and inside(p) for p in people)]
        for key, code in part.items():
            label = SCHEMA.levels[key].labels[code] if key in SCHEMA.levels else SCHEMA[key].labels[code]
            assert f'{key}="{label}"' in answered.texts[0]
    known = known_answers(answers_of(item, Queries.parse(text, DOMAIN)))
    assert known.low[0] == pytest.approx(11 - (1.959964 + 3 * 0.0686) * 2 - 0.5, abs=0.01)
    assert known.high[0] - known.value[0] == pytest.approx(known.value[0] - known.low[0])


def test_queries_on_the_command_line_and_from_files(tmp_path: Path) -> None:
    spoken = arguments.mechanism("ide", ['queries=where(sex="F; M", age="[18, 30)"); prefixes(age)'])
    assert spoken.queries == ('where(sex="F; M", age="[18, 30)")', "prefixes(age)")
    grid = arguments.grid(['ide:queries=(where(age="[18, 30)"|"[30, 45)");prefixes(sex)),noise=laplace'])
    assert grid[0].queries == ('where(age="[18, 30)"|"[30, 45)")', "prefixes(sex)")
    (tmp_path / "q.toml").write_text(
        'queries = ["prefixes(age)", {sex = "F", age = ["[18, 30)", 45]}, {"home, area" = "TX1"}]\n'
    )
    (tmp_path / "q.csv").write_text('age,sex,"home, area"\n"[18, 30)|45",F,\n,,TX1\n')
    wanted = ('where(sex="F", age="[18, 30)"|"45")', 'where("home, area"="TX1")')
    assert arguments.mechanism("ide", [f"queries=@{tmp_path}/q.toml"]).queries == ("prefixes(age)", *wanted)
    assert arguments.mechanism("ide", [f"queries=@{tmp_path}/q.csv"]).queries == (
        'where(age="[18, 30)"|"45", sex="F")', wanted[1],
    )  # fmt: skip
    inner = arguments.mechanism("hierarchy", [f"inner=ide:queries=@{tmp_path}/q.csv,choose=none"])
    assert len(inner.inner.queries) == 2
    fitted = inner.fitted(SCHEMA)
    assert fitted.inner.queries == ("where(age=1|3, sex=0)", 'where("home, area"=0)')
    for name, content, said in (
        ("none.toml", None, "no file"),
        ("bad.toml", "queries = [", "not TOML"),
        ("empty.toml", "", "no queries"),
        ("odd.toml", "queries = 3", "no queries"),
        ("odd.csv", "age\n", "no queries"),
        ("all.csv", "age,sex\n,\n", "line 2"),
        ("wide.csv", "age\n1,2\n", "line 2"),
        ("latin.csv", b"age\n\xff\n", "UTF-8"),
        ("q.txt", "x", "TOML or CSV"),
    ):
        if content is not None:
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(OptionError, match=said):
            arguments.mechanism("ide", [f"queries=@{tmp_path}/{name}"])


def test_texts_survive_json() -> None:
    text = conditions_text({'a"b': ["x\\y", "é\n"]})
    assert json.loads(json.dumps(text)) == text
    schema = op.Schema.from_toml('columns.\'a"b\' = {kind = "categorical", values = ["x\\\\y", "z"]}')
    assert in_codes(conditions_text({'a"b': "x\\y"}), schema) == 'where("a""b"=0)'


def test_codes_that_look_like_values_are_warned_of() -> None:
    """Ages from 18 to 30 are no codes of bins; nothing is guessed, but it is said."""
    for text, said in (
        ("where(sex=1, age=3)", "3 is the code of '[45, 60)' in column 'age'"),
        ("ranges(age, 0-2)", "0 is the code of '[0, 18)'"),
    ):
        with pytest.warns(OpenPriorWarning) as caught:
            op.Ide(queries=[text]).fitted(SCHEMA)
        assert said in str(caught[0].message)
        assert "quote it" in str(caught[0].message)
    plain = op.Schema.from_sizes({"age": 4, "sex": 2})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        op.Ide(queries=["where(age=1-3, sex=0)", "prefixes(age)", "ranges(age, 0-2)"]).fitted(plain)
        op.Ide(queries=["where(sex=1)", {"age": 25}, 'where("home, area"=0)']).fitted(SCHEMA)


@pytest.mark.parametrize(
    ("noise", "relation", "kind"), [("gaussian", "replace-one", "parquet"), ("laplace", "add-remove", "csv")]
)
def test_hdmm_answers_queries_from_sums_with_exact_errors(
    noise: str, relation: str, kind: str, tmp_path: Path
) -> None:
    private = table(1)
    made = op.release(
        private, schema=SCHEMA, workload=1, epsilon=20, delta=0 if noise == "laplace" else 1e-6, seed=1,
        relation=relation, out=tmp_path / "r", format=kind,
        mechanism=op.Hdmm(noise=noise, queries=["prefixes(age)", {"sex": "F"}], query_share=0.7),
    )  # fmt: skip
    made.certificate.recheck()
    *_, sums, own = made.certificate.events
    assert isinstance(sums.statistic, WeightedSums) and isinstance(own.statistic, QueryAnswers)
    spent = [e.cost(made.certificate.unit, pure=noise == "laplace") for e in (sums, own)]
    limit = 20 if noise == "laplace" else made.certificate.rho
    assert spent == pytest.approx([0.35 * limit] * 2, rel=1e-6)
    again = op.open_release(tmp_path / "r").answers()
    assert again.equals(made.answers())
    rows = [row for row in again.to_pylist() if row["query"] is not None]
    people = private.to_pylist()
    truth = [sum(p["age"] is not None and p["age"] < top for p in people) for top in (18, 30, 45, 60, 100)]
    truth.append(sum(p["sex"] == "F" for p in people))
    assert [row["query"] for row in rows[:2]] == ['where(age="[0, 18)")', 'where(age="[0, 18)"|"[18, 30)")']
    for row, true in zip(rows, truth, strict=True):
        assert row["basis"] == "measured"
        assert row["low"] <= true <= row["high"] <= true + 12
        assert row["low"] <= row["estimate"] <= row["high"]
    assert rows[0]["standard_error"] != rows[3]["standard_error"]


def test_weights_that_were_changed_in_a_release_are_found(tmp_path: Path) -> None:
    """Lighter weights would make the same noise look as if it had cost less."""
    op.release(
        table(1), schema=SCHEMA, workload=1, epsilon=1, delta=1e-6, seed=1, out=tmp_path / "r",
        mechanism=op.Hdmm(queries=["prefixes(age)"]),
    )  # fmt: skip
    certificate = op.open_release(tmp_path / "r").certificate
    sums = certificate.events[-1]
    assert isinstance(sums.statistic, WeightedSums)
    lighter = [[row[0], *(max(1, w // 2) for w in row[1:])] for row in sums.statistic.weights]
    forged = event_from_dict({**sums.to_dict(), "weights": lighter})
    changed = dataclasses.replace(certificate, events=(*certificate.events[:-1], forged))
    with pytest.raises(ReleaseError, match="but was charged"):
        changed.recheck()


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_ide_can_be_bent_to_hdmm_answers(noise: str, relation: str) -> None:
    made = op.release(
        table(1), table(2), schema=SCHEMA, workload=[("age", "sex")], epsilon=20, seed=1, relation=relation,
        delta=0 if noise == "laplace" else 1e-6, error_bars=0,
        mechanism=op.Ide(choose="workload", queries=["prefixes(age)"], answers="hdmm", noise=noise),
    )  # fmt: skip
    made.certificate.recheck()
    assert isinstance(made.certificate.events[-1].statistic, WeightedSums)
    spent = made.certificate.epsilon_spent if noise == "laplace" else made.certificate.rho_spent
    assert spent == pytest.approx(20 if noise == "laplace" else made.certificate.rho, rel=1e-3)
    truth = np.bincount(encode_table(table(1), SCHEMA).column("age"), minlength=6)
    np.testing.assert_allclose(made.model.answers([("age",)])[("age",)], truth, atol=15)
    only = op.release(
        table(1), table(2), schema=SCHEMA, workload=[("age", "sex")], epsilon=20, seed=1, relation=relation,
        delta=1e-6, error_bars=0, mechanism=op.Ide(choose="none", queries=["prefixes(age)"], answers="hdmm"),
    )  # fmt: skip
    assert len(only.certificate.events) == (1 if relation == "replace-one" else 2)
