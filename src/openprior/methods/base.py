"""What a mechanism is: a frozen dataclass of options with one method, `run`, and a few facts about itself.

`@register("name")` puts it on the list that `op.mechanisms()`, the command line, `plan`, the tables in the
documentation and the contract tests read; nothing else has to be told of it. A mechanism sees the public rows, the
workload and a curator: never a private row, a private count or a sampler.
"""

import dataclasses
import importlib
import inspect
import pkgutil
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar, dataclass_transform

import numpy as np

from openprior.errors import OpenPriorWarning, OptionError
from openprior.methods.option_kinds import fit_options
from openprior.models.base import Model
from openprior.privacy.calibrate import budget_rho
from openprior.privacy.curator import Curator
from openprior.privacy.measurement import Measurement
from openprior.privacy.statistics import Counts, Statistic, Total
from openprior.privacy.unit import Unit
from openprior.progress import Tell, phase
from openprior.questions.workload import Marginal, Workload
from openprior.schema.base import Schema
from openprior.schema.domain import Domain
from openprior.schema.layout import Layout
from openprior.tables.table import Table

if TYPE_CHECKING:
    from openprior.models.prior.prior import Prior

__all__ = [
    "Mechanism",
    "Outlay",
    "PublicTable",
    "Sizes",
    "Tell",
    "check",
    "known_total",
    "leave_uniform",
    "measured_one_by_one",
    "mechanisms",
    "one_of",
    "option",
    "pure_choices",
    "register",
]


class PublicTable(StrEnum):
    """What a public table is to a mechanism."""

    NEEDED = "needed"
    USED_IF_GIVEN = "used if given"
    NOT_USED = "not used"


@dataclass(frozen=True, eq=False)
class Sizes:
    """What the time and memory of a run depend on; all of it is public, or a guess."""

    layout: Layout
    workload: Workload
    rows: int
    public_rows: int
    """0 if there is no public table."""
    epsilon: float
    delta: float = 1e-9

    @property
    def columns(self) -> int:
        """How many columns there are."""
        return len(self.layout.domain)

    @property
    def pairs(self) -> int:
        """How many pairs of columns there are."""
        return self.columns * (self.columns - 1) // 2

    @property
    def marginals(self) -> int:
        """How many marginals the workload has."""
        return len(self.workload.marginals)

    @property
    def rho(self) -> float:
        """The budget."""
        return budget_rho(self.epsilon, self.delta)

    @cached_property
    def cells(self) -> int:
        """Of the whole workload."""
        return sum(self.layout.domain.size(m) for m in self.workload.marginals)

    @cached_property
    def closure(self) -> int:
        """How many marginals the workload implies."""
        return len(self.workload.closure())


@dataclass(frozen=True)
class Outlay:
    """What a run takes beside reading the tables and writing the release; rough, for two cores of the machine that the
    numbers were fitted on. Compiling, which only the first run does, is not in it."""

    seconds: float
    megabytes: float
    at_most: float | None = None
    """Seconds if the public table is far from the private one, for a mechanism that then works much longer."""


@dataclass(frozen=True, kw_only=True)
class Mechanism(ABC):
    """Options, facts, and how to run."""

    name: ClassVar[str]
    """As on the command line; given by `register`."""
    good_for: ClassVar[str]
    """One phrase for the list of mechanisms."""
    public_table: ClassVar[PublicTable]
    """Whether it needs a public table."""
    needs_public_n: ClassVar[bool] = False
    """Whether the number of rows must be public: then it runs under replace-one only, and not inside groups."""
    pure_options: ClassVar[Mapping[str, Any] | None] = None
    """Options with which it can promise δ = 0; None if there are none."""
    has_exact_bars: ClassVar[bool] = False
    """Whether its answers are sums of measurements and nothing else, so that their noise is known exactly."""
    spends: ClassVar[bool] = True
    """Whether it looks at the private table at all."""
    takes_prior: ClassVar[bool] = False
    """Whether it can start from a prior that was learnt before (`op.fit_prior`)."""

    @abstractmethod
    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Tell,
    ) -> Model:
        """Spend the curator's budget; return the model."""

    @property
    def is_pure(self) -> bool:
        """Whether it promises δ = 0 as it is set."""
        return False

    @property
    def options(self) -> dict[str, Any]:
        """Every option as a certificate lists it; a mechanism among them is a mapping that has its name."""
        values = {f.name: vars(self)[f.name] for f in dataclasses.fields(self)}
        return {
            k: {"mechanism": v.name, **v.options} if isinstance(v, Mechanism) else v
            for k, v in values.items()
        }

    def fitted(self, schema: Schema) -> Self:
        """Itself with every option in codes of the schema; raises, before any charge, where one does not fit."""
        inner = {f.name: vars(self)[f.name] for f in dataclasses.fields(self)}
        fits = {k: v.fitted(schema) for k, v in inner.items() if isinstance(v, Mechanism)}
        return self if all(inner[k] is v for k, v in fits.items()) else dataclasses.replace(self, **fits)

    def prepared(self, public: Table | None, workload: Workload, prior: "Prior | None" = None) -> Self:
        """Itself with what it learns from public rows alone already learnt, or given as a prior: a release asks for it
        once it has compared these rows with the private ones, so here, and not in `run`, they may be kept for the
        next release. What runs inside groups is not asked, because its rows come from measurements."""
        return self

    def outlay(self, sizes: Sizes) -> Outlay | None:
        """What a run would take, or None if it would be refused.

        A guess for a mechanism that does not say: a hundred rounds, each a pass over the workload's cells and over the
        public rows, with a few numbers per cell in memory.
        """
        return Outlay(1 + 1e-6 * (sizes.cells + sizes.public_rows), 50e-6 * sizes.cells)

    def check_unit(self, unit: Unit) -> None:
        """Raise, before any charge, where it cannot run under this relation or inside groups."""
        if self.needs_public_n and not unit.n_is_public:
            raise OptionError(
                f"mechanism '{self.name}' needs the number of rows, which is private under add-remove and in groups; "
                "use replace-one on the whole table, or another mechanism"
            )

    def check_inside(self, domain: Domain, workload: Workload, unit: Unit) -> None:
        """Raise where it cannot run inside groups with these columns: a hierarchy asks before its first charge.

        Whatever `run` refuses by columns, workload or unit belongs here, too, as by then the levels above are paid for.
        """
        self.check_unit(unit)

    def need_public(self, public: Table | None) -> Table:
        """The public table, or an error that says it is needed and what does without."""
        if public is None:
            others = [n for n, m in mechanisms().items() if m.public_table is not PublicTable.NEEDED]
            raise OptionError(
                f"mechanism '{self.name}' needs a public table; give one, or use {', '.join(others)}"
            )
        return public


# The list.

_REGISTRY: dict[str, type[Mechanism]] = {}
M = TypeVar("M", bound=Mechanism)


def option(*, default: Any, doc: str, read: Callable[[Any], Any] | None = None) -> Any:
    """A dataclass field with a one-line description, which the command line and the docs show.

    `read` makes what a caller gives to what the option is declared to be, before that is checked.
    """
    return dataclasses.field(default=default, metadata={"doc": doc, "read": read})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option,))
def register(name: str) -> Callable[[type[M]], type[M]]:
    """Decorator: make the class a frozen, keyword-only dataclass and put it on the list."""

    def decorate(cls: type[M]) -> type[M]:
        if not issubclass(cls, Mechanism) or inspect.isabstract(cls):
            raise TypeError(f"{cls.__qualname__} is no mechanism: it must be a Mechanism and have `run`")
        missing = [fact for fact in ("good_for", "public_table") if fact not in dir(cls)]
        if missing:
            raise TypeError(f"mechanism '{name}' ({cls.__qualname__}) does not say {' and '.join(missing)}")
        other = _REGISTRY.get(name)
        if other is not None and _path(other) != _path(cls):
            raise TypeError(
                f"mechanism '{name}' exists twice, as {_path(other)} and as {_path(cls)}; rename one of them"
            )
        _check_options_first(cls)
        mechanism = dataclasses.dataclass(frozen=True, kw_only=True)(cls)
        mechanism.name = name
        _REGISTRY[name] = mechanism
        return mechanism

    return decorate


def _check_options_first(cls: type[Mechanism]) -> None:
    """Have every option be what it is declared to be before the mechanism's own checks look at ranges."""
    ranges: Callable[[Mechanism], None] | None = vars(cls).get("__post_init__")

    def check_all(self: Mechanism) -> None:
        fit_options(self)
        if ranges is not None:
            ranges(self)

    setattr(cls, "__post_init__", check_all)  # noqa: B010 - the abstract class has none of its own


def _path(cls: type[Any]) -> str:
    """Where a class is defined: a module that is loaded again defines the same class again."""
    return f"{cls.__module__}.{cls.__qualname__}"


def mechanisms() -> dict[str, type[Mechanism]]:
    """Every mechanism by name; each is a dataclass of options."""
    import openprior.methods as room

    for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
        importlib.import_module(module.name)
    return dict(sorted(_REGISTRY.items()))


def pure_choices() -> str:
    """The mechanisms that can promise δ = 0, with the options for it, in words.

    >>> pure_choices().split(" or ")[1:]
    ['hierarchy with noise = laplace', 'ide with noise = laplace', 'importance with noise = laplace']
    """
    choices = []
    for name, mechanism in mechanisms().items():
        if mechanism.pure_options is not None:
            options = ", ".join(f"{k} = {v}" for k, v in mechanism.pure_options.items())
            choices.append(f"{name} with {options}" if options else name)
    return " or ".join(choices)


# What mechanisms say and do alike.


def check(condition: bool, message: str) -> None:
    """Raise an OptionError unless the condition holds."""
    if not condition:
        raise OptionError(message)


def one_of(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise an OptionError unless the option has one of these values."""
    check(value in choices, f"{name} '{value}' must be one of {', '.join(choices)}")


NOT_MEASURED = "Not measured"
"""How a remark on columns that nothing was measured of begins."""


def leave_uniform(curator: Curator, known: Iterable[Marginal], remedy: str) -> None:
    """Say which columns nothing was measured of, if any, and what to do: they are uniform in every answer and row."""
    measured = {a for m in known for a in m}
    left_out = [a for a in curator.domain if a not in measured]
    if left_out:
        said = f"{NOT_MEASURED}, so uniform in every answer and row: {', '.join(left_out)}."
        curator.remark(said)
        warnings.warn(f"{said} {remedy}", OpenPriorWarning, 2)


def measured_one_by_one(
    curator: Curator,
    marginals: Sequence[Marginal | Statistic],
    rho: float | Sequence[float],
    what: str = "measuring each column",
) -> list[Measurement]:
    """The counts of each (or the statistic that is named), for so much each, or for what is left where shares do not
    quite add up; one phase of work."""
    measured = []
    shares = [rho] * len(marginals) if isinstance(rho, float) else rho
    with phase(what, len(marginals)) as work:
        for marginal, share in zip(marginals, shares, strict=True):
            asked = marginal if isinstance(marginal, Statistic) else Counts(marginal)
            measured.append(curator.measure(asked, min(share, curator.remaining)))
            work.advance()
    return measured


def known_total(curator: Curator, share: float = 0.02) -> float:
    """The number of rows: public under replace-one, else measured with this share of what is left of the budget."""
    measured = counted_rows(curator, share)
    return float(curator.n) if measured is None else max(1.0, float(measured.values[0]))


def counted_rows(curator: Curator, share: float = 0.02) -> Measurement | None:
    """The number of rows, measured with this share of what is left of the budget; None where it is public."""
    return None if curator.unit.n_is_public else curator.measure(Total(), share * curator.remaining)
