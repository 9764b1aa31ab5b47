"""Compiled products of batches of matrices: sums of products, the same in logarithms, and largest sums.

Loops of our own and not BLAS's: its threads wait for each other by spinning, which on a busy machine took most of the
time of thousands of small products, and its sums depend on how many threads there are. On one thread these are as
fast (measured: 0.05 ns per multiplication against 0.05 for 64 × 32 × 210, 0.3 against 0.2 for 4 × 6 × 8).
"""

import numpy as np

from openprior.compiled import compiled
from openprior.models.graphical.fast_exp import CAREFUL, FAST, fast_exp, fast_log

__all__ = ["flipped", "largest_sums", "log_products", "products", "products_across"]


@compiled(fastmath=FAST)
def products(left, right, out):  # type: ignore[no-untyped-def]
    """out[s, i, j] = Σₖ left[s, i, k]·right[s, k, j]; two rows and four terms at a time, so that little is read
    twice."""
    batch, rows, inner = left.shape
    width = right.shape[2]
    for s in range(batch):
        for half in range((rows + 1) // 2):
            i = 2 * half
            two = i + 1 < rows
            k2 = i + 1 if two else i
            first, second = out[s, i], out[s, k2]
            first[:] = 0.0
            second[:] = 0.0
            k = 0
            while two and k + 4 <= inner:
                a0, a1, a2, a3 = left[s, i, k], left[s, i, k + 1], left[s, i, k + 2], left[s, i, k + 3]
                b0, b1, b2, b3 = left[s, k2, k], left[s, k2, k + 1], left[s, k2, k + 2], left[s, k2, k + 3]
                r0, r1, r2, r3 = right[s, k], right[s, k + 1], right[s, k + 2], right[s, k + 3]
                for j in range(width):
                    first[j] += a0 * r0[j] + a1 * r1[j] + a2 * r2[j] + a3 * r3[j]
                    second[j] += b0 * r0[j] + b1 * r1[j] + b2 * r2[j] + b3 * r3[j]
                k += 4
            while k < inner:
                a0, r0 = left[s, i, k], right[s, k]
                for j in range(width):
                    first[j] += a0 * r0[j]
                if two:
                    b0 = left[s, k2, k]
                    for j in range(width):
                        second[j] += b0 * r0[j]
                k += 1


@compiled(fastmath=FAST)
def products_across(left, right, out):  # type: ignore[no-untyped-def]
    """out[s, i, j] = Σₖ left[s, i, k]·right[s, j, k]."""
    batch, rows, inner = left.shape
    width = right.shape[1]
    for s in range(batch):
        for i in range(rows):
            row = left[s, i]
            j = 0
            while j + 4 <= width:
                r0, r1, r2, r3 = right[s, j], right[s, j + 1], right[s, j + 2], right[s, j + 3]
                t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
                for k in range(inner):
                    t0 += row[k] * r0[k]
                    t1 += row[k] * r1[k]
                    t2 += row[k] * r2[k]
                    t3 += row[k] * r3[k]
                out[s, i, j], out[s, i, j + 1], out[s, i, j + 2], out[s, i, j + 3] = t0, t1, t2, t3
                j += 4
            while j < width:
                r0, t0 = right[s, j], 0.0
                for k in range(inner):
                    t0 += row[k] * r0[k]
                out[s, i, j] = t0
                j += 1


@compiled(fastmath=FAST)
def largest_sums(left, right, out):  # type: ignore[no-untyped-def]
    """out[s, i, j] = maxₖ left[s, i, k] + right[s, k, j]."""
    batch, rows, inner = left.shape
    width = right.shape[2]
    for s in range(batch):
        for i in range(rows):
            row = out[s, i]
            row[:] = -np.inf
            for k in range(inner):
                a, other = left[s, i, k], right[s, k]
                for j in range(width):
                    row[j] = max(row[j], a + other[j])


@compiled(fastmath=CAREFUL)
def log_products(left, right, out):  # type: ignore[no-untyped-def]
    """out[s, i, j] = log Σₖ e^(left[s, i, k] + right[s, k, j]); nothing can overflow, and no row can vanish."""
    largest_sums(left, right, out)
    batch, rows, inner = left.shape
    width = right.shape[2]
    sums = np.empty(width)
    for s in range(batch):
        for i in range(rows):
            row = out[s, i]
            for j in range(width):
                row[j] = row[j] if row[j] > -np.inf else 0.0
            sums[:] = 0.0
            for k in range(inner):
                a, other = left[s, i, k], right[s, k]
                for j in range(width):
                    sums[j] += fast_exp(a + other[j] - row[j])
            for j in range(width):
                row[j] += fast_log(sums[j])


@compiled()
def flipped(matrices):  # type: ignore[no-untyped-def]
    """Each matrix with rows for columns."""
    batch, rows, width = matrices.shape
    out = np.empty((batch, width, rows))
    for s in range(batch):
        for i in range(rows):
            for j in range(width):
                out[s, j, i] = matrices[s, i, j]
    return out
