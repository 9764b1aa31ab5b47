"""What a mechanism is: a frozen dataclass of options with one method, `run`.

`@register("name")` puts it on the list that `op.mechanisms()`, the command line, the docs table and the contract
tests read. A mechanism sees the public rows, the workload and a curator: never a private row, count or sampler.
"""

import dataclasses
import importlib
import pkgutil
import warnings
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Protocol, TypeVar, dataclass_transform

import numpy as np

from openprior.errors import OpenPriorWarning, OptionError
from openprior.models.base import Model
from openprior.privacy.curator import Curator
from openprior.privacy.statistics import Total
from openprior.questions.workload import Marginal, Workload
from openprior.tables.encode import Table

__all__ = [
    "Mechanism",
    "Progress",
    "check",
    "known_total",
    "leave_uniform",
    "mechanisms",
    "need_public",
    "one_of",
    "option",
    "register",
    "role_of_public",
]


class Progress(Protocol):
    """Called after each step of long work; its words never carry anything private."""

    def __call__(self, done: int, of: int, what: str) -> None: ...


class Mechanism(Protocol):
    """Options, and how to run with them."""

    name: ClassVar[str]
    good_for: ClassVar[str]
    needs_public: ClassVar[bool]

    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Progress,
    ) -> Model:
        """Spend the curator's budget; return the model."""
        ...


_REGISTRY: dict[str, type[Any]] = {}
M = TypeVar("M")


def option(*, default: Any, doc: str) -> Any:
    """A dataclass field with a one-line description, which the command line and the docs show."""
    return dataclasses.field(default=default, metadata={"doc": doc})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option,))
def register(name: str) -> Callable[[type[M]], type[M]]:
    """Decorator: make the class a frozen, keyword-only dataclass and put it on the list."""

    def decorate(cls: type[M]) -> type[M]:
        made = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
        made.name = name  # type: ignore[attr-defined]
        _REGISTRY[name] = made
        return made

    return decorate


def role_of_public(mechanism: type[Any]) -> str:
    """What a public table is to a mechanism, in words."""
    if mechanism.needs_public:
        return "needed"
    return "used if given" if getattr(mechanism, "uses_public", False) else "not used"


def mechanisms() -> dict[str, type[Any]]:
    """Every mechanism by name; each is a dataclass of options."""
    import openprior.methods as room

    for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
        importlib.import_module(found.name)
    return dict(sorted(_REGISTRY.items()))


def check(condition: bool, message: str) -> None:
    """Raise an OptionError unless the condition holds."""
    if not condition:
        raise OptionError(message)


def one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise an OptionError unless the option has one of these values."""
    check(value in choices, f"{name} '{value}' must be one of {', '.join(choices)}")


def need_public(public: Table | None, name: str) -> Table:
    """The public table, or an error that says it is needed."""
    if public is None:
        raise OptionError(f"mechanism '{name}' needs a public table; give one, or use 'mwem'")
    return public


def leave_uniform(curator: Curator, known: Iterable[Marginal], remedy: str) -> None:
    """Say which columns nothing was measured of, if any, and what to do: they are uniform in every answer and row."""
    seen = {a for m in known for a in m}
    left_out = [a for a in curator.domain if a not in seen]
    if left_out:
        said = f"Not measured, so uniform in every answer and row: {', '.join(left_out)}."
        curator.remark(said)
        warnings.warn(f"{said} {remedy}", OpenPriorWarning, 2)


def known_total(curator: Curator, share: float = 0.02) -> float:
    """The number of rows: public under replace-one, else measured with this share of what is left of the budget."""
    if curator.unit.n_is_public:
        return float(curator.n)
    measured = curator.measure(Total(), share * curator.remaining)
    return max(1.0, float(measured.values[0]))
