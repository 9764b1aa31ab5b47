"""A prior that is kept: the same release as from the public table, refused where it does not belong, and recorded."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import openprior as op
from openprior.errors import OptionError, PriorError, PrivacyError
from openprior.models.prior.prior_cache import kept_files
from openprior.models.prior.prior_file import Stored, packed
from openprior.privacy.ledger import Ledger
from openprior.releases.certificate import Certificate
from openprior.releases.check import check_release

pytestmark = pytest.mark.usefixtures("few_particles", "no_syncs")

SCHEMA = op.Schema.from_toml(
    """
[columns.age]
kind = "integer"
bins = [0, 18, 30, 60, 99]
missing = true
[columns.sex]
kind = "categorical"
values = ["F", "M"]
[columns.height]
kind = "real"
bins = [1.0, 1.5, 1.75, 2.2]
"""
)
ASKED: dict[str, Any] = {"workload": 2, "epsilon": 1.0, "delta": 1e-6}


def people(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    ages, sex = rng.integers(0, 99, rows), rng.integers(0, 2, rows)
    height = np.round(1.4 + 0.5 * rng.random(rows) + 0.1 * sex, 2)
    return pa.table(
        {"age": pa.array(ages, mask=ages < 5), "sex": np.array(["F", "M"])[sex], "height": height}
    )


PRIVATE, PUBLIC = people(300, 1), people(200, 2)


@pytest.fixture(scope="module")
def prior() -> op.PublicPrior:
    return op.fit_prior(PUBLIC, schema=SCHEMA, workload=2)


@pytest.fixture(scope="module")
def file(prior: op.PublicPrior, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("kept") / "survey.prior"
    prior.save(path)
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENPRIOR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "priors"


def test_a_seeded_release_is_the_same_with_without_and_after_the_cache_and_from_a_prior(
    prior: op.PublicPrior, file: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, phases = [], []
    for _ in range(2):
        told: list[op.Progress] = []
        made.append(op.release(PRIVATE, PUBLIC, schema=SCHEMA, seed=3, progress=told.append, **ASKED))
        phases.append({progress.phase for progress in told})
    assert len(kept_files(cache)) == 1
    learning, from_cache = "learning from the public table", "prior: from the cache"
    assert [(learning in some, from_cache in some) for some in phases] == [(True, False), (False, True)]
    monkeypatch.setenv("OPENPRIOR_CACHE", "off")
    made.append(op.release(PRIVATE, PUBLIC, schema=SCHEMA, seed=3, **ASKED))
    made.append(op.release(PRIVATE, PUBLIC, prior=prior, seed=3, **ASKED))
    for other in made[1:]:
        assert other.synthetic.equals(made[0].synthetic)
        assert np.array_equal(other.model.weights, made[0].model.weights)  # type: ignore[attr-defined]
    alone = op.release(PRIVATE, prior=file, seed=3, **ASKED)
    assert all(map(np.array_equal, alone.codes.columns, made[0].codes.columns))
    assert alone.public is not None
    assert made[0].public is not None
    assert alone.public.to_dict() == made[0].public.to_dict()
    assert [release.certificate.prior for release in made[:3]] == [{}, {}, {}]
    assert alone.certificate.prior == made[3].certificate.prior == prior.recorded


def test_values_inside_bins_are_as_from_the_public_table(prior: op.PublicPrior) -> None:
    alone = op.release(PRIVATE, prior=prior, seed=3, **ASKED)
    both = op.release(PRIVATE, PUBLIC, schema=SCHEMA, seed=3, **ASKED)
    assert alone.certificate.values_inside == both.certificate.values_inside
    assert any(bins["public"] for bins in alone.certificate.values_inside.values())
    # Public heights have two digits; a uniform draw would have more.
    heights = [h for h in alone.synthetic["height"].to_pylist() if h is not None]
    assert sum(round(h, 2) == h for h in heights) > len(heights) / 3


def test_a_file_is_what_was_saved(prior: op.PublicPrior, file: Path) -> None:
    import hashlib

    again = op.open_prior(str(file))
    assert again.sha256 == prior.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()
    assert (again.schema, again.marginals, again.rows) == (SCHEMA, prior.marginals, 200)
    assert "200" in str(again)
    assert "copy of the public rows" in str(again)
    assert op.fit_prior(PUBLIC, schema=SCHEMA, workload=2).sha256 == prior.sha256


def test_the_certificate_records_it_and_check_accepts(file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    made = op.release(PRIVATE, prior=file, out=out, **ASKED)
    certificate = check_release(out)
    assert certificate.prior == made.certificate.prior
    assert set(certificate.prior) == {"sha256", "rows_sha256", "openprior"}
    assert certificate.prior["sha256"] in (out / "report.html").read_text(encoding="utf-8")
    text = json.loads((out / "certificate.json").read_text(encoding="utf-8"))
    for changed in (
        {"sha256": "0" * 63},
        {**text["prior"], "more": ""},
        {**text["prior"], "sha256": "x" * 64},
    ):
        forged = json.dumps({**text, "prior": changed}, indent=1, ensure_ascii=False)
        with pytest.raises(op.OpenPriorError, match="damaged"):
            Certificate.from_json(forged)


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "other rows": ({"public": people(200, 5)}, PriorError, "learnt from other rows than those of the public"),
    "other schema": ({"schema": op.Schema.draft(PUBLIC)}, PriorError, "learnt with another schema"),
    "other mechanism": ({"mechanism": "mst"}, OptionError, "mechanism 'mst' takes no prior; use tilt"),
    "hierarchy": ({"mechanism": "hierarchy:levels=sex"}, OptionError, "'hierarchy' takes no prior"),
    "the private table": ({"private": PUBLIC}, PrivacyError, "prior's public table has the same rows"),
    "the private table, mixed": (
        {"private": PUBLIC.take(np.arange(200)[::-1])},
        PrivacyError,
        "has the same rows, in another order,",
    ),
    "no prior": ({"prior": PUBLIC}, OptionError, "prior is a Table; give what openprior.fit_prior"),
    "no file": ({"prior": "nowhere.prior"}, PriorError, "there is no prior nowhere.prior; check the name"),
    "a folder": ({"prior": "."}, PriorError, r"\. is no file"),
    "no name": ({"prior": ""}, PriorError, "which no file can be called"),
}


@pytest.mark.parametrize(("changed", "error", "words"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_belong_is_refused_and_nothing_is_charged(
    prior: op.PublicPrior, tmp_path: Path, changed: dict[str, Any], error: type[Exception], words: str
) -> None:
    ledger = tmp_path / "budget.sqlite"
    call = {"private": PRIVATE, "prior": prior, "ledger": ledger, "dataset": "people", **ASKED, **changed}
    with pytest.raises(error, match=words) as caught:
        op.release(**call)
    assert "\n" not in str(caught.value)
    if ledger.exists():
        assert [d.committed for d in Ledger(ledger).datasets()] in ([], [0.0])


def forged(stored: Stored, *, facts: dict[str, Any] | None = None, **arrays: Any) -> bytes:
    left = {name: array for name, array in {**stored.arrays, **arrays}.items() if array is not None}
    return packed(Stored(stored.prior, stored.domain, {**stored.facts, **(facts or {})}, left))


def test_a_damaged_file_is_refused_in_one_line(prior: op.PublicPrior, tmp_path: Path) -> None:
    good = packed(prior.stored)
    codes = prior.stored.arrays["inside.0.codes"]
    sizes = op.Schema.from_sizes({"age": 5, "sex": 2, "height": 4})
    files = {
        "empty": b"",
        "text": b"a,b\n1,2\n",
        "cut": good[:-100],
        "schema": forged(prior.stored, facts={"schema": "[columns"}),
        "a schema too deep": forged(prior.stored, facts={"schema": "a = " + "[" * 10_000}),
        "other schema": forged(prior.stored, facts={"schema": sizes.to_toml()}),
        "marginals": forged(prior.stored, facts={"marginals": [["nobody"]]}),
        "no marginals": forged(prior.stored, facts={"marginals": []}),
        "a fact more": forged(prior.stored, facts={"other": 1}),
        "an array more": forged(prior.stored, other=np.zeros(1)),
        "an array less": forged(prior.stored, **{"inside.0.codes": None}),
        "bins outside": forged(prior.stored, **{"inside.0.codes": codes + 4}),
        "bins out of order": forged(prior.stored, **{"inside.0.codes": codes[::-1].copy()}),
        "values of another kind": forged(prior.stored, **{"inside.0.values": codes.astype(np.float64)}),
        "values outside": forged(prior.stored, **{"inside.0.values": np.full_like(codes, 1 << 62)}),
        "values that are none": forged(
            prior.stored, **{"inside.2.values": np.full_like(prior.stored.arrays["inside.2.values"], np.nan)}
        ),
    }
    path = tmp_path / "forged.prior"
    for what, data in files.items():
        path.write_bytes(data)
        with pytest.raises(
            PriorError, match=r"is no prior, or a damaged one: .*; copy it again, or"
        ) as caught:
            op.open_prior(path)
            pytest.fail(what)
        assert "\n" not in str(caught.value)


def test_a_file_of_another_format_says_so(prior: op.PublicPrior, tmp_path: Path) -> None:
    path, out = tmp_path / "newer.prior", io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("facts.json", '{"format": 7, "of": "tomorrow"}')
    path.write_bytes(out.getvalue())
    with pytest.raises(PriorError, match="made by another version of openprior: it has format 7"):
        op.open_prior(path)


def test_other_marginals_are_allowed_and_remarked(prior: op.PublicPrior) -> None:
    made = op.release(PRIVATE, prior=prior, seed=1, **{**ASKED, "workload": [("age", "sex")]})
    assert "The prior was learnt for other marginals than those of the workload." in made.certificate.remarks


def test_what_cannot_be_learnt_or_saved_is_said(prior: op.PublicPrior, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="only one row; a prior needs at least two"):
        op.fit_prior(PUBLIC.slice(0, 1), schema=SCHEMA)
    with pytest.raises(OptionError, match="at most 65,536 values"):
        op.fit_prior({"a": [0, 1, 2]}, schema=op.Schema.from_sizes({"a": 70_000}), workload=1)
    with pytest.raises(PriorError, match=r"cannot write the prior to .*; free space or choose another place"):
        prior.save(tmp_path / "no" / "folder.prior")
    assert not list(tmp_path.iterdir())


# What is kept, and what never is.


def test_a_kept_file_depends_on_the_public_table_and_not_on_the_private_one(cache: Path) -> None:
    op.release(PRIVATE, PUBLIC, schema=SCHEMA, **ASKED)
    (one,) = kept_files(cache)
    before = one.read_bytes()
    one.unlink()
    other = op.release(people(250, 9), PUBLIC, schema=SCHEMA, **{**ASKED, "epsilon": 3.0})
    (again,) = kept_files(cache)
    assert (again.name, again.read_bytes()) == (one.name, before)
    assert other.certificate.noise == "secure"


def test_nothing_is_kept_of_a_private_table_given_as_public(cache: Path) -> None:
    with pytest.raises(PrivacyError, match="the public table has the same rows"):
        op.release(PRIVATE, PRIVATE.take(np.arange(300)[::-1]), schema=SCHEMA, **ASKED)
    assert not cache.exists()


def test_rows_that_come_from_measurements_are_not_kept(cache: Path) -> None:
    """Inside groups the public table of tilt are rows of a noisy model."""
    grouped = op.Hierarchy(levels=(("sex",),), inner=op.Tilt())
    op.release(PRIVATE, PUBLIC, schema=SCHEMA, mechanism=grouped, seed=0, **ASKED)
    assert not cache.exists()


def test_mechanisms_without_a_prior_keep_nothing(cache: Path) -> None:
    op.release(PRIVATE, PUBLIC, schema=SCHEMA, mechanism="pmw-pub", seed=0, **ASKED)
    assert not cache.exists()
    assert [name for name, mechanism in op.mechanisms().items() if mechanism.takes_prior] == ["tilt"]


def test_a_broken_run_is_resumed_with_the_same_prior_only(file: Path, tmp_path: Path) -> None:
    call: dict[str, Any] = {
        "out": tmp_path / "out",
        "ledger": tmp_path / "budget.sqlite",
        "dataset": "people",
    }

    def stop(told: op.Progress) -> None:
        if told.phase == "writing the release":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        op.release(PRIVATE, prior=file, progress=stop, **call, **ASKED)
    with pytest.raises(op.OpenPriorError, match="prior"):
        op.release(PRIVATE, PUBLIC, schema=SCHEMA, resume=True, **call, **ASKED)
    made = op.release(PRIVATE, prior=file, resume=True, **call, **ASKED)
    assert made.certificate.prior == op.open_prior(file).recorded
