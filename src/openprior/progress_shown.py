"""Progress as people see it: bars in a terminal or a notebook, plain lines in a log, or a function of their own.

`watching(progress)` is what `release`, `tune` and `audit` do with their argument of that name:

None       bars if somebody watches, in a terminal or a notebook; silence otherwise
True       the same, but one plain line per phase where nobody watches: a log says what a run was doing
False      silence
function   called with a `Progress` when a phase begins, ends, and about ten times per second in between

A plain line is written once its phase has lasted a second, so that what is quick says nothing, and it has no times.
"""

import contextlib
import functools
import inspect
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TextIO, TypeVar

from openprior.errors import OptionError
from openprior.given import shown
from openprior.progress import Display, Progress, hushed, is_listened_to, listening

__all__ = ["ShowProgress", "in_words", "watched", "watching"]

ShowProgress = bool | Callable[[Progress], object] | None
"""What the argument `progress` may be."""
PATIENCE = 1.0
"""Seconds that a phase lasts before a log gets a line for it."""


@contextlib.contextmanager
def watching(progress: ShowProgress = None) -> Iterator[None]:
    """Show the progress of all that is done in here. Within another `watching`, None leaves it to that one."""
    _check(progress)
    if progress is False:
        with hushed():
            yield
        return
    if progress is None and is_listened_to():
        yield
        return
    with _display(progress) as display:
        if display is None:
            yield
            return
        with listening(display):
            yield


P = ParamSpec("P")
R = TypeVar("R")


def watched(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: what the caller says about `progress` holds for all that the function does."""

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> R:
        progress: Any = options.get("progress")
        with watching(progress):
            return function(*args, **options)

    return call


def _check(progress: object) -> None:
    """Refuse what is neither yes, no nor a function of one thing: it would end the work when it is first called."""
    if progress is None or isinstance(progress, bool):
        return
    fits = callable(progress) and not isinstance(progress, type)
    if fits and callable(progress):
        try:
            inspect.signature(progress).bind(None)
        except TypeError:
            fits = False
        except ValueError:  # some that are not written in Python do not say what they take
            pass
    if not fits:
        raise OptionError(
            f"progress {shown(progress)} cannot be called with one Progress; give True, False or such a function"
        )


@contextlib.contextmanager
def _display(progress: ShowProgress) -> Iterator[Display | None]:
    if callable(progress):
        yield _Called(progress)
    elif _in_notebook():
        yield _Notebook()
    elif _in_terminal(sys.stderr):
        with _bars() as bars:
            yield bars
    elif progress:
        with contextlib.closing(_Lines(sys.stderr)) as lines:
            yield lines
    else:
        yield None


def _in_terminal(stream: Any) -> bool:
    """Whether a person looks at this stream, on something that can go back in a line."""
    if stream is None or not stream.isatty():
        return False
    from rich.console import Console

    return not Console(file=stream).is_dumb_terminal


def _in_notebook() -> bool:
    """Whether this runs in Jupyter or what shows itself like it."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def in_words(seconds: float) -> str:
    """
    >>> [in_words(s) for s in (0.2, 8.4, 95, 600, 4000)]
    ['1 s', '8 s', '2 min', '10 min', '1 h 7 min']
    """
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class _Called:
    """A function of the user's."""

    def __init__(self, function: Callable[[Progress], object]) -> None:
        self._function = function

    def begin(self, told: Progress) -> None:
        """Call it."""
        self._function(told)

    step = begin

    def end(self, told: Progress) -> None:
        """Call it with the last step, where steps are counted."""
        if told.total is not None:
            self._function(told)


class _Lines:
    """One plain line per phase that lasts, for logs: no bars, no times, and the same words only once."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._patience = stream, PATIENCE
        self._lock = threading.Lock()
        self._waiting: dict[str, threading.Timer] = {}
        self._said: set[str] = set()
        self._closed = False

    def begin(self, told: Progress) -> None:
        """Write the line if the phase is still going on in a moment."""
        if self._patience <= 0:
            self._say(told.phase)
            return
        with self._lock:
            if told.phase not in self._said and told.phase not in self._waiting and not self._closed:
                timer = threading.Timer(self._patience, self._say, [told.phase])
                timer.daemon = True
                self._waiting[told.phase] = timer
                timer.start()

    def step(self, told: Progress) -> None:
        """One line is enough."""

    def end(self, told: Progress) -> None:
        """It was quick, or has its line."""
        with self._lock:
            timer = self._waiting.pop(told.phase, None)
        if timer is not None:
            timer.cancel()

    def close(self) -> None:
        """No line comes after this."""
        with self._lock:
            for timer in self._waiting.values():
                timer.cancel()
            self._waiting.clear()
            self._closed = True

    def _say(self, phase: str) -> None:
        with self._lock:
            if phase in self._said or self._closed:
                return
            self._said.add(phase)
            with contextlib.suppress(OSError, ValueError):  # a log that was closed: the run goes on
                self._stream.write(f"{phase} ...\n")
                self._stream.flush()


class _Notebook:
    """A few lines in the output of a cell, written over; needs no widgets."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}
        self._shown: Any = None

    def begin(self, told: Progress) -> None:
        """A line of its own."""
        self._write(told, "")

    def step(self, told: Progress) -> None:
        """How far, and how long yet."""
        self._write(told, _how_far(told))

    def end(self, told: Progress) -> None:
        """Done."""
        self._write(told, "done")

    def _write(self, told: Progress, words: str) -> None:
        from IPython.display import Pretty, display

        self._lines[told.phase] = words
        page = Pretty("\n".join(f"{phase}: {w}" if w else f"{phase} ..." for phase, w in self._lines.items()))
        if self._shown is None:
            self._shown = display(page, display_id=True)
        else:
            self._shown.update(page)


def _how_far(told: Progress) -> str:
    if told.total is None:
        return ""
    share = f"{100 * told.done // max(told.total, 1)} %"
    return share if told.remaining is None else f"{share}, about {in_words(told.remaining)} left"


@contextlib.contextmanager
def _bars() -> Iterator[Display]:
    """A bar per phase on stderr, cleared in the end: what was made is said after it."""
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, Task, TextColumn
    from rich.progress import Progress as Bars
    from rich.text import Text

    class Left(ProgressColumn):
        """The time left by the pace of the phase, counted down; else how long it has taken so far."""

        def render(self, task: Task) -> Text:
            if task.finished_time is not None or task.fields["ends"] is None:
                return Text(in_words(task.finished_time or task.elapsed or 0.0), style="dim")
            return Text(f"about {in_words(max(task.fields['ends'] - time.monotonic(), 0.0))} left")

    bars = Bars(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        Left(),
        console=Console(stderr=True),
        transient=True,
    )
    tasks: dict[str, Any] = {}

    class ShowProgress:
        """Each phase by its name: one that comes again has its bar again."""

        def begin(self, told: Progress) -> None:
            if told.phase in tasks:
                bars.reset(tasks[told.phase], total=told.total or None, ends=None)
            else:
                tasks[told.phase] = bars.add_task(told.phase, total=told.total or None, ends=None)

        def step(self, told: Progress) -> None:
            ends = None if told.remaining is None else time.monotonic() + told.remaining
            bars.update(tasks[told.phase], completed=told.done, total=told.total, ends=ends)

        def end(self, told: Progress) -> None:
            done, of = (told.done, told.total) if told.total else (1, 1)
            bars.update(tasks[told.phase], completed=done, total=of, ends=None)
            bars.stop_task(tasks[told.phase])

    with bars:
        yield ShowProgress()
