"""A generator while it is being learnt (GEM; Liu, Vietri & Wu 2021, §4), with JAX: the extra `neural`.

A network maps B rows of fixed noise to one distribution per attribute and row, so it stands for a mixture of B product
distributions whose answers are smooth in its weights. Without hidden layers there is no network: the logits of the
mixture, and the shares of its components, are themselves what is learnt.

Shapes are padded, so that all rounds run what was compiled once. Everything random is drawn with the generator that is
passed in, and JAX only computes. It is imported where it is used: it is an extra, and slow to load.
"""

import importlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from openprior.errors import OptionError
from openprior.schema.domain import Domain

__all__ = ["Network", "Weights", "averaged", "need_neural"]

Floats = NDArray[np.float32]
Weights = Any
"""Arrays in dictionaries and lists, as JAX takes them."""

_NOISE = 128
"""Numbers in a row of noise, as published."""
_STEEPEST = 30.0
"""Logits beyond this are cut: e^60 between two values is enough."""
_COLUMNS, _ATTRIBUTES, _DEPTH = 64, 16, 4
"""Columns and attributes are padded to multiples of these, queries to so many attributes at least."""


def need_neural(name: str) -> None:
    """Raise, before anything is charged, unless the extra is there and can be loaded."""
    missing = []
    for module in ("jax", "optax"):
        try:
            importlib.import_module(module)
        except ImportError:
            missing.append(module)
    if missing:
        raise OptionError(
            f"mechanism '{name}' needs {' and '.join(missing)}, which cannot be loaded here; "
            "pip install 'openprior[neural]'"
        )


class Network:
    """The weights of a generator, and what they stand for."""

    def __init__(self, domain: Domain, batch: int, hidden: tuple[int, ...], rng: np.random.Generator) -> None:
        self.domain = domain
        self._width = sum(domain.shape)
        padded = -(-self._width // _COLUMNS) * _COLUMNS
        self._home = np.zeros((padded, -(-len(domain) // _ATTRIBUTES) * _ATTRIBUTES), np.float32)
        self._home[np.arange(self._width), np.repeat(np.arange(len(domain)), domain.shape)] = 1.0
        self._noise = rng.standard_normal((batch, _NOISE if hidden else 0)).astype(np.float32)
        self.weights: Weights = _first_weights(batch, hidden, padded, rng)

    def start_from(self, shares: Floats, values: Floats) -> None:
        """Begin at this mixture; only where its logits are what is learnt."""
        logits = np.zeros_like(self.weights["logits"])
        logits[: self._width] = np.log(np.maximum(values.T, 1e-9))
        self.weights = {"logits": logits, "shares": np.log(shares).astype(np.float32)}

    def mixture(self) -> tuple[Floats, Floats]:
        """Shares and distributions, one component per row."""
        shares, logs = _compiled_logs()(self.weights, self._noise, self._home)
        return np.exp(np.asarray(shares)), np.exp(np.asarray(logs)[: self._width].T)

    def fitting(self, rate: float, steps: int) -> "Fitting":
        """Begin up to so many steps of Adam, at a rate that sinks to nothing."""
        return Fitting(self, rate, steps)


class Fitting:
    """Steps of Adam on what a round knows."""

    def __init__(self, network: Network, rate: float, steps: int) -> None:
        self._network, self._rate, self._steps = network, np.float32(rate), np.int32(steps)
        self._moments = _compiled_moments()(network.weights)
        self.done = 0

    def go(self, columns: NDArray[np.int32], answers: Floats, least: float, steps: int, room: int) -> float:
        """So many steps on the mean |error| of those of these queries that are off by at least `least`; the loss.

        `columns` has, per query, the numbers of the (attribute, value) pairs that it asks for, and −1 where there are
        no more. Queries are padded to `room`.
        """
        asked = np.full((room, max(columns.shape[1], _DEPTH)), -1, np.int32)
        asked[: len(columns), : columns.shape[1]] = columns
        wanted = np.full(room, -1.0, np.float32)  # below every answer: padding
        wanted[: len(answers)] = answers
        net = self._network
        net.weights, self._moments, loss = _compiled_steps()(
            net.weights, self._moments, net._noise, net._home, asked, wanted, np.float32(least),
            self._rate, np.int32(self.done), np.int32(self.done + steps), self._steps,
        )  # fmt: skip
        self.done += steps
        return float(loss)


def averaged(first: Weights, second: Weights, share: float) -> Weights:
    """This share of the first weights, and the rest of the second."""
    import jax

    return jax.tree.map(lambda a, b: share * a + (1 - share) * b, first, second)


def _first_weights(batch: int, hidden: Sequence[int], width: int, rng: np.random.Generator) -> Weights:
    shares = np.full(batch, -np.log(batch), np.float32)
    if not hidden:
        return {"logits": rng.standard_normal((width, batch)).astype(np.float32), "shares": shares}
    layers, size = [], _NOISE
    for out in (*hidden, width):
        bound = size**-0.5
        matrix, bias = (rng.uniform(-bound, bound, shape).astype(np.float32) for shape in ((size, out), out))
        layers.append(
            {"matrix": matrix, "bias": bias, "scale": np.ones_like(bias), "shift": np.zeros_like(bias)}
        )
        size += out
    return {"layers": layers, "shares": shares}


# What is compiled.


def _logits(weights: Weights, noise: Any) -> Any:
    """[column, component]: concat(ReLU(BatchNorm(Wx)), x) in every hidden layer, then a linear one."""
    import jax.numpy as jnp

    if "logits" in weights:
        return weights["logits"]
    x, (*hidden, last) = noise, weights["layers"]
    for layer in hidden:
        y = x @ layer["matrix"] + layer["bias"]
        y = (y - y.mean(axis=0)) / jnp.sqrt(y.var(axis=0) + 1e-5) * layer["scale"] + layer["shift"]
        x = jnp.concatenate([jnp.maximum(y, 0.0), x], axis=1)
    return (x @ last["matrix"] + last["bias"]).T


def _logs(weights: Weights, noise: Any, home: Any) -> tuple[Any, Any]:
    """The logarithms of the shares and, [column, component], of the distributions."""
    import jax
    import jax.numpy as jnp

    logits = jnp.clip(_logits(weights, noise), -_STEEPEST, _STEEPEST)
    sums = jnp.maximum(home.T @ jnp.exp(logits), 1e-30)  # 0 where attributes are padded
    shares = weights["shares"] if "logits" in weights else jax.lax.stop_gradient(weights["shares"])
    return jax.nn.log_softmax(shares), logits - home @ jnp.log(sums)


@cache
def _compiled_logs() -> Callable[..., Any]:
    import jax

    return jax.jit(_logs)  # type: ignore[no-any-return]


@cache
def _compiled_moments() -> Callable[..., Any]:
    import jax
    import optax

    return jax.jit(optax.scale_by_adam().init)  # type: ignore[no-any-return]


@cache
def _compiled_steps() -> Callable[..., Any]:
    """Some steps of Adam, as one function."""
    import jax
    import jax.numpy as jnp
    import optax

    adam = optax.scale_by_adam()

    def loss(weights: Weights, noise: Any, home: Any, columns: Any, answers: Any, least: Any) -> Any:
        shares, logs = _logs(weights, noise, home)
        logs = jnp.concatenate([logs, jnp.zeros((1, logs.shape[1]), logs.dtype)])  # at −1: asks for nothing
        errors = jnp.abs(jnp.exp(logs[columns].sum(axis=1) + shares).sum(axis=1) - answers)
        wrong = jax.lax.stop_gradient((answers >= 0) & (errors >= least))
        return jnp.where(wrong, errors, 0.0).sum() / jnp.maximum(wrong.sum(), 1)

    graded = jax.value_and_grad(loss)

    def steps(
        weights: Weights, moments: Any, noise: Any, home: Any, columns: Any, answers: Any, least: Any,
        rate: Any, first: Any, last: Any, of: Any,
    ) -> Any:  # fmt: skip
        def step(i: Any, state: Any) -> Any:
            weights, moments, _ = state
            value, slope = graded(weights, noise, home, columns, answers, least)
            moves, moments = adam.update(slope, moments)
            now = rate * (value > 0) * 0.5 * (1 + jnp.cos(jnp.pi * i / of))
            return jax.tree.map(lambda w, m: w - now * m, weights, moves), moments, value

        return jax.lax.fori_loop(first, last, step, (weights, moments, jnp.float32(0)))

    return jax.jit(steps)  # type: ignore[no-any-return]
