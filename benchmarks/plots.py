"""`python -m benchmarks.plots`: the pictures of the documentation, as SVG written by hand.

`accuracy` draws the table of benchmarks/accuracy.py: one panel per pair, the error of the synthetic rows over ε.
`tilt` draws how Tilt weighs a measurement against its prior; the curves come from the functions that the model uses.
Colours are Okabe and Ito's; markers and dashes differ too. The background is white, so both read on a dark page.
"""

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from numpy.typing import NDArray

from benchmarks.accuracy import EPSILONS, RESULTS
from openprior.models.tilted.raking import stiffness

Floats = NDArray[np.float64]
Looks = dict[str, str | float]
Point = tuple[float, float, float]
"""ε, error, its standard error."""
Table = dict[str, dict[str, list[Point]]]
"""Pair, method, points."""

TILT = Path(__file__).parents[1] / "docs" / "tilt.svg"
INK, SOFT, GRID = "#000", "#555", "#ddd"
VERMILLION, BLUE, SKY, GREEN, PURPLE = "#D55E00", "#0072B2", "#56B4E9", "#009E73", "#CC79A7"


# SVG


def tag(name: str, content: str | None = None, /, **attributes: str | float) -> str:
    """One element; `stroke_width=2` is the attribute stroke-width, numbers are rounded."""
    pairs = [
        f" {k.replace('_', '-')}={quoteattr(v if isinstance(v, str) else f'{round(v, 1):g}')}"
        for k, v in attributes.items()
    ]
    return f"<{name}{''.join(pairs)}" + ("/>" if content is None else f">{content}</{name}>")


def text(x: float, y: float, words: str, **attributes: str | float) -> str:
    """Words, at 12 px unless told."""
    return tag("text", escape(words), x=x, y=y, **attributes)


def path(points: list[tuple[float, float]], **attributes: str | float) -> str:
    """A line through points."""
    return tag(
        "path", d="M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), **({"fill": "none"} | attributes)
    )


def picture(width: float, height: float, label: str, parts: list[str]) -> str:
    """The whole file."""
    background = tag("rect", width=width, height=height, fill="#fff")
    return tag(
        "svg",
        "\n" + "\n".join([background, *parts]) + "\n",
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        font_family="Helvetica, Arial, sans-serif",
        font_size=12,
        fill=INK,
        role="img",
        aria_label=label,
    )


@dataclass(frozen=True)
class Axes:
    """A rectangle of the picture, and the values at its edges."""

    left: float
    top: float
    width: float
    height: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    log: bool = False

    def _share(self, value: float, ends: tuple[float, float]) -> float:
        if self.log:
            return math.log(value / ends[0]) / math.log(ends[1] / ends[0])
        return (value - ends[0]) / (ends[1] - ends[0])

    @property
    def bottom(self) -> float:
        return self.top + self.height

    @property
    def right(self) -> float:
        return self.left + self.width

    def x(self, value: float) -> float:
        return self.left + self.width * self._share(value, self.x_range)

    def y(self, value: float) -> float:
        return self.bottom - self.height * self._share(value, self.y_range)

    def frame(self, x_ticks: list[float], y_ticks: list[float], size: float = 11) -> list[str]:
        """Grid, numbers and the rectangle."""
        minus = str.maketrans("-", "−")
        parts = []
        for v in x_ticks:
            parts.append(path([(self.x(v), self.top), (self.x(v), self.bottom)], stroke=GRID))
            number = f"{v:g}".translate(minus)
            parts.append(
                text(self.x(v), self.bottom + size + 4, number, font_size=size, text_anchor="middle")
            )
        for v in y_ticks:
            parts.append(path([(self.left, self.y(v)), (self.right, self.y(v))], stroke=GRID))
            number = f"{v:g}".translate(minus)
            parts.append(
                text(self.left - 5, self.y(v) + 0.35 * size, number, font_size=size, text_anchor="end")
            )
        box: Looks = {"x": self.left, "y": self.top, "width": self.width, "height": self.height}
        return [*parts, tag("rect", **box, fill="none", stroke=SOFT)]


# Errors over ε


@dataclass(frozen=True)
class Style:
    """How a method looks."""

    label: str
    colour: str
    marker: str = ""
    dash: str = "none"
    width: float = 1.6
    radius: float = 3.2


STYLES = {
    "public": Style("public table alone", SOFT, dash="7 4"),
    "mst": Style("mst (no public data)", PURPLE, "diamond", "2 3"),
    "aim": Style("aim (no public data)", GREEN, "triangle", "8 3 2 3"),
    "pmw-pub": Style("pmw-pub", SKY, "cross", "5 3"),
    "jam-pgm": Style("jam-pgm", BLUE, "square"),
    "tilt": Style("tilt", VERMILLION, "circle", width=3.2, radius=4.2),
}
"""In the order of drawing, so the last is on top."""
PRIVATE_ONLY, ADULT = ("aim", "mst"), "adult_pub025"
TITLES = {
    "adult_pub025": ("ADULT, unbiased public", "32,384 rows; public 3,238"),
    "adult_pub050": ("ADULT, public 50 % women", "private table: 25 % women"),
    "adult_pub075": ("ADULT, public 75 % women", "private table: 25 % women"),
    "adult_pub100": ("ADULT, public all women", "private table: 25 % women"),
    "titanic": ("TITANIC", "1,004 rows; public 300"),
    "salary": ("SALARY", "131,727 rows; public 4,000"),
    "fire": ("FIRE", "304,249 rows; public 870"),
    "ACS 2018 to 2019": ("ACS, 2019 from 2018", "27,253 rows; public 27,111"),
}
COLUMNS, CELL, PLOT = 4, (240.0, 258.0), (186.0, 182.0)


def read(table: Path) -> Table:
    """Errors of the synthetic rows. The private side of the ADULT pairs is one table, so what needs no public data
    stands in the file once; here it is in all four."""
    found: Table = {}
    for line in table.read_text(encoding="utf-8").splitlines():
        cells = [c.strip() for c in line.split("|")]
        if len(cells) < 7 or cells[1] not in TITLES or cells[2] not in STYLES:
            continue
        try:
            error, *spread = (float(v) for v in cells[5].split("±"))
        except ValueError:
            continue
        point = float(cells[3]), error, spread[0] if spread else 0.0
        found.setdefault(cells[1], {}).setdefault(cells[2], []).append(point)
    once = {m: p for m, p in found.get(ADULT, {}).items() if m in PRIVATE_ONLY}
    return {
        pair: (once | found[pair] if pair.startswith("adult") else found[pair])
        for pair in TITLES
        if pair in found and ("tilt" in found[pair] or not pair.startswith("ACS"))
    }


def ticks(values: list[float]) -> list[float]:
    """Round numbers that enclose the values, with those between."""
    rounds = [m * 10.0**e for e in range(-5, 3) for m in (1, 1.5, 2, 3, 5, 7)]
    low = max(r for r in rounds if r <= min(values) * 0.97)
    high = min(r for r in rounds if r >= max(values) * 1.03)
    return [r for r in rounds if low <= r <= high]


def marker(style: Style, x: float, y: float) -> str:
    """A filled marker with a white rim, or a cross."""
    r = style.radius
    rim: Looks = {"fill": style.colour, "stroke": "#fff", "stroke_width": 0.6}
    if style.marker == "circle":
        return tag("circle", cx=x, cy=y, r=r, **rim)
    if style.marker == "square":
        return tag("rect", x=x - r, y=y - r, width=2 * r, height=2 * r, **rim)
    if style.marker == "cross":
        d = f"M{x - r:.1f} {y - r:.1f}l{2 * r:g} {2 * r:g}m0 {-2 * r:g}l{-2 * r:g} {2 * r:g}"
        return tag("path", d=d, stroke=style.colour, stroke_width=2.0)
    s = 1.3 * r
    corners = {
        "triangle": [(x, y - s), (x + s, y + 0.8 * s), (x - s, y + 0.8 * s)],
        "diamond": [(x, y - s), (x + s, y), (x, y + s), (x - s, y)],
    }
    return path(corners[style.marker], **rim) if style.marker else ""


def curve(axes: Axes, style: Style, points: list[Point]) -> Iterator[str]:
    """A method's line; bars of one standard error where they can be seen beyond the marker."""
    stroke: Looks = {"stroke": style.colour, "stroke_width": style.width}
    if not style.marker:
        y = axes.y(points[0][1])
        yield path([(axes.left, y), (axes.right, y)], stroke_dasharray=style.dash, **stroke)
        return
    places = [(axes.x(e), axes.y(v)) for e, v, _ in sorted(points)]
    yield path(places, stroke_dasharray=style.dash, stroke_linejoin="round", **stroke)
    for epsilon, value, spread in points:
        x, low = axes.x(epsilon), axes.y(max(value - spread, axes.y_range[0]))
        high = axes.y(min(value + spread, axes.y_range[1]))
        if low - high > 2 * style.radius:
            d = f"M{x:.1f} {low:.1f}V{high:.1f}M{x - 3:.1f} {low:.1f}h6M{x - 3:.1f} {high:.1f}h6"
            yield tag("path", d=d, stroke=style.colour, stroke_width=1.3)
    yield from (marker(style, x, y) for x, y in places)


def panel(
    left: float, top: float, pair: str, lines: dict[str, list[Point]], levels: list[float]
) -> list[str]:
    """One pair."""
    ends = levels[0], levels[-1]
    axes = Axes(left + 44, top + 40, *PLOT, (EPSILONS[0] / 1.25, EPSILONS[-1] * 1.25), ends, log=True)
    title, rows = TITLES[pair]
    parts = [
        text(axes.left, top + 17, title, font_size=13, font_weight="bold"),
        text(axes.left, top + 33, rows, font_size=11, fill=SOFT),
        *axes.frame(list(EPSILONS), levels),
        text(axes.left + axes.width / 2, axes.bottom + 30, "ε", text_anchor="middle"),
    ]
    for method, style in STYLES.items():
        if method in lines:
            parts += curve(axes, style, lines[method])
    return parts


def legend(methods: list[str], left: float, y: float) -> list[str]:
    """One row of names, with their lines."""
    parts = []
    for method in methods:
        style = STYLES[method]
        stroke: Looks = {"stroke": style.colour, "stroke_width": style.width, "stroke_dasharray": style.dash}
        parts += [path([(left, y), (left + 34, y)], **stroke), marker(style, left + 17, y)]
        parts.append(text(left + 40, y + 4.5, style.label, font_size=13))
        left += 62 + 6.6 * len(style.label)
    return parts


def accuracy(table: Path) -> str:
    """One panel per pair. The ADULT panels share their axis, because their private table is the same."""
    found = read(table)
    groups: dict[str, list[float]] = {}
    for pair, lines in found.items():
        groups.setdefault(pair.split("_")[0], []).extend(v for ps in lines.values() for _, v, _ in ps)
    methods = [m for m in reversed(STYLES) if any(m in lines for lines in found.values())]
    side, top = 22.0, 34.0
    parts = legend(methods, side + 44, 20)
    for i, (pair, lines) in enumerate(found.items()):
        row, column = divmod(i, COLUMNS)
        levels = ticks(groups[pair.split("_")[0]])
        parts += panel(side + column * CELL[0], top + row * CELL[1], pair, lines, levels)
    rows = -(-len(found) // COLUMNS)
    for row in range(rows):
        y = top + row * CELL[1] + 40 + PLOT[1] / 2
        turn = f"rotate(-90 18 {y:g})"
        parts.append(text(18, y, "error of the synthetic rows", text_anchor="middle", transform=turn))
    label = "Error of the synthetic rows over ε, one panel per pair of tables, one line per method"
    return picture(side + COLUMNS * CELL[0], top + rows * CELL[1] + 6, label, parts)


# How a measurement moves the model

EXPECTED, SIGMA, CELLS = 100.0, 20.0, 1000
TRUSTS = (
    (10.0, "10 n", BLUE, "none"),
    (1.0, "n", GREEN, "10 3"),
    (0.1, "n/10", VERMILLION, "none"),
    (0.01, "n/100", PURPLE, "4 3"),
)


def fitted(measured: Floats, trusted: float) -> tuple[Floats, NDArray[np.bool_]]:
    """m with m + c·log(m/m₀) = y for every y, by Newton's method in log m; and which y stand out of the noise.

    The points of the curve are the cells of one block: `stiffness` asks only how many there are.
    """
    expected = np.full(len(measured), EXPECTED)
    c, stands_out = stiffness(measured, expected, SIGMA**2, trusted, 1.0)
    t = np.log(expected)
    for _ in range(200):
        m = np.exp(t)
        t -= np.clip((m + c * (t - math.log(EXPECTED)) - measured) / (m + c), -1.0, 1.0)
    m = np.exp(t)
    assert np.allclose(m + c * np.log(m / EXPECTED), measured, atol=1e-6)
    return m, stands_out


def tilt_curves(axes: Axes, measured: Floats) -> Iterator[str]:
    """The fitted mass for every trust, named beside the frame in the order of the lines."""
    for i_th, (trusted, rows, colour, dash) in enumerate(sorted(TRUSTS)):
        m, stands_out = fitted(measured, trusted)
        step = int(np.argmax(stands_out))
        keep = sorted({*range(0, CELLS, 12), step - 1, step, CELLS - 1})
        points = [(axes.x(measured[i]), axes.y(m[i])) for i in keep]
        yield path(points, stroke=colour, stroke_width=2.4, stroke_dasharray=dash)
        x, y = axes.right + 52, axes.y(330) + 52 * i_th
        yield path([(x - 40, y - 4), (x - 8, y - 4)], stroke=colour, stroke_width=2.4, stroke_dasharray=dash)
        yield text(x, y, f"λ = {trusted:g}", font_size=13, font_weight="bold", fill=colour)
        yield text(x, y + 15, f"public table of {rows} rows, same population")


def tilt() -> str:
    """What the model makes of a measurement."""
    axes = Axes(62, 14, 500, 430, (-60, 400), (0, 440))
    measured = np.linspace(-60.0, 400.0, CELLS)
    edge = float(measured[fitted(measured, 1.0)[1]][0])
    x, middle = axes.x(edge), axes.top + axes.height / 2
    slope = math.degrees(math.atan2(axes.y(0) - axes.y(100), axes.x(100) - axes.x(0)))
    along = axes.x(292), axes.y(292) - 7
    beyond = f"y > m₀ + {(edge - EXPECTED) / SIGMA:.1f} σ"
    faint: Looks = {"stroke": "#999", "stroke_width": 1.2}
    parts = [
        tag("rect", x=x, y=axes.top, width=axes.right - x, height=axes.height, fill="#f4f4f4"),
        *axes.frame([0, 100, 200, 300, 400], [0, 100, 200, 300, 400], 12),
        path([(x, axes.top), (x, axes.bottom)], stroke=INK, stroke_dasharray="2 3"),
        text(x + 7, axes.top + 15, "stands out of the noise:"),
        text(x + 7, axes.top + 30, beyond),
        path([(axes.x(0), axes.y(0)), (axes.x(400), axes.y(400))], **faint),
        path([(axes.left, axes.y(EXPECTED)), (axes.right, axes.y(EXPECTED))], **faint),
        text(
            *along,
            "the measurement alone: m = y",
            fill=SOFT,
            text_anchor="middle",
            transform=f"rotate({-slope:.1f} {along[0]:.1f} {along[1]:.1f})",
        ),
        text(axes.left + 8, axes.y(EXPECTED) - 22, "the prior alone:", fill=SOFT),
        text(axes.left + 8, axes.y(EXPECTED) - 7, f"m = m₀ = {EXPECTED:g}", fill=SOFT),
        *tilt_curves(axes, measured),
        tag("circle", cx=axes.x(EXPECTED), cy=axes.y(EXPECTED), r=4.5, fill=INK),
        text(
            axes.left + axes.width / 2,
            axes.bottom + 38,
            f"what was measured, y (count with noise, σ = {SIGMA:g})",
            font_size=13,
            text_anchor="middle",
        ),
        text(
            18,
            middle,
            "what the model makes of it, m",
            font_size=13,
            text_anchor="middle",
            transform=f"rotate(-90 18 {middle:g})",
        ),
    ]
    label = "The fitted count over the measured count, for four values of the trust in the prior"
    return picture(880, axes.bottom + 50, label, parts)


def main(table: Path = RESULTS) -> None:
    """Write both pictures, that of the table next to it."""
    for target, drawn in ((table.with_suffix(".svg"), accuracy(table)), (TILT, tilt())):
        target.write_text(drawn + "\n", encoding="utf-8")
        print(f"{target}: {len(drawn) / 1000:.0f} kB")


if __name__ == "__main__":
    main(*(Path(p) for p in sys.argv[1:2]))
