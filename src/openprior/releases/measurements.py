"""Every noisy number of a run, kept with the release, and what they say about a marginal's true counts.

The noise of a measurement is known exactly, whatever became of it in a model. So where a marginal was measured, or is
the sum of cells that were, its true counts have a confidence interval that rests on nothing else: not on the public
table, not on the model, and not on why it was chosen, because noise is drawn after the choice. Where nothing was
measured there is none. True counts are those of the rows that were counted: where a person may have more rows than the
schema's limit, of the rows that are left.

One thing could spoil it: a mechanism that measures the same cell again *because* of what came out, until it likes the
mean. Repeats of the mechanisms here follow from how wrong the model is elsewhere, and coverage is tested for each.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, prod, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from openprior.errors import ReleaseError
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain

if TYPE_CHECKING:
    from openprior.privacy.measurement import Measurement
    from openprior.schema.base import Schema

__all__ = ["Known", "Measured", "Measurements"]

Floats = NDArray[np.float64]

_Z95 = 1.959963984540054
_TAIL = (_Z95**3 - 3 * _Z95) / 24
"""How much further the 97.5 % point lies, in standard deviations, a unit of excess kurtosis (Cornish and Fisher)."""
_LAPLACE_KURTOSIS = 3.0
_HALF_ROW = 0.5
"""Counts and noise are whole numbers; so much more on either side, and rounding never takes coverage away."""


@dataclass(frozen=True, eq=False)
class Measured:
    """The cells of `free`, among the rows where the columns of `fixed` have these codes, with noise."""

    free: Marginal
    values: Floats
    sigma: float
    noise: str
    fixed: Mapping[str, int] = field(default_factory=dict)
    queries: str = ""
    """If not empty, the values are answers to these queries over `free` instead of its cells."""

    def tells(self, marginal: Marginal) -> bool:
        """Whether it says something about cells of this marginal."""
        columns = set(marginal)
        return not self.queries and set(self.fixed) <= columns <= set(self.fixed) | set(self.free)

    def where(self, schema: "Schema") -> str:
        """What is fixed, in words."""
        labels = {name: level.labels for name, level in schema.levels.items()}
        labels |= {c.name: c.labels for c in schema.columns if c.name in self.fixed}
        return ", ".join(f"{name} = {labels[name][code]}" for name, code in self.fixed.items())


@dataclass(frozen=True, eq=False)
class Known:
    """What measurements alone say about the cells of a marginal; nan where they say nothing."""

    value: Floats
    """Without bias: the mean of all that tell it, by their precision."""
    standard_error: Floats
    low: Floats
    high: Floats
    """95 % interval of the true count, which is not negative: cut at 0 below, and a value below 0 counts as 0 above, so
    that an unlucky draw does not look like certainty."""


class Measurements:
    """All measurements of a release, in order."""

    def __init__(self, domain: Domain, items: Iterable[Measured]) -> None:
        """`domain` has the columns and the levels above them."""
        self.domain, self._items = domain, tuple(items)

    @staticmethod
    def of(domain: Domain, made: "Iterable[Measurement]") -> "Measurements":
        """Those of a run; a single cell is one in which every column is fixed."""
        items = []
        for m in made:
            if m.cell is None:
                items.append(Measured(m.marginal, m.values, m.sigma, m.noise, m.part, m.queries))
            else:
                codes = np.unravel_index(m.cell, [domain[a] for a in m.marginal])
                fixed = dict(zip(m.marginal, map(int, codes), strict=True))
                items.append(Measured((), m.values, m.sigma, m.noise, {**m.part, **fixed}))
        return Measurements(domain, items)

    def __iter__(self) -> Iterator[Measured]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def about(self, marginal: Marginal) -> Known | None:
        """What they say about a marginal, or None if nothing.

        The value of a cell is Σ wᵢyᵢ/Σ wᵢ over the measurements that tell it, wᵢ = 1/(kᵢσᵢ²), kᵢ the cells that were
        added up for it. Its noise has mean 0 and variance 1/Σ wᵢ. It is a sum of Gaussian and Laplace noise; heavier
        tails than a Gaussian's are allowed for by their kurtosis.
        """
        shape = tuple(self.domain[a] for a in marginal)
        precision, weighted, fourth = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for item in self._items:
            if not item.tells(marginal):
                continue
            place = tuple(item.fixed.get(a, slice(None)) for a in marginal)
            gone = tuple(i for i, a in enumerate(item.free) if a not in marginal)
            table = item.values.reshape([self.domain[a] for a in item.free]).sum(axis=gone)
            cells = prod(self.domain[item.free[i]] for i in gone)
            variance = cells * item.sigma**2
            precision[place] += 1 / variance
            weighted[place] += table / variance
            if item.noise == "laplace":
                fourth[place] += _LAPLACE_KURTOSIS * cells * item.sigma**4 / variance**4
        if not precision.any():
            return None
        with np.errstate(invalid="ignore", divide="ignore"):
            value, error = (weighted / precision).reshape(-1), (1 / np.sqrt(precision)).reshape(-1)
            kurtosis = (fourth / precision**2).reshape(-1)
            error[~np.isfinite(error)] = np.nan
            reach = (_Z95 + _TAIL * kurtosis) * error + _HALF_ROW
            return Known(value, error, np.maximum(value - reach, 0.0), np.maximum(value, 0.0) + reach)

    def save(self, path: Path, schema: "Schema") -> None:
        """One Parquet file, a row a number: what was measured, where, the value and its noise's standard deviation."""
        import pyarrow as pa
        from pyarrow import parquet

        sizes = [len(i.values) for i in self._items]
        which = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        what = [i.queries or " × ".join(i.free) for i in self._items]
        table = pa.table(
            {
                "measurement": pa.array(which),
                "marginal": pa.DictionaryArray.from_arrays(pa.array(which), pa.array(what, pa.string())),
                "where": pa.DictionaryArray.from_arrays(
                    pa.array(which), pa.array([i.where(schema) for i in self._items], pa.string())
                ),
                "cell": pa.array(np.concatenate([np.arange(s, dtype=np.int64) for s in [*sizes, 0]])),
                "value": pa.array(np.concatenate([*(i.values for i in self._items), np.zeros(0)])),
                "standard_deviation": pa.array(
                    np.repeat([i.sigma for i in self._items], sizes), pa.float64()
                ),
            }
        )
        facts = [
            {"free": i.free, "fixed": i.fixed, "sigma": i.sigma, "noise": i.noise, "queries": i.queries}
            for i in self._items
        ]
        parquet.write_table(table.replace_schema_metadata({"openprior": json.dumps(facts)}), path)

    @staticmethod
    def load(path: Path, domain: Domain) -> "Measurements":
        """From the file."""
        from pyarrow import parquet

        table = parquet.read_table(path, columns=["measurement", "value"])
        facts = json.loads(table.schema.metadata[b"openprior"])
        values = table["value"].to_numpy()
        starts = np.searchsorted(table["measurement"].to_numpy(), np.arange(len(facts) + 1))
        items = []
        for fact, start, end in zip(facts, starts[:-1], starts[1:], strict=True):
            free = tuple(fact["free"])
            item = Measured(
                free, values[start:end], float(fact["sigma"]), fact["noise"], fact["fixed"], fact["queries"]
            )
            fits = all(isinstance(c, int) and 0 <= c < domain[a] for a, c in item.fixed.items())
            fits = fits and (bool(item.queries) or len(item.values) == prod(domain[a] for a in free))
            if not fits or not 0 < item.sigma < inf or not np.isfinite(item.values).all():
                raise ReleaseError("its measurements do not fit its schema")
            items.append(item)
        return Measurements(domain, items)

    def check(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Raise unless these are the measurements that a certificate's events speak of, one by one."""
        spoken = [e for e in events if e["kind"] in ("gaussian", "laplace")]
        if len(spoken) != len(self._items) or not all(map(self._is, self._items, spoken)):
            raise ReleaseError("its measurements are not those of its certificate")

    def _is(self, item: Measured, event: Mapping[str, Any]) -> bool:
        marginal, fixed = tuple(event["marginal"]), dict(item.fixed)
        part = event.get("part")
        if part is not None:
            fixed = {a: c for a, c in fixed.items() if a not in part["keys"]}
            if {a: item.fixed.get(a) for a in part["keys"]} != dict(
                zip(part["keys"], part["codes"], strict=True)
            ):
                return False
        if event["cell"] is None:
            same = marginal == item.free and not fixed
        else:
            codes = np.unravel_index(event["cell"], [self.domain[a] for a in marginal])
            same = not item.free and fixed == dict(zip(marginal, map(int, codes), strict=True))
        sigma = event["sigma"] if event["kind"] == "gaussian" else sqrt(2) * event["scale"]
        return (
            same
            and item.noise == event["kind"]
            and item.queries == event.get("queries", "")
            and abs(item.sigma - sigma) <= 1e-9 * sigma
        )
