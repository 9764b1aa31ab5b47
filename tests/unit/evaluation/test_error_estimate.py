"""The workload error estimated through the curator: the exact one plus noise of the stated size, and charged."""

import json
from pathlib import Path

import numpy as np
import pytest

import openprior as op
from openprior.errors import BudgetExceeded, OpenPriorWarning, OptionError, ReleaseError
from openprior.evaluation.error_estimate import write_estimate
from openprior.privacy.ledger import Ledger
from openprior.releases.certificate import Certificate
from openprior.releases.seal import seal_of
from tests.conftest import arrow, random_table
from tests.formulas import pure_rho_by_hand

SIZES = {"a": 4, "b": 3, "c": 2, "d": 5}
SCHEMA = op.Schema.from_sizes(SIZES)
PRIVATE, PUBLIC = (arrow(random_table(SIZES, n, seed)) for n, seed in ((3000, 1), (400, 2)))


def made(relation: str = "replace-one") -> op.Release:
    return op.release(
        PRIVATE,
        PUBLIC,
        schema=SCHEMA,
        workload=op.all_marginals(2),
        epsilon=1.0,
        delta=1e-6,
        mechanism=op.PublicProxy() if relation == "replace-one" else op.Mst(),
        relation=relation,
        dataset="survey",
        seed=1,
    )


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("of", ["synthetic", "answers"])
def test_it_is_the_exact_error_plus_little_noise_and_its_interval_covers(of: str, delta: float) -> None:
    release = made()
    exact = op.evaluate(release, PRIVATE, of=of)
    seeds = range(120 if delta == 0 else 60)
    found = [op.estimate_error(release, PRIVATE, epsilon=0.5, delta=delta, of=of, seed=s) for s in seeds]
    errors = np.array([f.workload_error for f in found])
    # Half of the budget each; one person moves the first by 2/n, the second by 1/n.
    assert errors.mean() == pytest.approx(
        exact.workload_error, abs=3 * errors.std() / np.sqrt(len(seeds)) + 1e-3
    )
    if delta == 0:
        assert errors.std() == pytest.approx(np.sqrt(2) * 2 / (3000 * 0.25), rel=0.25)
    inside = np.mean([f.low <= exact.workload_error <= f.high for f in found])
    largest = np.mean([f.max_low <= exact.max_error <= f.max_high for f in found])
    assert inside >= 0.91
    assert largest >= 0.91
    assert not any(f.is_private for f in found)


def test_under_add_remove_it_is_a_share_of_the_released_rows() -> None:
    release = made("add-remove")
    found = op.estimate_error(release, PRIVATE, epsilon=5.0, seed=1)
    assert found.certificate.relation == "add-remove"
    assert found.workload_error == pytest.approx(op.evaluate(release, PRIVATE).workload_error, abs=0.1)


def test_with_a_private_number_of_rows_nothing_is_cut_off_above() -> None:
    with pytest.warns(OpenPriorWarning, match="fewer than 100 rows"):  # of the released number
        tiny = op.release(
            PRIVATE.slice(0, 400), PUBLIC.slice(0, 20), schema=SCHEMA, workload=op.all_marginals(1), epsilon=1.0,
            delta=1e-6, mechanism=op.PublicProxy(), relation="add-remove", seed=1,
        )  # fmt: skip
    n = tiny.synthetic.num_rows
    assert n < 100
    found = op.estimate_error(tiny, PRIVATE.slice(0, 400), epsilon=20.0, seed=1)
    assert found.low <= found.workload_error <= found.high
    assert found.workload_error == pytest.approx(400 / n - 1, rel=0.5)


def test_a_release_that_was_tampered_with_is_refused(tmp_path: Path) -> None:
    made().save(tmp_path / "r")
    path = tmp_path / "r" / "certificate.json"
    text = json.loads(path.read_text(encoding="utf-8"))
    for change in ({"rows_per_person": 3}, {"epsilon": 1e-3, "rho": 1.0}):
        path.write_text(json.dumps({**text, **change}), encoding="utf-8")
        with pytest.raises(op.OpenPriorError, match="damaged"):
            op.estimate_error(tmp_path / "r", PRIVATE, epsilon=0.1, seed=1)


def test_it_is_charged_to_the_releases_dataset_and_refused_beyond_its_budget() -> None:
    ledger = Ledger()
    ledger.set_budget("survey", epsilon=0.2, delta=0.0)
    found = op.estimate_error(made(), PRIVATE, epsilon=0.1, ledger=ledger)
    assert found.is_private
    found.certificate.recheck()
    assert found.certificate.epsilon_spent == pytest.approx(0.1)
    (status,) = ledger.datasets()
    assert float(status.committed) == pytest.approx(pure_rho_by_hand(0.1))
    with pytest.raises(BudgetExceeded):
        op.estimate_error(made(), PRIVATE, epsilon=0.2, ledger=ledger)


def test_what_is_written_may_be_published(tmp_path: Path) -> None:
    release = made()
    found = op.estimate_error(release, PRIVATE, epsilon=1.0)
    write_estimate(found, release, tmp_path / "estimate")
    assert {p.name for p in (tmp_path / "estimate").iterdir()} == {
        "certificate.json",
        "estimate.json",
        "report.html",
    }
    certificate = Certificate.from_json((tmp_path / "estimate" / "certificate.json").read_bytes())
    assert certificate == found.certificate
    assert certificate.files == seal_of(tmp_path / "estimate")
    assert set(certificate.files) == {"estimate.json", "report.html"}
    with pytest.raises(
        ReleaseError, match=r"not a release folder: its certificate lists no measurements\.parquet"
    ):
        op.open_release(tmp_path / "estimate")
    text = json.loads((tmp_path / "estimate" / "estimate.json").read_text(encoding="utf-8"))
    assert text["workload_error"] == found.workload_error
    assert text["statement"].startswith("Differentially private with ε = 1 and δ = 0")
    assert text["together"].endswith("ε = 2 and δ = 1e-06.")
    assert text["together"] in (tmp_path / "estimate" / "report.html").read_text(encoding="utf-8")


def test_clumsy_calls() -> None:
    with pytest.raises(OptionError, match="'rows' is unknown"):
        op.estimate_error(made(), PRIVATE, epsilon=1.0, of="rows", seed=1)
    with pytest.raises(op.OpenPriorError, match="epsilon"):
        op.estimate_error(made(), PRIVATE, epsilon=0.0, seed=1)
