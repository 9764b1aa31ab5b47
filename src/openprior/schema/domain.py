"""The domain: named attributes with finite sizes. Frozen, ordered, and nothing else.

Every later layer speaks of attributes by name and of values by code 0..size-1; a marginal's cells are
numbered in C order of its attributes.

>>> domain = Domain({"age": 10, "sex": 2})
>>> domain.project(("sex",)).size(), domain.size(("age", "sex"))
(2, 20)
"""

import math
from collections.abc import Iterable, Iterator, Mapping

from openprior.errors import WorkloadError
from openprior.given import shown

__all__ = ["Domain"]


class Domain:
    """An ordered map from attribute name to number of values; immutable and hashable."""

    __slots__ = ("_places", "_sizes")

    def __init__(self, sizes: Mapping[str, int]) -> None:
        for name, size in sizes.items():
            if size < 1:
                raise WorkloadError(
                    f"attribute '{name}' has size {size}; a domain needs at least 1 value each"
                )
        self._sizes = dict(sizes)
        self._places = {name: place for place, name in enumerate(self._sizes)}

    @property
    def attributes(self) -> tuple[str, ...]:
        """The attribute names, in column order."""
        return tuple(self._sizes)

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes, in column order."""
        return tuple(self._sizes.values())

    def __getitem__(self, attribute: str) -> int:
        try:
            return self._sizes[attribute]
        except (KeyError, TypeError):
            known = ", ".join(f'"{name}"' if set(name) & set(",;:|") else name for name in self._sizes)
            raise WorkloadError(f"there is no column {shown(attribute)}; there are {known}") from None

    def __contains__(self, attribute: object) -> bool:
        return attribute in self._sizes

    def __iter__(self) -> Iterator[str]:
        return iter(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Domain) and list(self._sizes.items()) == list(other._sizes.items())

    def __hash__(self) -> int:
        return hash(tuple(self._sizes.items()))

    def __repr__(self) -> str:
        return f"Domain({self._sizes!r})"

    def sizes(self) -> dict[str, int]:
        """A fresh dict of the sizes."""
        return dict(self._sizes)

    def project(self, attributes: Iterable[str]) -> "Domain":
        """The domain of these attributes, in the order given."""
        return Domain({a: self[a] for a in attributes})

    def size(self, attributes: Iterable[str] | None = None) -> int:
        """How many cells the attributes span together (all of them if none are given); exact at any size."""
        return math.prod(self.shape if attributes is None else (self[a] for a in attributes))

    def position(self, attribute: str) -> int:
        """The column number of an attribute."""
        self[attribute]
        return self._places[attribute]
