"""What a run would take: seconds and megabytes of each mechanism, from sizes alone. Rough, and says so."""

from collections.abc import Collection
from dataclasses import dataclass

__all__ = ["Cost", "costs_of"]


@dataclass(frozen=True)
class Cost:
    """A run of a mechanism with its defaults; rough, for two cores of this kind of machine."""

    mechanism: str
    seconds: float
    megabytes: float


def costs_of(
    *,
    n: int,
    public_rows: int | None,
    epsilon: float,
    pure: bool,
    columns: int,
    sizes: Collection[int],
    closure: int,
) -> tuple[Cost, ...]:
    """Of every mechanism that would run; `sizes` are the marginals' cells, `closure` how many marginals they imply.

    Fitted by eye to runs of 5,000 to 150,000 rows, 15 to 33 columns and 20,000 to 3 million cells.

    Above ε = 1 there is more to find, so methods that go on while they find something take longer.
    """
    m, cells, more = public_rows or 0, sum(sizes), max(1.0, epsilon)
    reading = 5e-9 * n * columns + 1e-9 * n * len(sizes)
    memory = 260 + 20e-6 * cells + 28e-6 * columns * (n + m)
    prior = 2e-6 * columns**2 * min(m, 20_000)
    guesses = {
        "tilt": (5 + prior + (10 * (n / 20_000) ** 0.6 + 0.01 * closure) * more**0.5, 150.0),
        "pmw-pub": (1 + (3e-7 * cells + 2e-5 * m) * more**0.5, 50e-6 * cells),
        "mwem-pub": (1 + 4e-7 * cells + 1e-6 * m, 50e-6 * cells),
        "ide": (1 + 5e-6 * m, 10.0),
        "jam-pgm": (4 + 4e-5 * min(n, 100_000) + 2e-5 * cells * more**0.5, min(100 + 2e-4 * cells, 800)),
        "public": (0.7 + 1e-6 * m, 0.0),
        "aim": (1 + (8e-5 * n + 1e-6 * cells) * more, 30.0),
        "mst": (1 + 3e-6 * n, 30.0),
    }
    needs = {"pmw-pub", "mwem-pub", "ide", "jam-pgm", "public"}
    names = [k for k in guesses if (k == "ide" or not pure) and (public_rows is not None or k not in needs)]
    return tuple(Cost(k, guesses[k][0] + reading, guesses[k][1] + memory) for k in names)
