"""benchmarks/results/rivals.svg: the error of 3-way marginals over ε, one panel per table, one line per method."""

import re

from benchmarks.accuracy import EPSILONS
from benchmarks.plots import (
    BLUE,
    CELL,
    COLUMNS,
    GREEN,
    PLOT,
    PURPLE,
    SOFT,
    VERMILLION,
    Axes,
    Looks,
    Point,
    Style,
    curve,
    marker,
    path,
    picture,
    text,
    ticks,
)
from benchmarks.rivals.results import RESULTS, TABLE
from benchmarks.rivals.tools import ADD_REMOVE

TITLES = {
    "titanic": ("TITANIC", "1,004 rows, 9 columns"),
    "adult": ("ADULT", "32,384 rows, 15 columns"),
    "salary": ("SALARY", "131,727 rows, 9 columns"),
    "fire": ("FIRE", "304,249 rows, 15 columns"),
    "acs-national": ("ACS 2019, national", "27,253 rows, 21 columns"),
    "acs-ma": ("ACS 2019, Massachusetts", "7,634 rows, 21 columns"),
    "acs-tx": ("ACS 2019, Texas", "9,276 rows, 21 columns"),
}
COLOURS = {"ours": VERMILLION, "smartnoise": BLUE, "opendp": GREEN, "dpmm": PURPLE}
MARKERS = {"tilt": "circle", "aim": "triangle", "mst": "diamond", "privbayes": "square", "mwem": "cross"}
DASHES = {"aim": "8 3 2 3", "mst": "2 3", "privbayes": "5 3", "mwem": "5 3"}
Panels = dict[str, dict[tuple[str, str], list[Point]]]
"""Table, tool and method, points."""


def read() -> Panels:
    """What the table of results has numbers for, under add-remove: most tools have no other relation."""
    panels: Panels = {}
    for (table, tool, method, epsilon), line in TABLE.read().items():
        relation, _, three = (cell.strip() for cell in line.split("|")[5:8])
        try:
            error, *spread = (float(v) for v in three.split("±"))
        except ValueError:
            continue
        if relation != ADD_REMOVE:
            continue
        point = float(epsilon), error, spread[0] if spread else 0.0
        panels.setdefault(table, {}).setdefault((tool, method), []).append(point)
    return {table: panels[table] for table in TITLES if table in panels}


def style_of(tool: str, method: str) -> Style:
    """A colour per tool, a marker and dashes per kind of method; ours is thick."""
    kind = re.split("[-,]", method)[0]
    looks: Looks = {"width": 3.0, "radius": 4.0} if tool == "ours" else {}
    dash = DASHES.get(kind, "none")
    return Style(f"{tool} {method}", COLOURS.get(tool, SOFT), MARKERS.get(kind, "circle"), dash, **looks)  # type: ignore[arg-type]


def legend(methods: list[tuple[str, str]], width: float) -> tuple[list[str], float]:
    """Names with their lines, in as many rows as they need, and where they end."""
    parts, left, y = [], 66.0, 20.0
    for style in (style_of(*m) for m in methods):
        room = 58 + 6.8 * len(style.label)
        if left + room > width:
            left, y = 66.0, y + 20
        stroke: Looks = {"stroke": style.colour, "stroke_width": style.width, "stroke_dasharray": style.dash}
        parts += [path([(left, y), (left + 34, y)], **stroke), marker(style, left + 17, y)]
        parts.append(text(left + 40, y + 4.5, style.label))
        left += room
    return parts, y


def panel(left: float, top: float, table: str, lines: dict[tuple[str, str], list[Point]]) -> list[str]:
    """One table, ours on top."""
    levels = ticks([v for points in lines.values() for _, v, _ in points])
    ends = levels[0], levels[-1]
    axes = Axes(left + 44, top + 40, *PLOT, (EPSILONS[0] / 1.25, EPSILONS[-1] * 1.25), ends, log=True)
    title, rows = TITLES[table]
    parts = [
        text(axes.left, top + 17, title, font_size=13, font_weight="bold"),
        text(axes.left, top + 33, rows, font_size=11, fill=SOFT),
        *axes.frame(list(EPSILONS), levels),
        text(axes.left + axes.width / 2, axes.bottom + 30, "ε", text_anchor="middle"),
    ]
    for method in sorted(lines, key=lambda m: m[0] == "ours"):
        parts += curve(axes, style_of(*method), lines[method])
    return parts


def draw() -> str:
    """The whole picture."""
    panels, side = read(), 22.0
    methods = list(dict.fromkeys(m for lines in panels.values() for m in lines))
    width = side + COLUMNS * CELL[0]
    parts, end = legend(methods, width)
    top = end + 14
    for i, (table, lines) in enumerate(panels.items()):
        row, column = divmod(i, COLUMNS)
        parts += panel(side + column * CELL[0], top + row * CELL[1], table, lines)
    rows = -(-len(panels) // COLUMNS)
    for row in range(rows):
        y = top + row * CELL[1] + 40 + PLOT[1] / 2
        turn = f"rotate(-90 18 {y:g})"
        parts.append(text(18, y, "error of 3-way marginals", text_anchor="middle", transform=turn))
    label = (
        "Error of all 3-way marginals of the synthetic rows over ε, one panel per table, one line per method"
    )
    return picture(width, top + rows * CELL[1] + 6, label, parts)


def write() -> None:
    """Anew, from the table as it is; nothing where it has no numbers yet."""
    if read():
        RESULTS.with_suffix(".svg").write_text(draw() + "\n", encoding="utf-8")
