"""A clique as a product of three tables, A·B·R, so that its own large table need not be written down.

Its factors and its children's messages are gathered in two tables (in three at a root), each of which contains or is
a union of them. Attributes in all three are batches of matrices (s); those in two are their rows and columns: v in A
and B, x in A and R, y in B and R. Attributes in one are summed away first, and those in none only multiply.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain

__all__ = ["Triangle", "gathered"]


@dataclass(frozen=True)
class Triangle:
    """The three tables' marginals (empty where there is none), and their attributes by where else they are."""

    tables: tuple[Marginal, Marginal, Marginal]
    sides: tuple[Marginal, Marginal, Marginal]
    """The attributes of each that are in two or three: A[s, x, v], B[s, v, y], R[s, x, y]."""
    shape: tuple[int, int, int, int]
    """Cells of s, x, v and y."""

    @staticmethod
    def of(domain: Domain, first: Marginal, second: Marginal, third: Marginal) -> "Triangle":
        """The first two in the order in which y has more cells than x: inner loops run along it.

        >>> domain = Domain({"a": 2, "b": 3, "c": 4, "d": 5})
        >>> Triangle.of(domain, ("a", "b", "d"), ("a", "c", "d"), ("a", "b", "c")).sides
        (('a', 'b', 'd'), ('a', 'd', 'c'), ('a', 'b', 'c'))
        """

        def only(*places: bool) -> Marginal:
            return tuple(a for a in domain if (a in first, a in second, a in third) == places)

        s, v = only(True, True, True), only(True, True, False)
        x, y = only(True, False, True), only(False, True, True)
        if domain.size(x) > domain.size(y):
            return Triangle.of(domain, second, first, third)
        sides = ((*s, *x, *v), (*s, *v, *y), (*s, *x, *y))
        shape = (domain.size(s), domain.size(x), domain.size(v), domain.size(y))
        return Triangle((first, second, third), sides, shape)


def gathered(
    domain: Domain, tables: Sequence[Marginal], most: int
) -> tuple[dict[Marginal, Marginal], list[Marginal]]:
    """A larger table for each that has one, and the auxiliary tables; so many, at most, have none.

    >>> domain = Domain({"a": 2, "b": 3, "c": 4, "d": 5})
    >>> gathered(domain, [("a",), ("a", "b"), ("b", "c"), ("c", "d")], 2)
    ({('a',): ('a', 'b'), ('b', 'c'): ('a', 'b', 'c'), ('a', 'b'): ('a', 'b', 'c')}, [('a', 'b', 'c')])
    """
    hosts: dict[Marginal, Marginal] = {}
    by_size = sorted(tables, key=lambda m: (domain.size(m), len(m)))
    for k, table in enumerate(by_size):
        host = next((m for m in by_size[k + 1 :] if set(table) < set(m)), None)
        if host is not None:
            hosts[table] = host
    loose, unions = [m for m in by_size if m not in hosts], list[Marginal]()
    while len(loose) > most:
        pairs = [
            (domain.size(set(a) | set(b)), i, j) for i, a in enumerate(loose) for j, b in enumerate(loose[:i])
        ]
        _, i, j = min(pairs)
        union = tuple(a for a in domain if a in loose[i] or a in loose[j])
        hosts[loose[i]] = hosts[loose[j]] = union
        unions.append(union)
        inside = [m for m in loose if set(m) < set(union)]
        hosts.update(dict.fromkeys(inside, union))
        loose = [*(m for m in loose if m not in inside), union]
    return hosts, unions
