"""The layout of a table: its columns' domain and the levels above them. Public, so anyone may hold it."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from openprior.schema.domain import Domain
from openprior.schema.levels import Level

__all__ = ["Layout"]


@dataclass(frozen=True)
class Layout:
    """Columns, and the levels of the hierarchies above them."""

    domain: Domain
    levels: Mapping[str, Level] = field(default_factory=dict)
    ordered: Mapping[str, int] = field(default_factory=dict)
    """Columns whose values have an order, and how many codes are in it: all but those of other and missing, which come
    last."""

    @cached_property
    def full_domain(self) -> Domain:
        """The columns first, then the levels."""
        above = {name: len(level.labels) for name, level in self.levels.items()}
        return Domain({**self.domain.sizes(), **above})

    def without(self, keys: Collection[str]) -> "Layout":
        """What is left once these columns or levels are fixed: their levels go with a column."""
        domain = Domain({a: s for a, s in self.domain.sizes().items() if a not in keys})
        left = {n: v for n, v in self.levels.items() if n not in keys and v.column in domain}
        return Layout(domain, left, {a: n for a, n in self.ordered.items() if a in domain})
