"""A heat map as SVG, without a plotting library: one coloured cell a number, which is written in it."""

import html
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["heat_map"]

_CELL, _ROW, _LEFT, _TOP = 64, 18, 150, 78
# From light to dark in one hue, so that it also reads in grey.
_LIGHT, _DARK = (247, 251, 255), (8, 48, 107)


def heat_map(
    down: Sequence[str],
    across: Sequence[str],
    values: NDArray[np.float64],
    title: str,
    *,
    most: float | None = None,
) -> str:
    """Rows × columns of numbers; nan is left white. The scale goes from 0 to `most`, or the largest number.

    >>> "0.25" in heat_map(["a"], ["2019"], np.array([[0.25]]), "errors")
    True
    """
    top = most or max((float(v) for v in values.ravel() if not math.isnan(v)), default=1.0) or 1.0
    width, height = _LEFT + _CELL * len(across) + 20, _TOP + _ROW * len(down) + 46
    width = max(width, 460)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif" font-size="11" role="img">',
        f"<title>{html.escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="white"/>',
        *_wrapped(title, width),
    ]
    for j, label in enumerate(across):
        for k, part in enumerate(label.split("\n")):
            y = _TOP - 20 + 12 * k
            x = _LEFT + _CELL * (j + 0.5)
            lines.append(f'<text x="{x}" y="{y}" text-anchor="middle">{html.escape(part)}</text>')
    for i, label in enumerate(down):
        y = _TOP + _ROW * i
        lines.append(f'<text x="{_LEFT - 6}" y="{y + 13}" text-anchor="end">{html.escape(label)}</text>')
        for j in range(len(across)):
            value = float(values[i, j])
            if math.isnan(value):
                continue
            share = min(value / top, 1.0)
            ink = "white" if share > 0.55 else "black"
            x = _LEFT + _CELL * j
            lines.append(
                f'<rect x="{x}" y="{y}" width="{_CELL - 1}" height="{_ROW - 1}" fill="{_colour(share)}"/>'
                f'<text x="{x + _CELL / 2}" y="{y + 13}" text-anchor="middle" fill="{ink}">{value:.2f}</text>'
            )
    lines += [*_scale(top, height), "</svg>", ""]
    return "\n".join(lines)


def _colour(share: float) -> str:
    r, g, b = (round(a + (z - a) * share) for a, z in zip(_LIGHT, _DARK, strict=True))
    return f"#{r:02x}{g:02x}{b:02x}"


def _wrapped(title: str, width: int) -> list[str]:
    words, lines = title.split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) > width // 8:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return [
        f'<text x="10" y="{18 + 14 * i}" font-size="12" font-weight="600">{html.escape(line)}</text>'
        for i, line in enumerate(lines[:2])
    ]


def _scale(top: float, height: int) -> list[str]:
    y = height - 28
    parts = [
        f'<rect x="{_LEFT + 12 * k}" y="{y}" width="12" height="10" fill="{_colour(k / 19)}"/>'
        for k in range(20)
    ]
    ends = [(0, "0"), (240, f"{top:.2f}")]
    return parts + [
        f'<text x="{_LEFT + x}" y="{y + 22}" text-anchor="middle">{text}</text>' for x, text in ends
    ]
