"""Progress: what long work tells of itself while it goes on.

Work is told in phases. `with phase("learning from the public table", 12) as work:` opens one, and `work.advance()` says
that one of its twelve steps is done; a phase inside another is told as its own. Who does the work needs no parameter
for it: the watch that listens is found through a context variable, and without one nothing happens. From how long the
steps took follows how long the rest will take; where that is not known, nothing is said about it.

What may be told. Progress leaves the process, so it holds only what is public or was paid for. The names of phases are
fixed words. Numbers count steps that follow from the schema, the workload, the options, the public table or outcomes
with noise; a phase without a total tells no number at all, and that is how the private table is read wherever its
number of rows is private (vault.py). The audit compares all of it between neighbours. Times are not protected, here as
elsewhere (docs/privacy.md): `remaining` is for whoever watches, and lines for a log have no times.

A watcher cannot break a run that was charged: if it raises, it is not called again, one warning says so, and the run
goes on. KeyboardInterrupt and its like go through, and a run that keeps a journal can be resumed.
"""

import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from openprior.errors import OpenPriorWarning

__all__ = [
    "COMPILING",
    "Display",
    "Phase",
    "Progress",
    "Tell",
    "here",
    "hushed",
    "is_listened_to",
    "listening",
    "phase",
    "telling",
]

EVERY = 0.1
"""Seconds between two updates within a phase; its beginning and its end are always told."""
_ENOUGH = 0.5
"""Seconds of work from which a pace can be taken."""
COMPILING = "compiling, only the first time"


@dataclass(frozen=True)
class Progress:
    """How far a phase is."""

    phase: str
    """What is being done, in fixed words."""
    done: int
    """Steps done; 0 where they cannot be counted, or must not be told."""
    total: int | None
    """Steps in all; None where nobody knows. It may change where it is an estimate."""
    remaining: float | None
    """Seconds until the phase ends, by the pace of its own steps; None where nobody knows."""


class Display(Protocol):
    """Who is told."""

    def begin(self, told: Progress) -> None:
        """A phase begins."""

    def step(self, told: Progress) -> None:
        """It has come further."""

    def end(self, told: Progress) -> None:
        """It has ended."""


class Tell(Protocol):
    """Called after each step of long work; its words never carry anything private."""

    def __call__(self, done: int, of: int, what: str) -> None: ...


class Phase:
    """A piece of work that is told of. Threads may advance it side by side."""

    def __init__(
        self, name: str, total: int | None, watch: "_Watch | None", *, by_tell: bool = False
    ) -> None:
        self.name, self.total, self.done = name, total, 0
        self.by_tell = by_tell
        self.worked = 0.0
        """Seconds in this phase, without those of phases inside it."""
        self._watch = watch
        self._marks = [(0, 0.0)]

    def advance(self, by: int = 1) -> None:
        """So many more steps are done."""
        if self._watch is not None:
            with self._watch.lock:
                self._watch.moved(self, self.done + by, self.total)

    def at(self, done: int, total: int | None) -> None:
        """So many steps are done, of so many by what is known now."""
        if self._watch is not None:
            self._watch.moved(self, done, total)

    def mark(self, done: int, total: int | None) -> None:
        """Take over numbers, and when they were reached."""
        self.done, self.total = done, total
        if self.worked - self._marks[-1][1] >= EVERY or len(self._marks) < 8:
            self._marks.append((done, self.worked))

    @property
    def told(self) -> Progress:
        """How far it is. Without a total, no number leaves it."""
        if self.total is None:
            return Progress(self.name, 0, None, None)
        return Progress(self.name, min(self.done, self.total), self.total, self._remaining(self.total))

    def _remaining(self, total: int) -> float | None:
        """By the pace of the later half of the steps done: the first often has something to load."""
        if len(self._marks) < 3 or self.worked < _ENOUGH:
            return None
        done, worked = next(m for m in reversed(self._marks) if m[0] <= self.done / 2)
        return max(total - self.done, 0) * (self.worked - worked) / (self.done - done)


class _Watch:
    """The phases that are open, and who is told of them. Time belongs to the innermost."""

    def __init__(self, display: Display, every: float | None, clock: Callable[[], float]) -> None:
        self._display: Display | None = display
        self._every, self._clock = every, clock
        self.lock = threading.RLock()
        self._open: list[Phase] = []
        self._at = self._said = clock()

    def begin(self, name: str, total: int | None, *, by_tell: bool = False) -> Phase:
        """Open a phase; one that was told by steps, all of them done, has ended."""
        with self.lock:
            self._tick()
            if self._open and self._open[-1].by_tell and self._open[-1].done >= (self._open[-1].total or 0):
                self.end(self._open[-1])
            begun = Phase(name, total, self, by_tell=by_tell)
            self._open.append(begun)
            self._tell("begin", begun.told)
            return begun

    def moved(self, moved: Phase, done: int, total: int | None) -> None:
        """A phase has come to a number of steps; told if nothing was just before."""
        with self.lock:
            self._tick()
            moved.mark(done, total)
            if total is None:
                return
            if self._at - self._said >= (EVERY if self._every is None else self._every):
                self._said = self._at
                self._tell("step", moved.told)

    def end(self, ended: Phase, *, whole: bool = True) -> None:
        """Close a phase: all of it is done, unless an error ended it."""
        with self.lock:
            self._tick()
            if ended in self._open:
                self._open.remove(ended)
                if whole and ended.total is not None:
                    ended.done = ended.total
                self._tell("end", ended.told)

    def tell(self, done: int, of: int, what: str) -> None:
        """Steps that are told by name: another name ends the phase before."""
        with self.lock:
            top = self._open[-1] if self._open and self._open[-1].by_tell else None
            if top is None or top.name != what:
                self.end_told()
                top = self.begin(what, of, by_tell=True)
            if done:
                top.at(done, of)

    def end_told(self, *, whole: bool = True) -> None:
        """Close what `tell` has opened last."""
        with self.lock:
            while self._open and self._open[-1].by_tell:
                self.end(self._open[-1], whole=whole)

    def _tick(self) -> None:
        now = self._clock()
        if self._open:
            self._open[-1].worked += now - self._at
        self._at = now

    def _tell(self, what: str, told: Progress) -> None:
        if self._display is None:
            return
        try:
            getattr(self._display, what)(told)
        except Exception as error:  # noqa: BLE001  (whatever a watcher raises, a charged run goes on)
            self._display = None
            warnings.warn(
                f"the progress function failed ({type(error).__name__}) and is not called again; the run goes on",
                OpenPriorWarning,
                stacklevel=2,
            )


_NOBODY = Phase("", None, None)
_WATCH: ContextVar[_Watch | None] = ContextVar("openprior_watch", default=None)
_PHASE: ContextVar[Phase] = ContextVar("openprior_phase", default=_NOBODY)


@contextlib.contextmanager
def phase(name: str, total: int | None = None) -> Iterator[Phase]:
    """A phase of so many steps, or of a number that nobody knows, or may be told."""
    watch = _WATCH.get()
    if watch is None:
        yield _NOBODY
        return
    begun = watch.begin(name, total)
    token = _PHASE.set(begun)
    ended = False
    try:
        yield begun
        ended = True
    finally:
        _PHASE.reset(token)
        watch.end_told(whole=ended)
        watch.end(begun, whole=ended)


def here() -> Phase:
    """The phase that is open here; to be taken along into threads, which do not know of it by themselves."""
    return _PHASE.get()


@contextlib.contextmanager
def telling() -> Iterator[Tell]:
    """For a mechanism: a function `(done, of, what)`; each `what` is a phase, and the last one ends here."""
    watch = _WATCH.get()
    if watch is None:
        yield _tell_nobody
        return
    ended = False
    try:
        yield watch.tell
        ended = True
    finally:
        watch.end_told(whole=ended)


def _tell_nobody(done: int, of: int, what: str) -> None:
    """Progress that nobody watches."""


@contextlib.contextmanager
def hushed() -> Iterator[None]:
    """Nothing in here is told: for work that is one step of a phase, such as a mechanism inside every group."""
    watch, inner = _WATCH.set(None), _PHASE.set(_NOBODY)
    try:
        yield
    finally:
        _PHASE.reset(inner)
        _WATCH.reset(watch)


def is_listened_to() -> bool:
    """Whether somebody watches already."""
    return _WATCH.get() is not None


@contextlib.contextmanager
def listening(
    display: Display,
    *,
    every: float | None = None,
    clock: Callable[[], float] = time.monotonic,
    compiling: bool = True,
) -> Iterator[None]:
    """Tell the display of all phases in here; at most once per `every` seconds within one, `EVERY` if not given."""
    watch = _Watch(display, every, clock)
    outer, inner = _WATCH.set(watch), _PHASE.set(_NOBODY)
    try:
        with _compilations(watch) if compiling else contextlib.nullcontext():
            yield
    finally:
        _PHASE.reset(inner)
        _WATCH.reset(outer)


@contextlib.contextmanager
def _compilations(watch: _Watch) -> Iterator[None]:
    """Tell when numba compiles. It says so itself, and only then: what it finds in its cache is no compilation."""
    from numba.core import event

    class Listener(event.Listener):  # type: ignore[misc]
        def __init__(self) -> None:
            self.depth, self.phase = 0, _NOBODY

        def on_start(self, told: Any) -> None:
            with watch.lock:
                self.depth += 1
                if self.depth == 1:
                    self.phase = watch.begin(COMPILING, None)

        def on_end(self, told: Any) -> None:
            with watch.lock:
                self.depth -= 1
                if self.depth == 0:
                    watch.end(self.phase)

    listener = Listener()
    event.register("numba:compile", listener)
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)
