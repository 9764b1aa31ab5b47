"""What every ending must be: one clear line or a right result, nothing half-written, nothing private."""

import contextlib
import hashlib
import io
import json
import logging
import os
import re
import signal
import sqlite3
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openprior.errors import OpenPriorError, OpenPriorWarning
from tests.console import Said
from tests.fuzz.calls import Call
from tests.fuzz.stock import SECRETS

__all__ = ["judge"]

SECONDS = 10
LONGEST = 400
_REMEDY = re.compile(
    r"; |\b(use|give|check|choose|copy|name|add|write|set|delete|declare|remove|must be|must lie|ask for|see|start)\b"
)


def judge(call: Call) -> str | None:
    """Make the call; what is wrong with its ending, or None."""
    before, open_before = _files(), _open_runs()
    said, records = io.StringIO(), _Records()
    result, error = None, None
    with (
        contextlib.redirect_stdout(said),
        contextlib.redirect_stderr(said),
        warnings.catch_warnings(record=True) as warned,
        records.listening(),
        _limited() as late,
    ):
        warnings.simplefilter("always")
        try:
            result = call.run()
        except Exception as caught:  # noqa: BLE001 - anything may come, and is what is judged
            error = caught
    told = [said.getvalue(), *records.texts, *(str(w.message) for w in warned)]
    problems = [
        f"a warning of another library: {w.category.__name__}: {w.message}"
        for w in warned
        if not issubclass(w.category, OpenPriorWarning | ResourceWarning)
    ]
    if late:
        problems.append(f"took more than {SECONDS} s")
    if isinstance(result, Said):
        told += [result.out, result.err]
    if error is not None:
        # With its causes, as Python would print it: a cause that quotes a row is told, too.
        told.append("".join(traceback.format_exception(error)))
        problems += _of_error(error)
        if said.getvalue():
            problems.append(f"printed {said.getvalue()!r}")
        succeeded, resumable = False, "--resume" in "".join(getattr(error, "__notes__", ()))
    elif isinstance(result, Said) and result.code != 0:
        problems += _of_said(result)
        succeeded, resumable = False, "--resume" in result.err
    else:
        succeeded, resumable = True, False
        try:
            call.right(result)
        except Exception as wrong:  # noqa: BLE001 - a result that cannot be used is not right, whatever it raises
            problems.append(f"not right: {''.join(traceback.format_exception(wrong)[-3:])}")
    problems += _of_files(call, before, _files(), succeeded=succeeded, resumable=resumable)
    open_after = _open_runs()
    if not (succeeded or resumable or open_before is None or open_after is None) and open_after - open_before:
        problems.append("a run that was refused keeps its reservation")
    if not call.public:
        problems += [
            f"tells {secret!r}: {text[-600:]!r}" for text in told for secret in SECRETS if secret in text
        ]
    return "\n".join(problems) or None


class _Records(logging.Handler):
    """All that is logged."""

    def __init__(self) -> None:
        super().__init__(level=0)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        logging.getLogger().addHandler(self)
        try:
            yield
        finally:
            logging.getLogger().removeHandler(self)


@contextlib.contextmanager
def _limited() -> Iterator[list[int]]:
    """A call that takes too long is broken off; says so in the list, because the exception may be taken for another."""
    late: list[int] = []

    def stop(number: int, frame: Any) -> None:
        late.append(number)
        raise TimeoutError

    kept = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield late
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, kept)


def _of_error(error: Exception) -> Iterator[str]:
    if not isinstance(error, OpenPriorError):
        yield "".join(traceback.format_exception(error))
        return
    yield from _of_line(str(error))


def _of_line(text: str) -> Iterator[str]:
    if "\n" in text:
        yield f"more than one line: {text!r}"
    if len(text) > LONGEST:
        yield f"{len(text)} characters: {text!r}"
    if not _REMEDY.search(text):
        yield f"no remedy: {text!r}"


def _of_said(said: Said) -> Iterator[str]:
    if "a bug in openprior" in said.err:
        yield f"a bug: {said.err[-1500:]}"
        return
    if said.code == 2:
        if "Usage:" not in said.err + said.out:
            yield f"wrong usage without usage: {said.err!r}"
        return
    lines = [line for line in said.err.splitlines() if not line.startswith("warning: ")]
    if said.code != 1 or not lines or not lines[0].startswith("error: "):
        yield f"not one line of error: {said}"
        return
    if any(not line.startswith("  ") for line in lines[1:]) or not _is_verdict(said.out, lines[0]):
        yield f"more than an error: {said}"
    yield from _of_line(lines[0].removeprefix("error: "))


def _is_verdict(out: str, line: str) -> bool:
    """Whether a command that failed printed nothing, or with --json the very same error as JSON."""
    with contextlib.suppress(ValueError):
        return bool(json.loads(out) == {"right": False, "reason": line.removeprefix("error: ")})
    return not out


def _files() -> dict[str, str]:
    """Every file of the working folder and of the folder of temporary files, by name, with its digest."""
    found = {}
    for root in (Path.cwd(), Path(tempfile.gettempdir())):
        for path in root.rglob("*"):
            name = path.relative_to(root).as_posix() if root == Path.cwd() else f"tmp/{path.name}"
            is_file = path.is_file() and not path.is_symlink()
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest() if is_file else "folder"
    return found


def _of_files(
    call: Call, before: dict[str, str], after: dict[str, str], *, succeeded: bool, resumable: bool
) -> Iterator[str]:
    for name in before.keys() - after.keys():
        if name.partition("/")[0] not in call.keeps:
            yield f"removed {name}"
    for name, digest in after.items():
        first = name.partition("/")[0]
        if before.get(name) == digest:
            continue
        kept = first in call.keeps or (first.removesuffix("-journal") in call.keeps and not _size(name))
        if kept or (succeeded and first in call.writes) or (resumable and first.endswith(".journal")):
            continue
        yield f"{'changed' if name in before else 'left'} {name}"
    if succeeded:
        for name in call.writes - after.keys():
            yield f"did not write {name}"
    for path in (Path(name) for name in after.keys() - before.keys() if not name.startswith("tmp/")):
        if call.public or not path.is_file():
            continue
        if any(secret.encode() in path.read_bytes() for secret in SECRETS):
            yield f"a secret in {path}"


def _open_runs() -> set[str] | None:
    """The runs that hold a reservation in the working folder's ledger; None if it cannot be read."""
    if not os.path.isfile("budget.sqlite"):
        return set()
    try:
        with contextlib.closing(
            sqlite3.connect("file:budget.sqlite?mode=ro", uri=True, timeout=0)
        ) as connection:
            return {str(run) for (run,) in connection.execute("SELECT id FROM run WHERE closed IS NULL")}
    except (sqlite3.Error, UnicodeDecodeError):
        return None


def _size(name: str) -> int:
    return os.stat(name).st_size if os.path.exists(name) else 0
