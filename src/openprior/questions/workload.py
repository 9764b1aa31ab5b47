"""Marginals and workloads: which tables the user wants to be right.

A marginal is a tuple of attribute names; a query is one cell of it. A `Workload` is a weighted set of
marginals. `all_marginals(3)` and its kin are *plans*: they become a workload when a domain is known, so
that they can be written before any table is opened.

>>> w = all_marginals(2).on(Domain({"a": 2, "b": 3, "c": 4}))
>>> w.marginals, w.cells
((('a', 'b'), ('a', 'c'), ('b', 'c')), 26)
"""

import itertools
import math
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from openprior.display import Sheet, Shown, how_many
from openprior.errors import OptionError, WorkloadError
from openprior.given import finite_number, several, shown, whole_number
from openprior.questions.quotes import names as names_in
from openprior.questions.quotes import split, unquoted
from openprior.schema.domain import Domain

__all__ = [
    "Marginal",
    "Workload",
    "WorkloadLike",
    "WorkloadPlan",
    "all_marginals",
    "canonical",
    "closure",
    "need_workload",
    "random_marginals",
    "target_marginals",
    "workload_from",
    "workload_on",
]

Marginal = tuple[str, ...]


def canonical(marginal: Iterable[str] | str, domain: Domain) -> Marginal:
    """The marginal in the domain's column order, checked: known attributes, each once, at least one."""
    names = (marginal,) if isinstance(marginal, str) else several("a marginal", marginal, error=WorkloadError)
    if not names:
        raise WorkloadError("an empty marginal; name at least one column")
    for name in names:
        if not isinstance(name, str):
            raise WorkloadError(f"a marginal with {shown(name)} in it; name columns by their texts")
    if len(set(names)) != len(names):
        raise WorkloadError(f"marginal {names} names a column twice; name each once")
    return tuple(sorted(names, key=domain.position))


@runtime_checkable
class WorkloadPlan(Protocol):
    """Anything that becomes a workload once the domain is known."""

    def on(self, domain: Domain) -> "Workload":
        """The workload on this domain."""
        ...


@dataclass(frozen=True, repr=False)
class Workload(Shown):
    """Marginals with positive weights: a list of both, or a mapping of marginals to weights.

    The order of columns inside a marginal does not matter.
    """

    marginals: tuple[Marginal, ...]
    weights: tuple[float, ...] = ()
    domain: Domain | None = field(default=None, compare=False)

    def __init__(
        self,
        marginals: Iterable[Iterable[str] | str] | Mapping[Any, float],
        weights: Sequence[float] | None = None,
        domain: Domain | None = None,
    ) -> None:
        if isinstance(marginals, Mapping) and weights is None:
            weights = list(marginals.values())
        if isinstance(marginals, str):
            raise WorkloadError(
                f'a workload cannot be one text, {shown(marginals)}; give marginals, such as [["age", "sex"], ["age"]]'
            )
        listed = several("a workload", marginals, error=WorkloadError)
        tuples = tuple(
            (m,) if isinstance(m, str) else several("a marginal", m, error=WorkloadError) for m in listed
        )
        given = () if weights is None else several("weights", weights, error=WorkloadError)
        values = tuple(finite_number("a weight", w, error=WorkloadError) for w in given) or (1.0,) * len(
            tuples
        )
        if not tuples:
            raise WorkloadError("an empty workload; name at least one marginal")
        if len(values) != len(tuples):
            raise WorkloadError(f"{len(values)} weights for {len(tuples)} marginals; give one each")
        if not all(v > 0 for v in values):
            raise WorkloadError("a workload's weights must be positive and finite")
        object.__setattr__(self, "marginals", tuples)
        object.__setattr__(self, "weights", values)
        object.__setattr__(self, "domain", domain)

    def on(self, domain: Domain) -> "Workload":
        """Checked against a domain: columns in its order, the weights of repeated marginals added."""
        if not isinstance(domain, Domain):
            raise WorkloadError(
                f"the domain cannot be {shown(domain)}; give a schema's, such as schema.domain"
            )
        merged: dict[Marginal, float] = {}
        for marginal, weight in zip(self.marginals, self.weights, strict=True):
            key = canonical(marginal, domain)
            merged[key] = merged.get(key, 0.0) + weight
        return Workload(merged, list(merged.values()), domain)

    @property
    def cells(self) -> int:
        """How many queries the workload has."""
        return sum(self._domain().size(m) for m in self.marginals)

    def closure(self) -> tuple[Marginal, ...]:
        """Every non-empty subset of every marginal, each once; smaller ones first."""
        return closure(self.marginals)

    def overlaps(self, marginals: Iterable[Marginal]) -> dict[Marginal, float]:
        """For each marginal Σ weight·(attributes in common) over the workload: how much of it measuring it bears on.

        >>> Workload([("a", "b"), ("b",)], [1.0, 2.0]).overlaps([("b",), ("a", "b")])
        {('b',): 3.0, ('a', 'b'): 4.0}
        """
        bears: dict[str, float] = {}
        for marginal, weight in zip(self.marginals, self.weights, strict=True):
            for a in marginal:
                bears[a] = bears.get(a, 0.0) + weight
        return {m: sum(bears.get(a, 0.0) for a in m) for m in marginals}

    def sheet(self) -> Sheet:
        """The first marginals, with their weights where they differ."""
        several = len(set(self.weights)) > 1
        headings = ("marginal", "weight") if several else ("marginal",)
        rows = tuple(
            (" × ".join(map(str, m)), f"{w:g}")[: len(headings)]
            for m, w in zip(self.marginals, self.weights, strict=True)
        )
        cells = "" if self.domain is None else f" with {how_many(self.cells, 'cell')}"
        return Sheet(f"Workload of {how_many(len(rows), 'marginal')}{cells}", headings, rows)

    def __iter__(self) -> Iterator[Marginal]:
        return iter(self.marginals)

    def __len__(self) -> int:
        return len(self.marginals)

    def _domain(self) -> Domain:
        if self.domain is None:
            raise WorkloadError("this workload has no domain yet; call .on(domain)")
        return self.domain


def closure(marginals: Iterable[Marginal]) -> tuple[Marginal, ...]:
    """Every non-empty subset of every marginal, each once; smaller ones first, then in order of appearance.

    >>> closure([("a", "b")])
    (('a',), ('b',), ('a', 'b'))
    """
    seen: dict[Marginal, None] = {}
    for marginal in marginals:
        for k in range(1, len(marginal) + 1):
            for subset in itertools.combinations(marginal, k):
                seen.setdefault(subset)
    return tuple(sorted(seen, key=len))


@dataclass(frozen=True)
class _AllMarginals:
    k: int

    def on(self, domain: Domain) -> Workload:
        k = min(self.k, len(domain))
        return Workload(itertools.combinations(domain.attributes, k), None, domain)


@dataclass(frozen=True)
class _RandomMarginals:
    k: int
    count: int
    seed: int

    def on(self, domain: Domain) -> Workload:
        k, d = min(self.k, len(domain)), len(domain)
        total = math.comb(d, k)
        if self.count >= total:
            return _AllMarginals(k).on(domain)
        rng = np.random.default_rng(self.seed)
        names = domain.attributes
        picked: dict[tuple[int, ...], None] = {}
        while len(picked) < self.count:
            picked.setdefault(tuple(sorted(rng.choice(d, size=k, replace=False).tolist())))
        return Workload([tuple(names[i] for i in combo) for combo in picked], None, domain)


@dataclass(frozen=True)
class _TargetMarginals:
    target: str
    k: int

    def on(self, domain: Domain) -> Workload:
        domain[self.target]
        others = [a for a in domain if a != self.target]
        k = min(self.k, len(domain)) - 1
        chosen = [canonical((self.target, *rest), domain) for rest in itertools.combinations(others, k)]
        return Workload(chosen, None, domain)


def all_marginals(k: int) -> WorkloadPlan:
    """All k-way marginals (all columns together if there are fewer than k)."""
    return _AllMarginals(_order(k))


def random_marginals(k: int, count: int, seed: int) -> WorkloadPlan:
    """`count` different k-way marginals drawn uniformly; all of them if there are not that many."""
    if whole_number("count", count, error=WorkloadError) < 1:
        raise WorkloadError(f"count = {shown(count)}; ask for at least one marginal")
    return _RandomMarginals(_order(k), int(count), whole_number("seed", seed, 0, error=WorkloadError))


def target_marginals(target: str, k: int) -> WorkloadPlan:
    """All k-way marginals that contain the target column."""
    if not isinstance(target, str):
        raise WorkloadError(f"the target is {shown(target)}; give the name of a column")
    return _TargetMarginals(target, _order(k))


WorkloadLike = WorkloadPlan | Workload | Iterable[Iterable[str] | str] | Mapping[Any, float] | int | str
"""What callers may give as a workload."""


def workload_on(chosen: WorkloadLike | None, domain: Domain, default: WorkloadPlan) -> Workload:
    """The workload that a caller chose, in whatever way, on a domain; the default for None.

    >>> domain = Domain({"a": 2, "b": 3})
    >>> workload_on(["b", ("b", "a")], domain, all_marginals(1)).marginals
    (('b',), ('a', 'b'))
    >>> workload_on(2, domain, all_marginals(1)) == workload_on("a,b", domain, all_marginals(1))
    True
    """
    plan = default if chosen is None else need_workload(chosen)
    made = plan.on(domain)
    if not isinstance(made, Workload):
        raise WorkloadError(f"the workload's plan gave {shown(made)}; have its method `on` return a Workload")
    return made


def need_workload(chosen: WorkloadLike) -> WorkloadPlan:
    """What a caller chose, as a workload or a plan of one; known before any table is opened."""
    if isinstance(chosen, str):
        return workload_from(chosen)
    if isinstance(chosen, numbers.Integral) and not isinstance(chosen, bool):
        return all_marginals(int(chosen))
    if isinstance(chosen, WorkloadPlan) and not isinstance(chosen, type):
        return chosen
    if isinstance(chosen, bytes) or not isinstance(chosen, Iterable):
        raise WorkloadError(f"the workload cannot be {shown(chosen)}; {_WAYS}")
    return Workload(chosen)


def workload_from(text: str) -> WorkloadPlan:
    """A workload written as text, on the command line as in Python: '3', 'random:3:512:7', 'target:COL:3' or
    'age,sex;age,income'. A name with a sign in it stands in double quotes (quotes.py).

    >>> workload_from('"age, years",sex;sex').marginals
    (('age, years', 'sex'), ('sex',))
    """
    kind, *rest = split(text, ":")
    try:
        if kind.strip().isdigit() and not rest:
            return all_marginals(int(kind))
        if kind.strip() == "random":
            k, count, seed = rest
            return random_marginals(int(k), int(count), int(seed))
        if kind.strip() == "target":
            *name, k = rest
            return target_marginals(unquoted(":".join(name)), int(k))
    except ValueError as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"workload {shown(text)} is not understood; {_WAYS}") from None
    return Workload([names_in(m) for m in split(text, ";") if m.strip()])


_WAYS = "write '3' for all 3-way marginals, 'random:3:512:7', 'target:COLUMN:3' or 'age,sex;age,income'"


def _order(k: int) -> int:
    if whole_number("k", k, error=WorkloadError) < 1:
        raise WorkloadError(f"k = {shown(k)}; a marginal needs at least one column")
    return int(k)
