"""The compiled loops that sum a table down, or spread small ones over a large one.

A *map* takes the cells of a large table to the cells of a smaller one: cell o·B + i of the large table lies in cell
outer[o] + inner[i] of the small one, which keeps both halves in the cache whatever the table's size. Runs of cells that
all lie in one cell of the small table, or side by side in it, get loops of their own.
"""

from openprior.compiled import compiled
from openprior.models.graphical.fast_exp import FAST
from openprior.models.graphical.marginalisation import CONSTANT, CONTIGUOUS

__all__ = ["product_over", "project"]


@compiled(fastmath=FAST)
def _project(part, sink, link, o, pool):  # type: ignore[no-untyped-def]
    """Sum the o-th block of a table down along a map."""
    target, _, outer, inner, run, kind = link[:6]
    base = target + pool[outer + o]
    cells = pool[inner : inner + len(part)]
    if kind == CONSTANT:
        for j in range(0, len(part), run):
            value = 0.0
            for i in range(j, j + run):
                value += part[i]
            sink[base + cells[j]] += value
    elif kind == CONTIGUOUS:
        for j in range(0, len(part), run):
            near = base + cells[j]
            for i in range(run):
                sink[near + i] += part[j + i]
    else:
        for i in range(len(part)):
            sink[base + cells[i]] += part[i]


@compiled(fastmath=FAST)
def project(table, sink, link, block, pool):  # type: ignore[no-untyped-def]
    """Sum a whole table down along a map."""
    for o in range(len(table) // block):
        _project(table[o * block : (o + 1) * block], sink, link, o, pool)


@compiled(fastmath=FAST)
def product_over(table, block, first, second, third, first_map, second_map, third_map):  # type: ignore[no-untyped-def]
    """Write the product of three small tables over a large one, each along its map; returns the sum.

    A map has its outer half first, then its inner one.
    """
    rows = len(table) // block
    total = 0.0
    for o in range(rows):
        part = table[o * block : (o + 1) * block]
        a, b, c = first[first_map[o] :], second[second_map[o] :], third[third_map[o] :]
        to_a, to_b, to_c = first_map[rows:], second_map[rows:], third_map[rows:]
        for i in range(block):
            part[i] = a[to_a[i]] * b[to_b[i]] * c[to_c[i]]
        for i in range(block):  # a loop of its own: see loss_loops.py
            total += part[i]
    return total
