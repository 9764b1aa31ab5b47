"""The compiled sums of a fit, each one pass over the measured cells.

Not BLAS's: it starts threads for vectors this long, which wait by spinning, and sums differently with each number of
them. And no loop both writes and sums: the compiler would test whether what is written could be what is read next, by
how near the arrays happen to lie in memory, and sum in another order where they do. The same measurements would then
not always give the same model, and where arrays lie depends on all that was allocated before, private counts included.
"""

from openprior.compiled import compiled
from openprior.models.graphical.fast_exp import FAST

__all__ = ["dot", "move", "residuals"]


@compiled(fastmath=FAST)
def residuals(fitted, values, weights, marginals, gradient):  # type: ignore[no-untyped-def]
    """Keep the fitted marginals and the gradient w·(μ − y); returns ½ Σ w·(μ − y)²."""
    for i in range(len(fitted)):
        marginals[i] = fitted[i]
        gradient[i] = weights[i] * (fitted[i] - values[i])
    total = 0.0
    for i in range(len(fitted)):
        total += gradient[i] * (marginals[i] - values[i])
    return 0.5 * total


@compiled(fastmath=FAST)
def dot(a, b):  # type: ignore[no-untyped-def]
    """Σ a·b."""
    total = 0.0
    for i in range(len(a)):
        total += a[i] * b[i]
    return total


@compiled(fastmath=FAST)
def move(weights, first, second, old, new):  # type: ignore[no-untyped-def]
    """Between two points with their marginals and potentials: ½ Σ w·(μ₂ − μ₁)², and Σ (θ₂ − θ₁)·μ₂."""
    square, along = 0.0, 0.0
    for i in range(len(weights)):
        step = second[i] - first[i]
        square += weights[i] * step * step
        along += (new[i] - old[i]) * second[i]
    return 0.5 * square, along
