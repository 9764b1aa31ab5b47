"""How wrong a release is, as a file of its folder: there if it was measured, and refused if it cannot be."""

import copy
import itertools
import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openprior as op
from openprior.error_bars.error_question import default_share
from openprior.errors import OptionError, ReleaseError
from openprior.privacy.calibrate import budget_rho
from openprior.privacy.error_strata import ErrorStrata
from openprior.privacy.unit import Unit
from openprior.releases.check import check_release
from openprior.schema.domain import Domain
from tests.conftest import PRIVATE, PUBLIC, SIZES, arrow
from tests.forgery import made, mutations, seal_anew

FILE = "error_bars.json"
KINDS: dict[str, dict[str, Any]] = {
    "mst": {},
    "pure": {"format": "csv"},
    "parts": {},
    "replaced": {},
    "together": {},  # of exact answers, so there is none
    "weights": {"mechanism": op.Mwem(rounds=2)},
    "told": {"mechanism": op.Tilt(particles=1000, rounds=2)},  # of a model that says how sure it is
}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("releases")


@pytest.fixture(scope="module")
def releases(place: Path) -> dict[str, op.Release]:
    kind = {"told": "mst", "weights": "mst"}
    return {k: made(kind.get(k, k), place / k, **more) for k, more in KINDS.items()}


def same(one: op.Release, other: op.Release) -> None:
    """Every answer, to the last bit."""
    assert one.answers().equals(other.answers())
    for marginal in one.workload.marginals:
        assert one.answers(marginal).equals(other.answers(marginal))
    assert (one.error_bars is None) == (other.error_bars is None) == (FILE not in other.certificate.files)
    if one.error_bars is not None and other.error_bars is not None:
        assert one.error_bars.to_dict() == other.error_bars.to_dict()
        assert one.error_bars.statistic == other.error_bars.statistic
        assert one.error_bars.deviation == other.error_bars.deviation
        assert one.error_bars.unsure == other.error_bars.unsure


@pytest.mark.parametrize("kind", KINDS)
def test_reopened_it_says_the_same(
    kind: str, place: Path, releases: dict[str, op.Release], tmp_path: Path
) -> None:
    release, opened = releases[kind], op.open_release(place / kind)
    same(release, opened)
    again = op.open_release(opened.save(tmp_path / "copy", format="csv"))
    same(release, again)
    check_release(tmp_path / "copy")
    assert (tmp_path / "copy" / FILE).exists() == (kind != "together")


@pytest.mark.parametrize("kind", [k for k in KINDS if k != "together"])
def test_every_cell_of_the_workload_has_an_interval(kind: str, releases: dict[str, op.Release]) -> None:
    release = releases[kind]
    *others, last = release.certificate.events
    assert isinstance(last.statistic, ErrorStrata) and last.part is None  # type: ignore[attr-defined]
    assert not any(isinstance(getattr(e, "statistic", None), ErrorStrata) for e in others)
    assert release.error_bars is not None and (release.error_bars.known.own is not None) == (kind == "told")
    cells = [row for row in release.answers().to_pylist() if row.get("query") is None]
    assert {row["basis"] for row in cells} <= {"measured", "calibrated"}
    assert (
        any(row["basis"] == "calibrated" for row in cells) or kind != "replaced"
    )  # where no count is measured
    for row in cells:
        assert 0 <= row["low"] <= max(row["estimate"], 0.0) + 1e-9 or row["basis"] == "measured"
        assert row["low"] < row["high"] and row["standard_error"] > 0
    # A marginal that is wider than any of the workload was not looked at.
    if kind in ("mst", "told"):
        wide = set(release.answers(["a", "b", "c"])["basis"].to_pylist())
        assert "calibrated" not in wide


def refusal(folder: Path) -> str:
    seal_anew(folder)
    for look in (op.open_release, check_release):
        with pytest.raises(ReleaseError) as caught:
            look(folder)
        assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def folder(place: Path, releases: dict[str, op.Release], tmp_path: Path) -> Path:
    return Path(shutil.copytree(place / "told", tmp_path / "told"))


def test_it_is_there_if_it_was_measured_and_only_then(place: Path, folder: Path) -> None:
    text = (folder / FILE).read_bytes()
    (folder / FILE).unlink()
    assert "its error bars are not those of its certificate" in refusal(folder)
    for other, more in (("together", {}), ("mst", {"error_bars": 0})):
        without = folder.parent / other
        made(other, without, **more)
        check_release(without)
        assert not (without / FILE).exists()
        (without / FILE).write_bytes(text)
        assert "its error bars are not those of its certificate" in refusal(without)
    (folder / FILE).write_bytes(text)
    seal_anew(folder)
    check_release(folder)


def test_those_of_a_release_with_another_workload_are_refused(folder: Path) -> None:
    other = folder.parent / "other"
    op.release(
        arrow(PRIVATE), schema=op.Schema.from_sizes(SIZES), workload=3, epsilon=1.0, delta=1e-6, mechanism="mwem",
        out=other,
    )  # fmt: skip
    shutil.copy(other / FILE, folder / FILE)
    assert "its error bars are not of what is asked of such a workload" in refusal(folder)


def changed(group: int, name: str, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def apply(values: Any) -> Any:
        values["groups"][group][name] = change(values["groups"][group][name])
        return values

    return apply


def known(name: str, value: Any) -> Callable[[Any], Any]:
    return lambda v: {**v, "known": {**v["known"], name: value}}


def told(word: dict[str, Any]) -> Callable[[Any], Any]:
    return known("own", word)


ALTERED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no group": (lambda v: {**v, "groups": []}, "of no cell"),
    "a group less": (lambda v: {**v, "groups": v["groups"][1:]}, "not of what is asked"),
    "a group more": (
        lambda v: {**v, "groups": [*v["groups"], v["groups"][-1]]},
        "not of what is asked",
    ),
    "groups in another order": (lambda v: {**v, "groups": v["groups"][::-1]}, "not of what is asked"),
    "the same columns twice": (changed(1, "columns", lambda c: 2), "not of what is asked"),
    "columns that the workload has not together": (
        changed(2, "columns", lambda c: 5),
        "not of what is asked",
    ),
    "columns that are no whole number": (changed(1, "columns", lambda c: 1.0), "columns must be"),
    "other edges": (lambda v: {**v, "edges": [*v["edges"][:-1], 2e6]}, "not those of its certificate"),
    "fewer edges": (lambda v: {**v, "edges": v["edges"][:-1]}, "not those of its certificate"),
    "fewer numbers": (changed(1, "measured", lambda m: m[1:]), "other numbers than were measured"),
    "more numbers": (changed(2, "measured", lambda m: [*m, 0]), "other numbers than were measured"),
    "a number that is not whole": (changed(1, "measured", lambda m: [0.5, *m[1:]]), "other numbers than"),
    "a number that is true": (changed(1, "measured", lambda m: [True, *m[1:]]), "other numbers than"),
    "a number of more than 64 bits": (changed(1, "measured", lambda m: [1 << 63, *m[1:]]), "other numbers"),
    "a bin without cells": (changed(2, "cells", lambda c: [0, *c[1:]]), "bins that cannot be"),
    "a bin less than nothing": (changed(2, "cells", lambda c: [-1, *c[1:]]), "not negative"),
    "a bin too many": (changed(2, "cells", lambda c: [*c, 1.0]), "bins that cannot be"),
    "a bin too few": (changed(2, "size", lambda s: s[1:]), "bins that cannot be"),
    "a bin of size 0": (changed(2, "size", lambda s: [0, *s[1:]]), "bins that cannot be"),
    "a bin too small for its stratum": (changed(2, "size", lambda s: [*s[:-1], 0.02]), "bins that cannot be"),
    "a bin too large for its stratum": (changed(2, "size", lambda s: [1e4, *s[1:]]), "bins that cannot be"),
    "bins in a stratum that is not there": (
        changed(2, "stratum", lambda s: [12] * len(s)),
        "bins that cannot",
    ),
    "bins in another stratum": (changed(1, "stratum", lambda s: [i + 1 for i in s]), "bins that cannot be"),
    "more bins than can be": (
        lambda v: {**v, "groups": [*v["groups"][:-1], {**v["groups"][-1], **BINS}]},
        "bins that cannot be",
    ),
    "no cell at all": (
        lambda v: {
            **v,
            "groups": [
                v["groups"][0],
                *({**g, "size": [], "cells": [], "stratum": []} for g in v["groups"][1:]),
            ],
        },
        "of no cell",
    ),
    "a model's word on nothing": (told({"sizes": [], "errors": []}), "bins that cannot be"),
    "a model's word that is huge": (told({"sizes": [5.0], "errors": [1e300]}), "bins that cannot"),
    "a model's word of nothing": (told({"sizes": [5.0], "errors": [0]}), "bins that cannot"),
    "a model's word on huge cells": (told({"sizes": [1e300], "errors": [1.0]}), "bins that cannot"),
    "a model's word in no order": (told({"sizes": [5.0, 3.0], "errors": [1.0, 1.0]}), "bins that cannot"),
    "a model's word on the same twice": (
        told({"sizes": [5.0, 5.0], "errors": [1.0, 1.0]}),
        "bins that cannot",
    ),
    "a model's word on one more": (told({"sizes": [5.0], "errors": [1.0, 1.0]}), "bins that cannot"),
    "a model's word that is half said": (told({"sizes": [5.0]}), "errors is missing"),
    "no budget": (known("noise", 0), "noise must be"),
    "a budget below nothing": (known("noise", -1.0), "noise must be"),
    "a budget that is too blunt": (known("noise", 1e9), "a budget that cannot be"),
    "a budget that is too large": (known("noise", 1e-9), "a budget that cannot be"),
    "a public table that is no truth": (known("public", False), "public must be"),
    "something else that is known": (known("more", 1), "more"),
    "a list": (lambda v: [v], "no record"),
    "a text": (lambda v: "error bars", "no record"),
    "nothing": (lambda v: None, "no record"),
}
BINS = {"size": [1.0] * 401, "cells": [1.0] * 401, "stratum": [2] * 401}


@pytest.mark.parametrize("extreme", [1 - (1 << 63), (1 << 63) - 1, 0])
@pytest.mark.parametrize("cells", [1e6, 1e14, 1e-300])
def test_numbers_beyond_all_tables_do_no_harm(folder: Path, extreme: int, cells: float) -> None:
    values = json.loads((folder / FILE).read_text())
    told = {"size": [1e6], "cells": [cells], "stratum": [11], "measured": [extreme] * 12}
    values["groups"] = [{**g, **told} for g in values["groups"]]
    (folder / FILE).write_text(json.dumps(values))
    seal_anew(folder)
    try:
        opened = op.open_release(folder)
    except ReleaseError as error:
        assert "no curve fits" in str(error)
    else:
        answers = opened.answers(["a"]).to_pylist()
        assert all(np.isfinite([row["low"], row["high"]]).all() for row in answers)


@pytest.mark.parametrize("name", ALTERED)
def test_what_no_measurement_gives_is_refused(name: str, folder: Path) -> None:
    change, said = ALTERED[name]
    (folder / FILE).write_text(json.dumps(change(json.loads((folder / FILE).read_text()))))
    assert said in refusal(folder)


def test_text_that_is_no_json_is_refused(folder: Path) -> None:
    text = (folder / FILE).read_text()
    for odd in ("", "{", text + text, text.replace('"known"', '"edges"'), text.replace("12", "NaN", 1)):
        (folder / FILE).write_text(odd)
        assert FILE in refusal(folder)


def test_numbers_that_were_changed_are_seen_by_the_seal(folder: Path) -> None:
    """Who changes the seal as well can say any number; none of them breaks anything."""
    whole = (folder / FILE).read_text()
    values = json.loads(whole)
    other = copy.deepcopy(values)
    other["groups"][1]["measured"][3] += 1
    (folder / FILE).write_text(json.dumps(other))
    for look in (op.open_release, check_release):
        with pytest.raises(ReleaseError, match=r"damaged: error_bars\.json"):
            look(folder)
    opened = refused = 0
    for number, (label, forged) in enumerate(mutations(values)):
        if number % 41:
            continue
        (folder / FILE).write_text(json.dumps(forged))
        seal_anew(folder)
        try:
            release = op.open_release(folder)
        except ReleaseError as error:
            assert "\n" not in str(error), label
            refused += 1
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            answers = release.answers()
        assert release.error_bars is not None and np.isfinite(release.error_bars.unsure), label
        for name in ("standard_error", "low", "high"):
            assert np.isfinite(answers[name].to_numpy()).all(), label
        opened += 1
    assert refused > opened > 0


# Whether, and for how much.


def released(**more: Any) -> op.Release:
    options = {
        "epsilon": 1.0,
        "delta": 1e-6,
        "mechanism": op.Mwem(rounds=2),
        "workload": 2,
        "seed": 1,
        **more,
    }
    return op.release(arrow(PRIVATE), arrow(PUBLIC), schema=op.Schema.from_sizes(SIZES), **options)


@pytest.mark.parametrize("share", [0.02, 0.3, 0.5])
def test_the_share_that_is_given_is_what_it_gets(share: float) -> None:
    for delta, pure in ((1e-6, False), (0.0, True)):
        mechanism = op.Ide(noise="laplace") if pure else op.Mwem(rounds=2)
        certificate = released(error_bars=share, delta=delta, mechanism=mechanism).certificate
        *others, last = [e.cost(certificate.unit, pure=pure) for e in certificate.events]
        limit = 1.0 if pure else certificate.rho
        assert last == pytest.approx(share * limit, rel=1e-9)
        assert sum(others) == pytest.approx((1 - share) * limit, rel=1e-6)
        certificate.recheck()


def test_it_can_be_left_out_and_some_mechanisms_have_none() -> None:
    without = released(error_bars=0)
    assert without.error_bars is None
    assert {"model", "none", "measured"} >= set(without.answers()["basis"].to_pylist())
    spent = sum(e.rho for e in without.certificate.events)
    assert spent == pytest.approx(budget_rho(1.0, 1e-6), rel=1e-6), "all of the budget is the mechanism's"
    for share in (None, 0.3):  # its intervals are exact
        exact = released(mechanism="hdmm", error_bars=share)
        assert exact.error_bars is None and set(exact.answers()["basis"].to_pylist()) == {"measured"}
    public = released(mechanism="public")
    assert public.error_bars is None and public.certificate.events == ()
    asked = released(mechanism="public", error_bars=0.3)
    assert len(asked.certificate.events) == 1
    assert set(asked.answers()["basis"].to_pylist()) == {"calibrated"}


def test_if_nothing_is_said_it_takes_what_it_needs_and_no_more() -> None:
    """The larger the table, the smaller a share tells how large its errors are; from 3 to 1 %."""
    work = op.all_marginals(2).on(Domain(SIZES))
    for unit, delta in itertools.product((Unit(), Unit("add-remove"), Unit(rows_per_person=3)), (1e-6, 0.0)):  # type: ignore[arg-type]
        shares = [
            default_share(work, None, n, unit, epsilon=1.0, delta=delta, rng=np.random.default_rng(1))
            for n in (10**4, *(10**6 * 2**k for k in range(12)), 10**14)
        ]
        assert shares[0] == 0.03 and shares[-1] == 0.01
        assert shares == sorted(shares, reverse=True)
        assert any(0.01 < share < 0.03 for share in shares)
    certificate = released().certificate
    assert certificate.events[-1].rho / certificate.rho == pytest.approx(0.03)


@pytest.mark.parametrize("share", [-0.1, 1e-300, 0.51, 1, float("nan"), float("inf"), "0.1%", True, [0.1]])
def test_a_share_that_cannot_be_is_refused_before_anything(share: Any, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="error_bars"):
        released(error_bars=share, ledger=tmp_path / "budget.sqlite", out=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
