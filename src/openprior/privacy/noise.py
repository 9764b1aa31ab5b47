"""The only source of noise.

`SecureNoise` is for releases: OpenDP's exact discrete samplers and the operating system's random numbers, no
floating-point side channel. `SeededNoise` is for experiments: the same distributions from a seeded generator,
so that a run can be repeated; whoever knows the seed can subtract the noise, so what it makes is NOT PRIVATE.

Noise is added to integer counts only. Proof of cost: the discrete Gaussian of parameter σ² on a vector of L2
sensitivity Δ₂ is Δ₂²/(2σ²)-zCDP, and the discrete Laplace of scale s on a vector of L1 sensitivity Δ₁ is
(Δ₁/s)-DP, as their continuous namesakes (Canonne, Kamath & Steinke 2020, Theorem 4; Ghosh et al. 2012). ∎

In zCDP the discrete Laplace costs Δ₁/s·tanh(Δ∞/(2s)), with Δ∞ the most that any one number moves. Proof: a number that
moves by d is (d/s)-DP, which costs d/s·tanh(d/(2s)) ≤ d/s·tanh(Δ∞/(2s)) (pure_cost.py); noise is independent, so Rényi
divergences of the numbers add up, and their d to Δ₁ at most. ∎ Where Δ∞ = 1 it is exact: the loss of a number that
moves is ±1/s and nothing between. The continuous noise's ε + e^−ε − 1 would be too little here, most at small scales.
"""

import math
import secrets
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from openprior.privacy.selection import Bits, Chooser

__all__ = ["Noise", "SecureNoise", "SeededNoise"]

Counts = NDArray[np.int64]


class Noise(Bits, Protocol):
    """Everything random that touches private data."""

    is_private: bool

    def gaussian(self, counts: Counts, sigma: float) -> Counts:
        """Counts plus discrete Gaussian noise of parameter at least σ."""
        ...

    def laplace(self, counts: Counts, scale: float) -> Counts:
        """Counts plus discrete Laplace noise of at least this scale."""
        ...

    def exponential(self, levels: Counts, sensitivity: int, epsilon: float) -> int:
        """One index by the exponential mechanism at ε."""
        ...

    def exponential_many(self, levels: Counts, sensitivity: int, epsilon: float, draws: int) -> list[int]:
        """So many indices by the exponential mechanism, each at ε, independent and with replacement."""
        ...

    def permute_and_flip(self, levels: Counts, sensitivity: int, epsilon: float) -> int:
        """One index by permute-and-flip at ε."""
        ...


class SecureNoise(Chooser):
    """Exact samplers on the operating system's randomness."""

    is_private = True

    def gaussian(self, counts: Counts, sigma: float) -> Counts:
        """OpenDP's discrete Gaussian, one call per vector."""
        domains, metrics, measurements = _opendp()
        space = domains.vector_domain(domains.atom_domain(T="i64")), metrics.l2_distance(T="f64")
        return self._add(measurements.make_gaussian(*space, scale=_up(sigma)), counts)

    def laplace(self, counts: Counts, scale: float) -> Counts:
        """OpenDP's discrete Laplace, one call per vector."""
        domains, metrics, measurements = _opendp()
        space = domains.vector_domain(domains.atom_domain(T="i64")), metrics.l1_distance(T="i64")
        return self._add(measurements.make_laplace(*space, scale=_up(scale)), counts)

    @staticmethod
    def _add(measurement: object, counts: Counts) -> Counts:
        assert callable(measurement)
        return np.asarray(measurement(counts.ravel().tolist()), dtype=np.int64).reshape(counts.shape)

    def below(self, bound: int) -> int:
        """Uniform below the bound, by rejection."""
        return secrets.randbelow(bound)

    def heads(self, coins: int) -> int:
        """Heads among fair coins: set bits of random bytes."""
        return _set_bits(secrets.token_bytes, coins)


class SeededNoise(Chooser):
    """The same distributions from a seed. NOT PRIVATE: for experiments and tests only."""

    is_private = False

    def __init__(self, seed: int | np.random.SeedSequence) -> None:
        self._rng = np.random.Generator(np.random.PCG64(seed))

    def gaussian(self, counts: Counts, sigma: float) -> Counts:
        """Discrete Gaussian by rejection from the discrete Laplace (Canonne et al., Algorithm 3)."""
        t = math.floor(sigma) + 1
        noise = np.empty(counts.size, np.int64)
        todo = np.arange(counts.size)
        while todo.size:
            y = self._discrete_laplace(todo.size, float(t))
            log_accept = -((np.abs(y) - sigma * sigma / t) ** 2) / (2 * sigma * sigma)
            accepted = np.log(self._rng.random(todo.size)) <= log_accept
            noise[todo[accepted]] = y[accepted]
            todo = todo[~accepted]
        return counts + noise.reshape(counts.shape)

    def laplace(self, counts: Counts, scale: float) -> Counts:
        """Discrete Laplace: the difference of two geometrics."""
        return counts + self._discrete_laplace(counts.size, scale).reshape(counts.shape)

    def _discrete_laplace(self, size: int, scale: float) -> NDArray[np.int64]:
        p = -math.expm1(-1 / scale)
        first, second = self._rng.geometric(p, size), self._rng.geometric(p, size)
        return (first - second).astype(np.int64)

    def below(self, bound: int) -> int:
        """Uniform below the bound, by rejection."""
        bits = (bound - 1).bit_length()
        while True:
            value = int.from_bytes(self._rng.bytes((bits + 7) // 8), "little") & ((1 << bits) - 1)
            if value < bound:
                return value

    def heads(self, coins: int) -> int:
        """Heads among fair coins."""
        return _set_bits(self._rng.bytes, coins)


def _opendp() -> tuple[Any, Any, Any]:
    """OpenDP's domains, metrics and measurements. Its prelude would load scikit-learn, pandas and Polars: a second."""
    from opendp import domains, measurements, metrics
    from opendp.mod import enable_features

    enable_features("contrib")
    return domains, metrics, measurements


class _RandomBytes(Protocol):
    def __call__(self, length: int, /) -> bytes: ...


def _set_bits(random_bytes: _RandomBytes, coins: int) -> int:
    value = int.from_bytes(random_bytes((coins + 7) // 8), "little")
    return (value & ((1 << coins) - 1)).bit_count()


def _up(scale: float) -> float:
    """A scale that rounding has not made smaller than its formula."""
    return scale * (1 + 2**-50)
