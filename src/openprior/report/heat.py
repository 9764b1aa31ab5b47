"""A heat map as SVG: one coloured cell per number, for the report and as a picture of its own.

A cell is one colour at an opacity between nearly 0 and 1 on a plain ground, so that it also reads in grey, and so that
a style sheet can choose both: the report's has a light and a dark theme, a picture carries its own for white paper.
"""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from unicodedata import east_asian_width

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

__all__ = ["Cell", "Layout", "draw_cells", "draw_steps", "heat_picture", "text_width"]

_THIN = " .,;:'|!()[]ijltfI"
_GAP = 2
_STEPS = 10


@dataclass(frozen=True)
class Cell:
    """One number of a map."""

    value: float | None
    """None where there should be a number and is none."""
    tip: str
    """What the cell says in words."""


@dataclass(frozen=True)
class Layout:
    """How large a map's parts are, in pixels."""

    width: int
    """From one cell to the next, across and down."""
    height: int
    left: int
    """Room for the labels of the rows, and above the cells for those of the columns."""
    top: int
    across: int
    """Room for the label of one column, along its line."""
    is_triangle: bool
    """Labels of columns are slanted, and each stands above the first cell of its column."""
    digits: int
    """Digits after the point of the numbers in the cells; 0: no numbers."""


def draw_cells(
    down: Sequence[str],
    across: Sequence[str],
    cells: Sequence[Sequence[Cell | None]],
    most: float,
    layout: Layout,
) -> Markup:
    """The labels and the cells, row by row; the scale goes from 0 to `most`, and nothing is drawn for None."""
    parts = []
    for j, label in enumerate(across):
        first = next((i for i, row in enumerate(cells) if row[j] is not None), 0) if layout.is_triangle else 0
        parts.append(_column_label(label, layout, j, first))
    for i, (label, row) in enumerate(zip(down, cells, strict=True)):
        y = layout.top + layout.height * i
        parts.append(
            Markup('<text x="{}" y="{}" text-anchor="end">{}</text>').format(
                layout.left - 6, y + layout.height // 2 + 4, _short(label, layout.left - 10)
            )
        )
        for j, cell in enumerate(row):
            if cell is not None:
                parts.append(_cell(cell, layout.left + layout.width * j, y, most, layout))
    return Markup("").join(parts)


def _column_label(label: str, layout: Layout, column: int, row: int) -> Markup:
    x, y = layout.left + layout.width * column, layout.top + layout.height * row
    if layout.is_triangle:
        return Markup('<text transform="translate({} {}) rotate(-40)">{}</text>').format(
            x + 10, y - 5, _short(label, layout.across)
        )
    lines = label.split("\n")
    return Markup("").join(
        Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>').format(
            x + (layout.width - _GAP) / 2, y - 8 - 12 * (len(lines) - 1 - k), _short(line, layout.across)
        )
        for k, line in enumerate(lines)
    )


def _cell(cell: Cell, x: int, y: int, most: float, layout: Layout) -> Markup:
    box = Markup('x="{}" y="{}" width="{}" height="{}"').format(
        x, y, layout.width - _GAP, layout.height - _GAP
    )
    look, number = Markup('class="none"'), Markup("")
    if cell.value is not None:
        share = min(cell.value / most, 1.0) if most > 0 else 0.0
        look = Markup('fill-opacity="{:.2f}"').format(_opacity(share))
        if layout.digits:
            # Where white and black stand out about equally, with a contrast of 4.5.
            ink = Markup(' class="light"') if share > 0.7 else ""
            number = Markup('<text{} x="{}" y="{}" text-anchor="middle">{}</text>').format(
                ink,
                x + (layout.width - _GAP) / 2,
                y + layout.height // 2 + 3,
                f"{cell.value:.{layout.digits}f}",
            )
    return Markup('<g class="tip"><title>{}</title><rect class="base" {}/><rect {} {}/>{}</g>').format(
        cell.tip, box, look, box, number
    )


def draw_steps(x: float, y: float, width: float, height: float) -> Markup:
    """The colours of the scale, from least to most."""
    step = width / _STEPS
    return Markup("").join(
        Markup('<rect fill-opacity="{:.2f}" x="{:g}" y="{:g}" width="{:g}" height="{:g}"/>').format(
            _opacity((k + 0.5) / _STEPS), x + step * k, y, step + 0.1, height
        )
        for k in range(_STEPS)
    )


def _opacity(share: float) -> float:
    return 0.04 + 0.96 * share


def text_width(text: str) -> float:
    """How many pixels a text takes at 12 pixels, about and rather too many."""
    return sum(
        12.5
        if east_asian_width(c) in "WF"
        else 9.2
        if c.isupper() or c in "mwMW@%…"
        else 4.2
        if c in _THIN
        else 7.0
        for c in text
    )


def _short(name: str, room: float) -> str:
    """A name that fits, its middle left out: names that begin alike often differ at the end.

    >>> _short("household income before tax", 120)
    'household…fore tax'
    """
    if text_width(name) <= room:
        return name
    letters = len(name) - 1
    while letters > 2 and text_width(_cut(name, letters)) > room:
        letters -= 1
    return _cut(name, letters)


def _cut(name: str, letters: int) -> str:
    return name[: (letters + 1) // 2] + "…" + name[len(name) - letters // 2 :]


_STYLE = """
.heat.picture { fill: #0b3f7d; font: 11px system-ui, sans-serif }
.heat.picture text { fill: #191d25 } .heat.picture .head { font-size: 12px; font-weight: 600 }
.heat.picture .light { fill: #ffffff } .heat.picture .base, .heat.picture .paper { fill: #ffffff }
.heat.picture .base { stroke: #dddad1 }
"""


def _room(labels: Sequence[str], least: int, most: int) -> int:
    """Pixels for the longest of these labels, within limits."""
    return int(min(max([least, *(text_width(label) + 12 for label in labels)]), most))


def heat_picture(
    down: Sequence[str],
    across: Sequence[str],
    values: NDArray[np.float64],
    title: str,
    *,
    most: float | None = None,
) -> str:
    """An SVG file of rows × columns of numbers; nan is left white. The scale goes from 0 to `most`, or the largest.

    >>> ">0.25</text>" in heat_picture(["a"], ["2019"], np.array([[0.25]]), "errors")
    True
    """
    top = most or max((float(v) for v in values.ravel() if not math.isnan(v)), default=1.0) or 1.0
    digits = 2 if top >= 0.1 else 4
    cells = [
        [
            None
            if math.isnan(value)
            else Cell(float(value), f"{row}, {column}: {value:.{digits + 1}f}".replace("\n", " "))
            for column, value in zip(across, numbers, strict=True)
        ]
        for row, numbers in zip(down, values, strict=True)
    ]
    left = _room(down, 90, 260)
    wide = _room([line for label in across for line in label.split("\n")], 64, 150)
    width = max(left + wide * len(across) + 20, 460)
    head = textwrap.wrap(title, width // 8)
    label_lines = max((label.count("\n") + 1 for label in across), default=1)
    above = 20 + 14 * len(head) + 12 * label_lines
    layout = Layout(wide, 18, left, above, wide - 6, is_triangle=False, digits=digits)
    height = layout.top + layout.height * len(down) + 46
    parts = [
        Markup('<text class="head" x="10" y="{}">{}</text>').format(18 + 14 * i, line)
        for i, line in enumerate(head)
    ]
    parts += [
        draw_cells(down, across, cells, top, layout),
        draw_steps(layout.left, height - 28, 240, 10),
        Markup('<text x="{}" y="{}" text-anchor="middle">0</text>').format(layout.left, height - 6),
        Markup('<text x="{}" y="{}" text-anchor="middle">{}</text>').format(
            layout.left + 240, height - 6, f"{top:.{layout.digits}f}"
        ),
    ]
    return str(
        Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" class="heat picture" viewBox="0 0 {0} {1}" width="{0}" '
            'height="{1}" role="img">\n<title>{2}</title>\n<style>{3}</style>\n'
            '<rect class="paper" width="{0}" height="{1}"/>\n{4}\n</svg>\n'
        ).format(width, height, title, Markup(_STYLE), Markup("\n").join(parts))
    )
