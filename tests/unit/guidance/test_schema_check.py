"""What a schema does to a table: shares, words, noise; and nothing of a private table in any of it."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest

import openprior as op
from openprior.errors import LedgerError, OptionError, SchemaError
from openprior.privacy.calibrate import budget_rho
from openprior.privacy.ledger import Ledger
from tests.console import say

SCHEMA = op.Schema.from_toml("""
[columns.children]
kind = "integer"
low = 0
high = 0
missing = true
out_of_domain = "clip"

[columns.region]
kind = "categorical"
values = ["north", "south"]
other = true
out_of_domain = "other"

[columns.age]
kind = "integer"
bins = [0, 20, 40, 60]
""")
N = 4000


def table(seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "children": rng.choice(8, N, p=[0.24, 0.3, 0.2, 0.1, 0.06, 0.05, 0.03, 0.02]),
            "region": rng.choice(["north", "south", "Zanzibar"], N, p=[0.5, 0.4, 0.1]),
            "age": rng.integers(0, 60, N),
        }
    )


def test_of_a_public_table_it_shows_shares_and_a_few_values() -> None:
    check = SCHEMA.check(table())
    exact = table()["children"].to_numpy() > 0
    assert check.rows == N and check.notice is None
    assert check["children"].outside == check["children"].shares["above"] == exact.mean()
    assert check["children"].effects["above"] == "clipped to 0"
    assert set(check["children"].examples) <= set("1234567") and len(check["children"].examples) == 3
    assert check["region"].examples == ("Zanzibar",)
    assert check["age"].outside == 0 and check["age"].examples == ()
    assert 0.5 < check["age"].at_the_ends < 0.8
    assert [c.name for c in check.worst] == ["children", "region"]
    assert check.verdict.startswith("not held as they are: children 75")
    assert all(sum(c.shares.values()) == pytest.approx(1) for c in check.columns)


def test_of_a_private_table_it_shows_no_value_and_says_not_private() -> None:
    check = SCHEMA.check(table(), private=True)
    assert check.notice is not None and check.notice.startswith("NOT PRIVATE")
    assert all(c.examples == () for c in check.columns)
    assert "Zanzibar" not in json.dumps(check.as_dict())
    assert check["region"].outside == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_with_noise_it_is_charged_and_right(delta: float, relation: str) -> None:
    ledger = Ledger()
    ledger.set_budget("survey", rho=budget_rho(2.0, delta), epsilon=2.0, delta=delta)
    asked = {"epsilon": 1.0, "delta": delta, "relation": relation, "ledger": ledger, "dataset": "survey"}
    check = SCHEMA.check(table(), **asked)
    assert check.certificate is not None and check.certificate.is_private
    check.certificate.recheck()
    assert len(check.certificate.events) == 3
    assert float(ledger.datasets()[0].committed) > 0
    exact = SCHEMA.check(table(), private=True)
    for found, true in zip(check.columns, exact.columns, strict=True):
        assert found.reach is not None and 0 < found.reach < 0.02
        assert all(abs(found.shares[f] - true.shares[f]) < 4 * found.reach for f in true.shares)
    assert check.worst[0].name == "children"
    assert "Zanzibar" not in json.dumps(check.as_dict())


def test_shares_have_noise_of_the_stated_size() -> None:
    true = SCHEMA.check(table(), private=True)["children"].shares["above"]
    found = [SCHEMA.check(table(), epsilon=0.6, seed=s)["children"] for s in range(40)]
    errors = np.array([c.shares["above"] for c in found]) - true
    # A third of ε each, and one person moves a column's fates by 2 in L1.
    assert errors.std() == pytest.approx(np.sqrt(2) * 2 / 0.2 / N, rel=0.3)
    assert np.mean(np.abs(errors) <= found[0].reach) >= 0.85


def test_what_lies_outside_is_as_sure_as_it_says() -> None:
    true = {c.name: c.outside for c in SCHEMA.check(table(), private=True).columns}
    found = [c for s in range(30) for c in SCHEMA.check(table(), epsilon=0.6, seed=s).columns]
    assert np.mean([abs(c.outside - true[c.name]) <= c.outside_reach for c in found]) >= 0.9
    region = [c for c in found if c.name == "region"]
    # A text is listed or not: it lies in no bin, and neither below nor above, whatever the noise.
    assert {c.shares[fate] for c in region for fate in ("first", "last", "below", "above", "unreadable")} == {
        0.0
    }
    assert all(c.outside == c.shares["not listed"] and c.outside_reach == c.reach for c in region)
    assert {c.outside_reach / c.reach for c in found if c.name == "age"} == {np.sqrt(3)}


def test_a_table_that_the_schema_refuses_can_still_be_checked() -> None:
    strict = op.Schema.from_toml('[columns.age]\nkind = "integer"\nlow = 0\nhigh = 9\n')
    old = pa.table({"age": [3, 12, None, 5]})
    for check in (
        strict.check(old),
        strict.check(old, private=True),
        strict.check(old, epsilon=20.0, seed=1),
    ):
        assert check["age"].effects["above"] == check["age"].effects["missing"] == "refused"
    assert check["age"].shares["above"] == pytest.approx(0.25, abs=0.1)


def test_persons_count_as_often_as_in_a_release() -> None:
    schema = op.Schema.from_toml(
        'person_id = "who"\n[columns.age]\nkind = "integer"\nlow = 0\nhigh = 9\nout_of_domain = "clip"\n'
    )
    rows = pa.table({"who": ["a"] * 90 + ["b"], "age": [50] * 90 + [5]})
    assert schema.check(rows, private=True)["age"].shares["above"] == 0.5
    assert schema.check(rows)["age"].shares["above"] == 90 / 91  # a public table needs no limit


def test_clumsy_calls() -> None:
    with pytest.raises(OptionError, match="ledger without epsilon"):
        SCHEMA.check(table(), ledger="budget.json")
    with pytest.raises(OptionError, match="private"):
        SCHEMA.check(table(), private="yes")
    with pytest.raises(SchemaError, match="no column 'children'"):
        SCHEMA.check(pa.table({"region": ["north"]}))
    with pytest.raises(LedgerError):
        SCHEMA.check(table(), epsilon=1.0, ledger="nowhere.json")
    with pytest.raises(OptionError, match="'income' is not in the schema"):
        SCHEMA.check(table())["income"]


def test_on_the_command_line(tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "s.toml")
    pacsv.write_csv(table(), tmp_path / "t.csv")
    files = (str(tmp_path / "s.toml"), str(tmp_path / "t.csv"))
    public = say("schema", "check", *files)
    assert "read as a public table" in public.out and "Zanzibar" in public.out
    private = say("schema", "check", *files, "--private")
    assert "NOT PRIVATE" in private.out and "Zanzibar" not in private.out
    kept = tmp_path / "check.json"
    noisy = say("schema", "check", *files, "--epsilon", "1", "-o", str(kept))
    assert (
        "% above: clipped to 0" in noisy.out
        and " ± " in noisy.out
        and "ε = 1" in noisy.out
        and "No ledger" in noisy.out
    )
    assert json.loads(kept.read_text())["columns"]["children"]["outside"] == pytest.approx(0.76, abs=0.1)
    refused = say("schema", "check", *files, "--private", "-o", str(tmp_path / "other.json"))
    assert refused.code == 1 and "may be kept" in refused.err
