"""Everything that leaves a process, collected to look for what must not: words, errors with their causes, files.

Files are read before they are removed, so that what was there for a moment counts as well. Parquet, NumPy archives,
ledgers and journals are looked at as they lie on the disk and decoded.
"""

import base64
import contextlib
import io
import json
import logging
import os
import sqlite3
import sys
import tempfile
import traceback
import warnings
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from openprior.progress import Progress
from tests.parquet_slack import slack

__all__ = ["Watch", "watching"]


@dataclass
class Watch:
    """What was said and written, by the place where it was."""

    folder: Path
    """Where files are written, those of the temporary folder too."""
    inputs: frozenset[Path]
    """Files that were there before, which hold what they hold."""
    told: list[tuple[str, str]] = field(default_factory=list)
    raised: BaseException | None = None

    def tell(self, place: str, text: object) -> None:
        """Note a text."""
        self.told.append((place, str(text)))

    def progress(self, told: Progress) -> None:
        """Progress that is written down, but for times, which can be any number."""
        self.tell("progress", f"{told.done} of {told.total}: {told.phase}")

    def show(self, *things: object) -> None:
        """Note how things present themselves."""
        for thing in things:
            self.tell(f"repr of {type(thing).__name__}", f"{thing!r} {thing}")

    @contextlib.contextmanager
    def catching(self, *kinds: type[BaseException]) -> Iterator[None]:
        """Note the error that comes, with everything that Python keeps of its causes."""
        self.raised = None
        try:
            yield
        except kinds as error:
            self.raised = error
            self.tell("traceback", "".join(traceback.format_exception(error)))
            chain: list[BaseException | None] = [error]
            while chain:
                link = chain.pop()
                if link is not None:
                    # Also those that `from None` keeps from being printed: tools that report errors read them.
                    self.tell("error", f"{link!r} {link} {getattr(link, '__notes__', '')}")
                    chain += [link.__cause__, link.__context__]
        else:
            pytest.fail("nothing was raised")

    def read(self) -> None:
        """Note every file that was written, and its name."""
        for path in self.folder.rglob("*"):
            self._note(path)

    def _note(self, path: Path) -> None:
        if path in self.inputs or not path.is_relative_to(self.folder):
            return
        place = path.relative_to(self.folder).as_posix()
        self.tell("file name", place)
        if path.is_file():
            content = path.read_bytes()
            self.tell(place, content.decode("latin-1"))
            self.tell(place, content.decode("utf-8", "replace"))
            for text in _decoded(path, content):
                self.tell(f"{place}, decoded", text)

    def leaks(self, words: Iterable[str]) -> set[tuple[str, str]]:
        """The places where a word stands, and the word."""
        words = tuple(words)
        return {(place, word) for place, text in self.told for word in words if word in text}


def _decoded(path: Path, content: bytes) -> Iterator[str]:
    if content.startswith(b"PAR1"):
        assert not any(slack(path).values()), f"{path.name} has bytes that belong to no value"
        table = pq.read_table(path)
        yield f"{table.to_pydict()} {table.schema.metadata}"
    elif content.startswith(b"PK"):
        with np.load(io.BytesIO(content)) as archive:
            for name in archive:
                yield f"{name} {_numbers(archive[name])}"
    elif content.startswith(b"SQLite"):
        with contextlib.closing(sqlite3.connect(path)) as connection:
            yield "\n".join(connection.iterdump())
    elif path.name.endswith(".journal"):
        for line in content.splitlines():
            yield from _arrays(json.loads(line))


def _arrays(value: Any) -> Iterator[str]:
    """The arrays in a journal's record."""
    if isinstance(value, dict) and "$array" in value:
        kind, _, packed = value["$array"]
        yield _numbers(np.frombuffer(zlib.decompress(base64.b64decode(packed)), kind))
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _arrays(inner)


def _numbers(array: Any) -> str:
    return " ".join(map(str, np.asarray(array).ravel().tolist()))


class _Records(logging.Handler):
    def __init__(self, watch: Watch) -> None:
        super().__init__(level=0)
        self._watch = watch

    def emit(self, record: logging.LogRecord) -> None:
        self._watch.tell("log", f"{record.getMessage()} {record.exc_text} {record.args}")


_active: list[Watch] = []
_hooked: list[bool] = []


def _before_removal(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook: Python tells of a removal before it is done."""
    if event == "os.remove" and _active and isinstance(arguments[0], str | os.PathLike):
        with contextlib.suppress(OSError):
            _active[-1]._note(Path(arguments[0]).absolute())


@contextlib.contextmanager
def watching(folder: Path, capture: pytest.CaptureFixture[str]) -> Iterator[Watch]:
    """Collect what leaves while work is done in `folder`; `capture` is pytest's `capfd`."""
    if not _hooked:
        sys.addaudithook(_before_removal)  # stays for good, and does nothing unless somebody watches
        _hooked.append(True)
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    watch = Watch(folder, frozenset(folder.rglob("*")))
    handler, root = _Records(watch), logging.getLogger()
    level, kept, variable = root.level, tempfile.tempdir, os.environ.get("TMPDIR")
    tempfile.tempdir = os.environ["TMPDIR"] = str(temporary)
    root.addHandler(handler)
    root.setLevel(1)
    capture.readouterr()
    _active.append(watch)
    try:
        with contextlib.chdir(folder), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield watch
            watch.read()
    finally:
        _active.pop()
        root.removeHandler(handler)
        root.setLevel(level)
        tempfile.tempdir = kept
        if variable is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = variable
    for warning in warned:
        watch.tell("warning", warning.message)
    out, err = capture.readouterr()
    watch.tell("stdout", out)
    watch.tell("stderr", err)
