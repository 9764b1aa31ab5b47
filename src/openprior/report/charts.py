"""Charts as SVG inside the page. Colours are classes, so that the themes and the printer can choose them.

Lengths across the page are percentages of the chart's width, so that no chart is wider than its card. A shape that says
something has the words as its <title>; the script turns them into tooltips.
"""

from collections.abc import Iterable, Mapping, Sequence

from markupsafe import Markup

from openprior.questions.workload import Marginal
from openprior.report.budget import Segment
from openprior.report.heat import Cell, Layout, draw_cells, draw_steps, text_width
from openprior.report.pictures import Answer, Picture, Value
from openprior.report.words import names, percent

__all__ = ["bars", "heat", "interval", "outline", "rise", "scale", "stack"]

_ROW, _HIGH = 22, 132
_HEIGHTS = {"beside": _ROW, "above": _ROW + 22, "above two": _ROW + 38}
"""Of a row of bars, by where the labels stand; the style sheet has the same."""
_SQUARE, _LABEL = 24, 190
"""Pixels of a heat map's square, and of a column's name beside it at most."""
_COLUMNS = 40
"""Columns of a heat map at most."""


def _join(parts: Iterable[Markup]) -> Markup:
    return Markup("").join(parts)


def _at(share: float) -> str:
    """A share of the width, kept inside."""
    return f"{100 * min(max(share, 0.0), 1.0):.2f}%"


def bars(picture: Picture) -> Markup:
    """One row per value: the public share as a broad bar, the released one in it, the private one as a dot."""
    top, row = picture.scale, _HEIGHTS[picture.layout]
    rows = _join(_bar(v, row * i, row, top) for i, v in enumerate(picture.values))
    return Markup(
        '<svg class="bars" width="100%" height="{}" role="group" aria-label="{}" data-walk="y">{}</svg>'
    ).format(row * len(picture.values), _about(picture), rows)


def _bar(value: Value, start: int, row: int, top: float) -> Markup:
    """A row that begins at `start`; the bar is in its lowest part, and its label beside it or above."""
    parts = [
        Markup('<g class="tip"><title>{}</title><rect class="hit" y="{}" width="100%" height="{}"/>').format(
            _tip(value), start, row
        )
    ]
    y = start + row - _ROW
    if value.public is not None:
        parts.append(_rect("pub", 0.0, value.public / top, y + 3, 16))
    parts.append(_rect("syn", 0.0, value.released / top, y + 7, 8))
    if value.low is not None and value.high is not None:
        parts.append(_whisker(value.low / top, value.high / top, y + 11, value.basis))
    if value.private is not None:
        parts.append(
            Markup('<circle class="priv" cx="{}" cy="{}" r="4"/>').format(_at(value.private / top), y + 11)
        )
    return _join([*parts, Markup("</g>")])


def _rect(kind: str, start: float, end: float, y: float, height: float) -> Markup:
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(
        kind, _at(start), y, _at(end - start), height
    )


def _whisker(low: float, high: float, y: float, basis: str) -> Markup:
    """A line with an end at either side; without one where it is cut."""
    ends = [x for x in (low, high) if 0 <= x <= 1]
    return _join(
        [
            _line(f"whisker {basis}".strip(), low, high, y, y),
            *(_line("whisker", x, x, y - 3, y + 3) for x in ends),
        ]
    )


def _line(kind: str, x1: float, x2: float, y1: float, y2: float) -> Markup:
    return Markup('<line class="{}" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(kind, _at(x1), _at(x2), y1, y2)


def _tip(value: Value) -> str:
    parts = [f"{value.label}: released {percent(value.released)}"]
    if value.low is not None and value.high is not None:
        rests = f" ({value.basis})" if value.basis else ""
        parts.append(f"95 % interval {percent(value.low)} to {percent(value.high)}{rests}")
    if value.public is not None:
        parts.append(f"public {percent(value.public)}")
    if value.private is not None:
        parts.append(f"private {percent(value.private)}")
    return ", ".join(parts)


def _about(picture: Picture) -> str:
    first = max(picture.values, key=lambda v: v.released)
    return (
        f"{picture.name}: share of rows by value; the largest is {first.label} with {percent(first.released)}"
    )


def outline(picture: Picture) -> Markup:
    """One step per value, from left to right: public as ground, released as a line across, the interval upright."""
    wide, top = 1 / len(picture.values), picture.scale
    parts = []
    for i, v in enumerate(picture.values):
        x = i * wide
        parts.append(Markup('<g class="tip"><title>{}</title>').format(_tip(v)))
        parts.append(
            Markup('<rect class="hit" x="{}" width="{}" height="{}"/>').format(_at(x), _at(wide), _HIGH)
        )
        if v.public is not None:
            parts.append(_rect("pub", x, x + wide, *_span(0.0, v.public, top)))
        if v.low is not None and v.high is not None:
            y, height = _span(v.low, v.high, top)
            middle = x + wide / 2
            parts.append(_line(f"whisker {v.basis}".strip(), middle, middle, y, y + height))
        y, _ = _span(0.0, v.released, top)
        parts.append(_line("level", x, x + wide, y, y))
        if v.private is not None:
            parts.append(
                Markup('<circle class="priv" cx="{}" cy="{}" r="2.5"/>').format(
                    _at(x + wide / 2), _span(0.0, v.private, top)[0]
                )
            )
        parts.append(Markup("</g>"))
    return Markup(
        '<svg class="outline" width="100%" height="{}" role="group" aria-label="{}" data-walk="x">{}</svg>'
    ).format(_HIGH, _about(picture), _join(parts))


def _span(low: float, high: float, top: float) -> tuple[float, float]:
    """Where a span of shares begins from above, and how high it is."""
    a, b = (min(max(s / top, 0.0), 1.0) * (_HIGH - 4) for s in (low, high))
    return round(_HIGH - b, 1), round(b - a, 1)


def stack(segments: Sequence[Segment], title: str) -> Markup:
    """Segments end to end, of 0 to 1; choices are half as high, what is left is empty."""
    parts = []
    for s in segments:
        y, height = (16, 28) if s.key in ("choice", "drawn") else (0, 44)
        tip = Markup('<g class="tip"><title>{}</title>').format(s.tip)
        parts += [
            tip,
            _rect(f"seg {s.key}{' thin' if s.width < 0.006 else ''}", s.start, s.start + s.width, y, height),
            Markup("</g>"),
        ]
    return Markup(
        '<svg class="stack" width="100%" height="44" role="group" aria-label="{}" data-walk="x">'
        '<rect class="left" width="100%" height="44"/>{}</svg>'
    ).format(title, _join(parts))


def interval(answer: Answer, top: float) -> Markup:
    """One answer as a dot on its interval; the numbers stand beside it."""
    line = (
        Markup("")
        if answer.low is None or answer.high is None
        else _whisker(answer.low / top, answer.high / top, 8, answer.basis)
    )
    return Markup(
        '<svg class="interval" width="100%" height="16" aria-hidden="true">'
        '<line class="rail" x1="0" x2="100%" y1="8" y2="8"/>{}<circle class="dot" cx="{}" cy="8" r="3.5"/></svg>'
    ).format(line, _at(answer.estimate / top))


def rise(before: float, after: float) -> Markup:
    """How sure one was, and how sure one can be at most."""
    return Markup(
        '<svg class="rise" width="100%" height="16" aria-hidden="true">'
        '<line class="rail" x1="0" x2="100%" y1="8" y2="8"/><line class="gain" x1="{0}" x2="{1}" y1="8" y2="8"/>'
        '<circle class="before" cx="{0}" cy="8" r="4.5"/><circle class="dot" cx="{1}" cy="8" r="5"/></svg>'
    ).format(_at(before), _at(after))


def heat(columns: Sequence[str], values: Mapping[Marginal, float], title: str) -> Markup:
    """Columns against columns, the darker the farther apart; single columns on the diagonal."""
    columns = _farthest(columns, values)
    cells = [
        [_distance((a,) if i == j else (b, a), values) if j <= i else None for j, b in enumerate(columns)]
        for i, a in enumerate(columns)
    ]
    room = int(min(max((text_width(a) for a in columns), default=0.0), _LABEL)) + 2
    # Names of columns stand slanted, 40 degrees up.
    side, above = int(0.77 * room) + 14, int(0.65 * room) + 14
    layout = Layout(_SQUARE, _SQUARE, room + 10, above, room, is_triangle=True, digits=0)
    size = _SQUARE * len(columns)
    return Markup(
        '<svg class="heat" viewBox="0 0 {0} {1}" style="--wide:{0}px" role="group" aria-label="{2}" '
        'data-walk="xy">{3}</svg>'
    ).format(
        layout.left + size + side,
        above + size + 8,
        title,
        draw_cells(columns, columns, cells, max(values.values(), default=0.0) or 1.0, layout),
    )


def _distance(marginal: Marginal, values: Mapping[Marginal, float]) -> Cell:
    distance = values.get(marginal, values.get(marginal[::-1]))
    text = "not compared, too many cells" if distance is None else f"{distance:.3f}"
    return Cell(distance, f"{names(marginal)}: {text}")


def _farthest(columns: Sequence[str], values: Mapping[Marginal, float]) -> list[str]:
    """The columns that fit into a map, in order: those that are in the largest distances."""
    far = {a: max((d for m, d in values.items() if a in m), default=0.0) for a in columns}
    farthest = set(sorted(columns, key=lambda a: -far[a])[:_COLUMNS])
    return [a for a in columns if a in farthest]


def scale(most: float) -> Markup:
    """The key of a heat map."""
    return Markup(
        '<span class="scale">0 <svg class="heat" width="160" height="12" aria-hidden="true">{}</svg> {}</span>'
    ).format(draw_steps(0, 0, 160, 12), f"{most:.3f}")
