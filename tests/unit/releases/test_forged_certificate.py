"""Certificates that were tampered with, field by field: each is refused in one line, or says nothing untrue."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from openprior.errors import OtherFormat, ReleaseError
from openprior.releases.certificate import FORMAT, NOT_PRIVATE, Certificate
from openprior.releases.check import check_release
from tests.forgery import is_true, made, mutations, written

KINDS = ("mst", "parts", "pure", "together", "replaced", "regression")
FREE = re.compile(
    r"(: dataset and run swapped|mechanism|dataset|run|remarks|options|versions\.\w+|versions: \w+ and \w+ swapped"
    r"|description\.\w+|description: \w+ and \w+ swapped"
    r"|events swapped at \d+|events\.\d+\.(candidates|charged|regularisation|groups)"
    r"|events\.\d+: (factors and tables|tables and steps) swapped|events\.\d+\.factors swapped at \d+"
    r"|events\.\d+ without with_replacement|rho|format|rows| without rows)\b"
)
"""What says nothing of the promise: names, titles, options, remarks, how many candidates there were and whether they
were replaced, a regression's λ, which its numbers are scaled by, which values were merged (a CSV has no room for it),
which of the numbers that are multiplied with each other is which, of errors; in which order steps were taken that cost
the same in any; numbers changed within the last digits; how many rows there were; and the format, where nothing costs
otherwise in the one before."""


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("releases")
    for kind in KINDS:
        made(kind, place / kind)
    return {kind: place / kind for kind in KINDS}


SPENT = ("epsilon_spent", "rho_spent")


def text_of(folder: Path) -> bytes:
    return (folder / "certificate.json").read_bytes()


def refusal(text: bytes) -> str:
    with pytest.raises(ReleaseError) as caught:
        Certificate.from_json(text).recheck()
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400
    return str(caught.value)


def survives(folder: Path, text: bytes) -> bool:
    """Whether the folder passes with this certificate; anything but a ReleaseError goes through."""
    try:
        Certificate.from_json(text).recheck()
    except ReleaseError:
        return False
    whole = text_of(folder)
    (folder / "certificate.json").write_bytes(text)
    try:
        check_release(folder)
    except ReleaseError:
        return False
    finally:
        (folder / "certificate.json").write_bytes(whole)
    return True


def attack(folder: Path, every: int) -> tuple[int, int]:
    """How many changes were tried, and how many went through, none of which says anything untrue."""
    whole = text_of(folder)
    values = json.loads(whole)
    tried = passed = 0
    for number, (label, changed) in enumerate(mutations(values)):
        text = written(changed) if number % every == 0 else whole
        if text == whole:
            continue
        tried += 1
        if survives(folder, text):
            passed += 1
            assert FREE.match(label), label
            assert is_true(changed), label
            for name in ("epsilon", "delta", "relation", "rows_per_person", "noise", "schema_hash", "files"):
                assert changed[name] == values[name], label
    return tried, passed


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_that_was_changed_is_seen_or_says_nothing_untrue(folders: dict[str, Path], kind: str) -> None:
    assert is_true(json.loads(text_of(folders[kind])))
    tried, passed = attack(folders[kind], every=17)
    assert tried > 100
    assert passed < tried / 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_field_that_was_changed(folders: dict[str, Path], kind: str) -> None:
    tried, passed = attack(folders[kind], every=1)
    assert tried > 1500
    assert passed < tried / 5


def test_which_values_were_merged_is_what_the_numbers_say(tmp_path: Path) -> None:
    """A Parquet file has room for it: other groups, as many of them, are refused."""
    for attempt in range(30):  # which values are rare is for the noise to say
        folder = tmp_path / str(attempt)
        made("mst", folder, epsilon=0.1 + 0.03 * attempt)
        values = json.loads(text_of(folder))
        merged = [g for e in values["events"] for g in e.get("groups", []) if 1 < max(g) + 1 < len(g)]
        if merged:
            break
    assert merged
    assert survives(folder, written(values))
    for groups in merged:
        before, most = list(groups), max(groups)
        early = [min(i, most) for i in range(len(before))]
        groups[:] = (
            [max(0, most + 1 + i - len(before)) for i in range(len(before))] if before == early else early
        )
        assert not survives(folder, written(values))
        groups[:] = before


def test_bytes_of_a_certificate(folders: dict[str, Path]) -> None:
    folder = folders["parts"]
    whole = text_of(folder)
    for place in range(0, len(whole), len(whole) // 150):
        for flip in (0x01, 0x20, 0x80):
            text = whole[:place] + bytes([whole[place] ^ flip]) + whole[place + 1 :]
            if survives(folder, text):
                before, after = json.loads(whole), json.loads(text)
                assert is_true(after)
                changed = {k for k in before if before[k] != after[k]}
                assert changed <= {
                    "mechanism",
                    "dataset",
                    "run",
                    "options",
                    "versions",
                    "remarks",
                    "created",
                    "description",
                    *SPENT,
                    "events",
                }
                assert [after[k] for k in SPENT] == pytest.approx([before[k] for k in SPENT], rel=1e-6)
    for cut in (0, 1, len(whole) // 2, len(whole) - 1):
        refusal(whole[:cut])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"noise": "Secure"}, "noise must be one of"),
        ({"noise": "secure "}, "noise must be one of"),
        ({"noise": "NOT PRIVATE"}, "noise must be one of"),
        ({"epsilon": True}, "epsilon must be"),
        ({"epsilon": "1.0"}, "epsilon must be"),
        ({"epsilon": 1}, "not written as"),
        ({"delta": -0.0}, "delta must be"),
        ({"rows_per_person": 1.0}, "rows_per_person must be"),
        ({"rows_per_person": 10**18}, "event 0"),
        ({"epsilon": 1e200}, "cannot be reckoned with|gives|add up|is rho"),
        ({"rho": 1e308}, "gives|add up"),
        ({"created": "yesterday"}, "created must be"),
        ({"versions": {}}, "python is missing"),
        ({"more": 1}, "unknown field"),
        ({"rows": 0}, "rows must be"),
        ({"rows": 5.0}, "rows must be"),
        ({"rows": None}, "rows must be"),
        ({"format": 1.0}, "format must be"),
        ({"format": True}, "format must be"),
        ({"events": {}}, "events must be"),
        ({"files": {"../x": {"bytes": 1, "sha256": "0" * 64}}}, "no release writes"),
        ({"files": {"certificate.json": {"bytes": 1, "sha256": "0" * 64}}}, "no release writes"),
        ({"files": {"a": {"bytes": 1, "sha256": "0" * 63}}}, "SHA-256"),
        ({"files": {"a": {"bytes": True, "sha256": "0" * 64}}}, "bytes must be"),
        ({"files": {n: {"bytes": 1, "sha256": "0" * 64} for n in ("a", "A")}}, "capitals"),
    ],
)
def test_what_no_certificate_says(folders: dict[str, Path], change: dict[str, Any], said: str) -> None:
    for kind in KINDS:
        values = {**json.loads(text_of(folders[kind])), **change}
        assert re.search(said, refusal(written(values)))


def test_a_number_of_rows_that_is_private_is_in_no_certificate(folders: dict[str, Path]) -> None:
    all_values = [json.loads(text_of(folders[kind])) for kind in KINDS]
    private = [values for values in all_values if values["relation"] == "add-remove"]
    assert 0 < len(private) < len(KINDS)
    for values in private:
        assert "rows" not in values
        assert "rows is private" in refusal(written({**values, "rows": 7}))


def test_a_statement_that_the_numbers_do_not_give(folders: dict[str, Path]) -> None:
    for kind in KINDS:
        whole = text_of(folders[kind])
        for old, new in ((b"factor e^1", b"factor e^0.1"), (b"Differentially", b"Very differentially")):
            assert "its statement" in refusal(whole.replace(old, new))


def test_text_that_two_readers_would_read_differently(folders: dict[str, Path]) -> None:
    whole = text_of(folders["parts"])
    assert "twice" in refusal(whole.replace(b'"epsilon": 1.0', b'"epsilon": 9.0,\n "epsilon": 1.0', 1))
    assert "twice" in refusal(whole.replace(b'"number": 1,', b'"number": 1, "number": 2,', 1))
    for odd in (b"NaN", b"Infinity", b"-Infinity", b"1e999", b"9" * 5000):
        assert "cannot be read" in refusal(whole.replace(b'"delta": 1e-06', b'"delta": ' + odd))
    for harmless in (whole + b"\n", whole.replace(b"\n", b"\r\n"), whole.replace(b"1e-06", b"0.000001", 1)):
        assert "not written as" in refusal(harmless)
    for odd in (
        b"",
        b"\xff\xfe",
        b"\xef\xbb\xbf" + whole,
        b"[" * 10**6,
        b'{"a":' * 10**5,
        b"null",
        b"[]",
        b"1",
        b'"\\ud800"',
    ):
        refusal(odd)


def test_parts_without_keys_or_with_others_are_seen(folders: dict[str, Path]) -> None:
    values = json.loads(text_of(folders["parts"]))
    places = [i for i, e in enumerate(values["events"]) if e.get("part", {}).get("number") == 1]
    assert len(places) > 2
    for keys, codes, said in (
        ([], [], "needs different keys"),
        (["area", "area"], [0, 0], "different texts"),
        (["state"], [0], "different keys"),
        (["area", "x"], [0, 0], "different keys"),
        (["area"], [0, 1], "one code for each"),
    ):
        changed = json.loads(text_of(folders["parts"]))
        changed["events"][places[0]]["part"].update(keys=keys, codes=codes)
        assert said in refusal(written(changed))


def test_a_charge_that_hides_in_its_partition_is_seen(folders: dict[str, Path]) -> None:
    """Two parts whose steps become one part's: their costs then add up, and were not paid."""
    values = json.loads(text_of(folders["parts"]))
    inside = [e for e in values["events"] if e.get("part", {}).get("number") == 1]
    assert {tuple(e["part"]["codes"]) for e in inside} == {(0,), (1,), (2,)}
    for event in inside:
        event["part"]["codes"] = [0]
    assert "was not charged what its part adds" in refusal(written(values))


def test_a_pure_certificate_has_no_room_in_rho(folders: dict[str, Path]) -> None:
    values = json.loads(text_of(folders["pure"]))
    for name in ("rho", "rho_spent"):
        for factor, said in (
            (1.0001, "gives less than"),
            (2, "gives less than"),
            (0.9999, "gives more than"),
        ):
            assert said in refusal(written({**values, name: values[name] * factor}))


def test_a_promise_is_just_what_its_budget_gives(folders: dict[str, Path]) -> None:
    values = json.loads(text_of(folders["mst"]))
    for change in ({"epsilon": 2.0}, {"epsilon": 1.001}, {"delta": 1e-5}, {"epsilon_spent": 0.5}):
        refusal(written({**values, **change}))
    # Room that nothing fills: ε and ρ both larger, as if more had been allowed.
    refusal(written({**values, "rho": values["rho"] * 2}))


def test_another_format_is_not_called_damaged(folders: dict[str, Path]) -> None:
    values = json.loads(text_of(folders["mst"]))
    older = {k: v for k, v in values.items() if k not in ("format", "files")}
    newer = {**values, "format": FORMAT + 1, "more": ["of everything"]}
    for changed, said in ((older, "no format number"), (newer, f"format {FORMAT + 1}")):
        (folders["mst"] / "certificate.json").write_bytes(written(changed))
        with pytest.raises(OtherFormat, match=rf"another version of openprior \({said}") as caught:
            check_release(folders["mst"])
        assert "open it with that version" in str(caught.value)
        assert "damaged" not in str(caught.value)
    (folders["mst"] / "certificate.json").write_bytes(written(values))
    check_release(folders["mst"])


def test_only_secure_noise_is_private(folders: dict[str, Path]) -> None:
    certificate = Certificate.from_json(text_of(folders["mst"]))
    assert certificate.is_private
    for noise in (NOT_PRIVATE, "Secure", "", "secure?"):
        object.__setattr__(certificate, "noise", noise)
        assert not certificate.is_private
        assert "NOT PRIVATE" in certificate.statement
