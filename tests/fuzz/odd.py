"""Values that are not what anybody asked for; private tables in the wrong place are among them."""

import math
import random
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

__all__ = ["NUMBERS", "VALUES", "WORDS", "broken_bytes", "odd_value"]

NUMBERS: tuple[Any, ...] = (
    0, -1, 1, 2, 10**6, 10**20, 10**400, -(10**30), 0.0, -0.0, 0.5, 1.5, 5e-324, 1e-300, 1e308, math.nan, math.inf,
    -math.inf, True, False, Fraction(1, 3), Decimal("0.1"), Decimal("NaN"), np.float64(0.5), np.float32(1e-9),
    np.int64(3), np.uint8(1), np.bool_(True),
)  # fmt: skip
WORDS = (
    "", " ", "x", "1", "-1", "nan", "1e400", "-inf", "0x10", "1_000", "٣", "ε", "a\nb", "\0", "\ud800", "'", '"',
    "%s", "{}",
    "../x", "/", "~", "a" * 3000, "city", "age", "age,pay", ";", ",", "None", "true", "\U0001f600", "\u202e", "a,b;c",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, *NUMBERS, *WORDS, b"", b"x\xff", [], [1], ["a"], [["a"]], (), {}, {"a": 1}, set(), {1}, range(3), object,
    len,
    pd.DataFrame({"note": ["zqxsecret", "zqxsecret"]}), pa.table({"note": ["zqxsecret"]}), 3 + 4j, date(2020, 1, 1),
    np.array([1, 2]), np.array("x"), np.zeros((2, 2)), ..., NotImplemented, ValueError("x"),
)  # fmt: skip


def odd_value(draw: random.Random) -> Any:
    """One of them; numbers and words are likely."""
    return draw.choice(draw.choice((NUMBERS, WORDS, VALUES)))


def broken_bytes(draw: random.Random, content: bytes) -> bytes:
    """Cut, with bytes flipped, filled, doubled or moved."""
    if not content:
        return content
    at, to = sorted(draw.randrange(len(content) + 1) for _ in range(2))
    match draw.randrange(8):
        case 0:
            return content[:at]
        case 1:
            return content[at:]
        case 2:
            return content[:at] + content[to:]
        case 3:
            return content[:to] + content[at:]
        case 4:
            return content[:at] + bytes(to - at) + content[to:]
        case 5:
            return content[:at] + draw.randbytes(8) + content[at:]
        case 6:
            return content + draw.randbytes(draw.choice((1, 100)))
        case _:
            flipped = bytearray(content)
            for _ in range(draw.choice((1, 1, 4, 40))):
                flipped[draw.randrange(len(flipped))] ^= 1 << draw.randrange(8)
            return bytes(flipped)
