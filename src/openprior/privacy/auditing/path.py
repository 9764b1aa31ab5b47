"""One run of a mechanism under a witness: the path it takes, and everything that leaves it.

The proof of every mechanism is the same: each step is private given the outcomes before it, and all the rest is a
function of outcomes and public data. So a run that is given the *recorded* outcomes must do the same on a neighbour:
the same events with the same parameters, the same words, the same failure or the same model, whatever the data are.
`differences` says where it does not.
"""

import hashlib
import importlib
import json
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path as Folder
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from openprior.privacy.auditing.witness import Diverged, Draw, Look, Witness
from openprior.privacy.curator import Curator
from openprior.privacy.unit import Unit
from openprior.progress import Progress, listening, telling
from openprior.questions.workload import Workload
from openprior.schema.base import Schema
from openprior.tables.table import Table

__all__ = ["Mechanical", "Path", "Setting", "differences", "walk"]

_SHARE = 0.05
"""Of the budget, for error bars."""


class Mechanical(Protocol):
    """What a mechanism is to the audit; those of `methods/` are, and a user's own."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def public_table(self) -> str:
        """ "needed", "used if given" or "not used"."""
        ...

    @property
    def pure_options(self) -> Mapping[str, Any] | None:
        """Options with which it can promise δ = 0."""
        ...

    @property
    def is_pure(self) -> bool:
        """Whether it promises δ = 0 as it is set."""
        ...

    def run(
        self,
        curator: Curator,
        public: Table | None,
        workload: Workload,
        rng: np.random.Generator,
        progress: Any,
    ) -> Any:
        """Spend the budget; return a model."""
        ...


@dataclass(frozen=True, eq=False)
class Setting:
    """All that two neighbours have in common."""

    mechanism: Mechanical
    schema: Schema
    unit: Unit
    workload: Workload
    public: Table | None
    epsilon: float
    delta: float
    seed: int
    far: bool
    """Whether outcomes are drawn far off the truth."""


@dataclass(eq=False)
class Path:
    """What one run did, and what left it."""

    witness: Witness
    words: list[str] = field(default_factory=list)
    """Progress, remarks and warnings, in order."""
    failure: str = ""
    """The error that ended it, if one did."""
    diverged: str = ""
    """Where it left the recorded path, if it did."""
    answers: dict[tuple[str, ...], NDArray[np.float64]] = field(default_factory=dict)
    bars: str = ""
    """The error bars that were measured."""
    model: str = ""
    """A digest of the saved model and of its rows."""

    @property
    def looks(self) -> list[Look]:
        """Its events, in order."""
        return self.witness.looks

    @property
    def script(self) -> list[Draw]:
        """Its draws, in order."""
        return self.witness.drawn


class _Words:
    """Writes down what progress tells, but for times."""

    def __init__(self, words: list[str]) -> None:
        self._words = words

    def begin(self, told: Progress) -> None:
        """Word for word."""
        self._words.append(f"{told.phase}: {told.done} of {told.total}")

    step = end = begin


def walk(setting: Setting, table: pa.Table, script: list[Draw] | None = None) -> Path:
    """Run the mechanism on a table; with a script, its draws come out as recorded."""
    witness = Witness(setting.seed, far=setting.far, script=script)
    path = Path(witness)
    curator = witness.curator(
        table, setting.schema, setting.unit, epsilon=setting.epsilon, delta=setting.delta
    )
    # All that progress could tell, at any moment. Compiling is left out: it depends on what was compiled before.
    heard = listening(_Words(path.words), every=0.0, compiling=False)
    with warnings.catch_warnings(record=True) as warned, heard:
        warnings.simplefilter("always")
        try:
            rng = np.random.default_rng([setting.seed, 3])
            share = _held_back(setting.mechanism)
            with telling() as progress, curator.holding_back(share) as held:
                model = setting.mechanism.run(curator, setting.public, setting.workload, rng, progress)
            if share:
                path.bars = _bars(curator, witness, model, setting, held)
            # Whatever a model does now, it is compared with what it does on the neighbour.
            with witness.freely():
                _keep(path, model, setting)
        except Diverged as error:
            path.diverged = str(error)
        except Exception as error:  # noqa: BLE001  (any failure is an outcome, and must be the same on a neighbour)
            path.failure = f"{type(error).__name__}: {error}"
    path.words += [*witness.account.remarks, *(str(w.message) for w in warned)]
    return path


def _held_back(mechanism: Mechanical) -> float:
    """A share of the budget for error bars, where a release has them: they are a step of every such run."""
    return 0.0 if getattr(mechanism, "has_exact_bars", False) else _SHARE


def _bars(curator: Curator, witness: Witness, model: Any, setting: Setting, held: float) -> str:
    """The release's last step, and all that it writes of what it found."""
    step = importlib.import_module("openprior.releases.error_step")  # by name: that room is above this one
    rng = np.random.default_rng([setting.seed, 5])
    has_public = setting.public is not None
    bars = step.bars_of(curator, witness.account, model, setting.workload, held, rng, has_public=has_public)
    return "" if bars is None else json.dumps(bars.to_dict())


def _keep(path: Path, model: Any, setting: Setting) -> None:
    """What a release takes from a model: answers, its files, its rows."""
    singles = [(a,) for a in setting.schema.domain]
    path.answers = dict(model.answers([*setting.workload.marginals, *singles]))
    path.answers[()] = np.array([model.total])
    if path.bars:
        errors = model.standard_errors(setting.workload.marginals) or {}
        path.answers.update({("error", *m): e for m, e in errors.items()})
    digest = hashlib.sha256()
    with tempfile.TemporaryDirectory() as folder:
        model.save(Folder(folder))
        for file in sorted(Folder(folder).rglob("*")):
            if file.is_file():
                digest.update(file.name.encode() + file.read_bytes())
    rows = min(max(1, round(model.total)), 1000)
    for column in model.sample(rows, np.random.default_rng([setting.seed, 4])).columns:
        digest.update(np.ascontiguousarray(column).tobytes())
    path.model = digest.hexdigest()


def differences(first: Path, second: Path) -> Iterator[str]:
    """How a replayed run is not the recorded one; nothing if it is."""
    for number, (one, other) in enumerate(zip(first.looks, second.looks, strict=False), 1):
        asked, asks = one.event.to_dict(), other.event.to_dict()
        if asked != asks or one.charge != other.charge:
            keys = [k for k in {**asked, **asks} if asked.get(k) != asks.get(k)] or ["charge"]
            yield f"path: event {number} ({one.event.kind}) has another {', '.join(keys)} on a neighbour"
            return  # what follows differs because of this
        unfinished = bool(second.diverged) and other is second.looks[-1]
        if not unfinished and not _same_outcome(one, other):
            yield f"path: event {number} ({one.event.kind}) gives out more than its draws"
            return
    if second.diverged:
        yield f"path: {second.diverged}"
    elif len(first.looks) != len(second.looks):
        yield f"path: {len(first.looks)} events, but {len(second.looks)} on a neighbour"
    elif first.failure != second.failure:
        yield f"path: ends with '{first.failure or 'a model'}', on a neighbour with '{second.failure or 'a model'}'"
    elif first.words != second.words:
        yield "path: progress, remarks or warnings have other words on a neighbour"
    elif any(not np.array_equal(first.answers[m], second.answers[m]) for m in first.answers):
        yield "path: the same outcomes give another model on a neighbour"
    elif first.bars != second.bars:
        yield "path: the same outcomes give other error bars on a neighbour"
    elif first.model != second.model:
        yield "path: the same outcomes give another saved model or other rows on a neighbour"


def _same_outcome(one: Look, other: Look) -> bool:
    return one.outcome.keys() == other.outcome.keys() and all(
        np.array_equal(np.asarray(one.outcome[k]), np.asarray(other.outcome[k])) for k in one.outcome
    )
