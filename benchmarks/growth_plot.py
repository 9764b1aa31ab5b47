"""`python -m benchmarks.growth_plot`: the table of benchmarks/tilt_growth.py as a picture, a panel for each thing."""

from pathlib import Path

from benchmarks.plots import SOFT, VERMILLION, Axes, Looks, path, picture, tag, text
from benchmarks.tilt_growth import STAYS, TABLE

TARGET = Path(__file__).parents[1] / "docs" / "tilt-growth.svg"
LEVELS = (1.0, 3.0, 10.0, 30.0, 100.0)
WIDE, HIGH, GAP = 190.0, 230.0, 22.0


def points() -> dict[str, list[tuple[float, float]]]:
    """For each thing that grows: how much of it, and the processor seconds."""
    found: dict[str, list[tuple[float, float]]] = {}
    for (axis, much), line in TABLE.read().items():
        seconds = float(line.split("|")[3])
        found.setdefault(axis, []).append((float(much.replace(",", "")), seconds))
    return found


def panel(left: float, axis: str, places: list[tuple[float, float]], first: bool) -> list[str]:
    """One thing that grows, on logarithmic axes; the dotted line grows as much as it does."""
    low, high = places[0][0], places[-1][0]
    margin = (high / low) ** 0.08
    axes = Axes(left, 34, WIDE, HIGH, (low / margin, high * margin), (LEVELS[0], LEVELS[-1]), log=True)
    names = {"ε": "ε", "values": "values per column"}
    parts = axes.frame([], list(LEVELS) if first else [])
    if not first:
        parts += [path([(left, axes.y(v)), (axes.right, axes.y(v))], stroke="#ddd") for v in LEVELS]
    for much, _ in places:
        number = f"{much:g}" if much < 1000 else f"{much / 1000:g} k" if much < 1e6 else f"{much / 1e6:g} M"
        parts.append(text(axes.x(much), axes.bottom + 15, number, font_size=11, text_anchor="middle"))
    start = places[0][1]
    end = min(high, low * LEVELS[-1] / start)
    dotted: Looks = {"stroke": SOFT, "stroke_dasharray": "2 3"}
    parts.append(path([(axes.x(low), axes.y(start)), (axes.x(end), axes.y(start * end / low))], **dotted))
    line = [(axes.x(m), axes.y(s)) for m, s in places]
    parts.append(path(line, stroke=VERMILLION, stroke_width=2.4))
    parts += [
        tag("circle", cx=x, cy=y, r=4, fill=VERMILLION, stroke="#fff", stroke_width=0.6) for x, y in line
    ]
    parts.append(text(left + WIDE / 2, 24, names.get(axis, axis), font_weight="bold", text_anchor="middle"))
    return parts


def growth() -> str:
    """All panels."""
    parts: list[str] = []
    left = 60.0
    for i, (axis, places) in enumerate(points().items()):
        parts += panel(left, axis, places, first=i == 0)
        left += WIDE + GAP
    middle = 34 + HIGH / 2
    turn = f"rotate(-90 18 {middle:g})"
    parts.append(text(18, middle, "processor seconds", text_anchor="middle", transform=turn))
    label = f"Processor seconds of Tilt as one of {', '.join(STAYS)} grows"
    return picture(left, HIGH + 62, label, parts)


if __name__ == "__main__":
    drawn = growth()
    TARGET.write_text(drawn + "\n", encoding="utf-8")
    print(f"{TARGET.name}: {len(drawn) / 1000:.0f} kB")
