"""Journals of broken runs that were cut, altered or mixed, and runs that are resumed otherwise than they began."""

import base64
import json
import random
import zlib
from pathlib import Path
from typing import Any

import openprior as op
from openprior.privacy.journal import Journal
from tests.fuzz.calls import Call, sound
from tests.fuzz.ledgers import alter
from tests.fuzz.odd import broken_bytes, odd_value
from tests.fuzz.stock import resume_options, take

__all__ = ["GENERATORS"]

FILE = "out.journal"
KEPT = frozenset({"budget.sqlite", FILE})


def _resume(draw: random.Random, what: str, **changed: Any) -> Call:
    """Resume the run, or open its journal."""
    if not changed and draw.random() < 0.3:

        def opened() -> int:
            journal = Journal.open(FILE)
            try:
                return len(journal)
            finally:
                journal.close()

        return Call(f"open {what}", opened, keeps=KEPT)
    options = {**resume_options(), **changed}
    return Call(f"resume {what}", lambda: op.release(**options), sound, frozenset({"out"}), KEPT)


def _stock() -> None:
    take("private.csv", "public.csv", "budget.sqlite", FILE)


def broken(draw: random.Random) -> Call:
    """Broken bytes, nothing, a folder."""
    _stock()
    file = Path(FILE)
    match draw.randrange(8):
        case 0:
            file.write_bytes(draw.choice((b"", b"\n", b"\0" * 100, b"{}\n", b"text\n", draw.randbytes(500))))
        case 1:
            file.unlink()
            if draw.random() < 0.5:
                file.mkdir()
        case _:
            file.write_bytes(broken_bytes(draw, file.read_bytes()))
    return _resume(draw, "a broken journal")


def lines(draw: random.Random) -> Call:
    """Lines swapped, doubled, left out."""
    _stock()
    parts = Path(FILE).read_bytes().splitlines(keepends=True)
    one, two = draw.randrange(len(parts)), draw.randrange(len(parts))
    match draw.randrange(4):
        case 0:
            parts[one], parts[two] = parts[two], parts[one]
        case 1:
            parts.insert(one, parts[two])
        case 2:
            del parts[one]
        case _:
            parts[one] = parts[one].rstrip(b"\n")
    Path(FILE).write_bytes(b"".join(parts))
    return _resume(draw, "a journal of other lines")


def forged(draw: random.Random) -> Call:
    """Records altered, with checksums that are right."""
    _stock()
    records = [json.loads(line)["record"] for line in Path(FILE).read_text().splitlines()]
    record = draw.choice(records)
    if draw.random() < 0.3 and "outcome" in record:
        array = base64.b64encode(zlib.compress(draw.randbytes(draw.choice((0, 8, 24, 7))))).decode()
        record["outcome"] = draw.choice(
            ({}, {"values": [1, 2]}, {"values": {"$array": ["<f8", [3], array]}}, {"values": odd_json(draw)})
        )
    else:
        part = record.get("header", record) if draw.random() < 0.8 else record
        key = draw.choice(sorted(part))
        if draw.random() < 0.2:
            del part[key]
        else:
            part[key] = odd_json(draw)
    before, content = 0, b""
    for record in records:
        body = json.dumps(record, separators=(",", ":")).encode()
        before = zlib.crc32(body, before)
        content += b'{"crc32":"%08x","record":%b}\n' % (before, body)
    Path(FILE).write_bytes(content)
    return _resume(draw, "a forged journal")


def odd_json(draw: random.Random) -> Any:
    """Something that JSON can hold."""
    return draw.choice(
        (
            None,
            True,
            0,
            -1,
            10**30,
            1.5,
            "",
            "x",
            [],
            {},
            [1],
            {"$float": "x"},
            {"$array": []},
            {"a": None},
            "5",
        )
    )


def changed(draw: random.Random) -> Call:
    """Resumed with other options, tables or files than it began with."""
    _stock()
    name = draw.choice(
        (
            "epsilon",
            "delta",
            "seed",
            "mechanism",
            "workload",
            "schema",
            "ledger",
            "out",
            "relation",
            "dataset",
            "public",
        )
    )
    value = (
        odd_value(draw)
        if draw.random() < 0.6
        else {"mechanism": op.PmwPub(rounds=2), "seed": 6, "epsilon": 1.0}.get(name)
    )
    if name == "seed" and value is None:
        value = -1
    if draw.random() < 0.2:
        Path("private.csv").write_text("city,age,pay\na,zqxsecret,1\n")
        name, value = "epsilon", 2.0
    if draw.random() < 0.1:
        take("other")
        Path("other").rename("out")
    kept = {str(value).partition("/")[0]} - {""} if name in ("ledger", "out") else set()
    call = _resume(draw, f"with {name} = {value!r:.200}", **{name: value})
    return Call(call.what, call.run, call.right, frozenset(), call.keeps | {"out"} | kept)


def altered_ledger(draw: random.Random) -> Call:
    """Resumed with a ledger that another program wrote to."""
    _stock()
    return _resume(draw, f"with a ledger after {alter(draw)}", ledger="budget.sqlite")


GENERATORS = (altered_ledger, broken, broken, lines, forged, forged, changed)
