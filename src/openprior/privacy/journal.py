"""The run journal: every outcome of a run, on disk before anything is built on it.

A resumed run repeats its public computation from the start and asks the journal before it asks the data: what
was drawn once is read back, never drawn again. This file is about bytes on a disk; `sealed.py` says what is written
in a run's journal, and why no copy of it lets anybody draw twice.

One JSON line per record: ``{"crc32":"…","record":{…}}``, the header first. Each checksum continues the one of
the line before, so that an altered, removed or swapped line is seen. A line that was cut off (a crash while
it was being written, so nobody has built on it) is dropped; any other damage is an error, because dropping a
whole record would mean drawing it again.
"""

import fcntl
import json
import os
import stat
import weakref
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from openprior.errors import JournalError
from openprior.privacy.journal_values import decode_value, encode_value

__all__ = ["Journal", "NoJournal", "Outcome"]

Outcome = Mapping[str, object]
"""JSON scalars, lists, dicts, int64 and float64 arrays, by name; they come back exactly (tuples as lists)."""

_FORMAT = "openprior journal"
_VERSION = 2


class Journal:
    """An append-only file of a run's outcomes, held open by one process at a time; see the module's text."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """Use `create` or `open`."""
        self.header: dict[str, object] = {}
        self._path = path
        self._fd = descriptor
        self._finalizer = weakref.finalize(self, os.close, descriptor)  # a lost journal must not stay locked
        self._pid = os.getpid()
        self.notes: dict[str, list[str]] = {}
        """What was noted beside the outcomes, by name and in order."""
        self._index: dict[int, tuple[str, int, int]] = {}  # seq -> request, offset and length of its line
        self._before_last = 0  # the checksum before the last line
        self._end = 0
        self._crc = 0
        self._usable = True

    @classmethod
    def create(cls, path: str | Path, header: Mapping[str, object]) -> "Journal":
        """A new journal with this header (run id, public seed, mechanism, options, schema hash, …)."""
        file = Path(path).absolute()
        record = {"format": _FORMAT, "version": _VERSION, "header": encode_value(file, header)}
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        except FileExistsError as error:
            raise JournalError(
                f"journal '{file}' exists already; resume its run, or delete it to give that run up"
            ) from error
        except OSError as error:
            raise _failure(file, "cannot be created", error) from error
        journal = cls(file, descriptor)
        try:
            journal._take_lock()
            journal._append(record)
            _sync_folder(file)
        except OSError as error:
            journal.close()
            raise _failure(file, "cannot be created", error) from error
        except JournalError:
            journal.close()
            raise
        journal.header = journal._decoded(record["header"])
        return journal

    @classmethod
    def open(cls, path: str | Path) -> "Journal":
        """The journal of a broken run; a record that was cut off by the break is dropped from the file."""
        file = Path(path).absolute()
        try:
            descriptor = os.open(file, os.O_RDWR | os.O_APPEND)
        except OSError as error:
            raise _failure(file, "cannot be opened", error) from error
        journal = cls(file, descriptor)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise JournalError(
                    f"journal '{file}' is no file; check the path, or remove it and start a new run"
                )
            journal._take_lock()
            journal._read()
        except OSError as error:
            journal.close()
            raise _failure(file, "cannot be read", error) from error
        except JournalError:
            journal.close()
            raise
        return journal

    def __repr__(self) -> str:
        return f"Journal({str(self._path)!r})"

    def __len__(self) -> int:
        """How many outcomes are recorded."""
        return len(self._index)

    def find(self, seq: int, request: str) -> Outcome | None:
        """The recorded outcome of event `seq`, or None; it must have been recorded for the same request."""
        self._check_usable()  # first, so that a journal that cannot record fails before anything is charged
        if seq not in self._index:
            return None
        recorded, offset, length = self._index[seq]
        if recorded != request:
            raise JournalError(
                f"journal '{self._path}': the run cannot be resumed: event {seq} was {_short(recorded)} and "
                f"is now {_short(request)}; use the options and version the run began with, or start anew"
            )
        try:
            line = _read_at(self._fd, offset, length)
        except OSError as error:
            raise _failure(self._path, "cannot be read", error) from error
        return self._decoded(json.loads(line)["record"]["outcome"])

    def record(self, seq: int, request: str, outcome: Outcome) -> None:
        """Append an outcome; it is on the disk when this returns."""
        self._check_usable()
        if seq in self._index:
            raise JournalError(
                f"journal '{self._path}' has an outcome for event {seq} already; find it instead"
            )
        body = {"seq": seq, "request": request, "outcome": encode_value(self._path, outcome)}
        offset = self._end
        try:
            self._append(body)
        except OSError as error:
            raise _failure(self._path, "cannot be written", error) from error
        self._index[seq] = (request, offset, self._end - offset)

    def note(self, name: str, text: str) -> None:
        """Append a note; it is on the disk when this returns."""
        self._check_usable()
        try:
            self._append({"note": name, "text": text})
        except OSError as error:
            raise _failure(self._path, "cannot be written", error) from error
        self.notes.setdefault(name, []).append(text)

    @property
    def recorded(self) -> list[int]:
        """The numbers of the recorded events."""
        return list(self._index)

    def request_of(self, seq: int) -> str:
        """What event `seq` was recorded for."""
        return self._index[seq][0]

    def drop(self, seq: int) -> None:
        """Cut off the outcome of event `seq`, which must be in the last line."""
        self._check_usable()
        _, offset, length = self._index[seq]
        if offset + length != self._end:
            raise JournalError(f"journal '{self._path}' is damaged: event {seq} is not its last; start anew")
        try:
            os.ftruncate(self._fd, offset)
            os.fsync(self._fd)
        except OSError as error:
            self._usable = False
            raise _failure(self._path, "cannot be written", error) from error
        del self._index[seq]
        self._end, self._crc = offset, self._before_last

    def close(self) -> None:
        """Let go of the file; another process may resume the run."""
        if self._finalizer.detach():
            # A forked child may still hold a copy of the descriptor, and with it the lock: the parent unlocks
            # for both, a child only drops its copy.
            if os.getpid() == self._pid:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
            os.close(self._fd)

    def remove(self) -> None:
        """Delete the file (the run is over and its release is written) and let go of it."""
        try:
            self._path.unlink(missing_ok=True)
            _sync_folder(self._path)
        except OSError as error:
            raise _failure(self._path, "cannot be removed", error) from error
        finally:
            self.close()

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise JournalError(
                f"journal '{self._path}' is in use by another run; wait until it ends, or stop it"
            ) from error
        if os.fstat(self._fd).st_nlink == 0:
            raise JournalError(f"journal '{self._path}' was just removed: its run is over; start a new run")

    def _check_usable(self) -> None:
        if not self._finalizer.alive:
            raise JournalError(f"journal '{self._path}' is closed; open it again")
        if not self._usable:
            raise JournalError(
                f"journal '{self._path}' could not be written before; repair that and resume the run"
            )
        # A forked child shares the lock with its parent; two writers would mix their lines.
        if os.getpid() != self._pid:
            raise JournalError(
                f"journal '{self._path}' belongs to the parent process; a forked child cannot use it"
            )

    def _append(self, record: Mapping[str, object]) -> None:
        body = json.dumps(record, allow_nan=False, separators=(",", ":")).encode()
        crc = zlib.crc32(body, self._crc)
        line = b'{"crc32":"%08x","record":%b}\n' % (crc, body)
        # After a failed write or sync the state of the file is unknown: only a fresh `open` may judge it.
        self._usable = False
        rest = memoryview(line)
        while rest:
            rest = rest[os.write(self._fd, rest) :]
        os.fsync(self._fd)
        self._usable = True
        self._before_last, self._crc = self._crc, crc
        self._end += len(line)

    def _read(self) -> None:
        number = 0
        with os.fdopen(os.dup(self._fd), "rb") as file:  # the copy shares the lock; closing it keeps the lock
            for line in file:
                # A cut line has no end; after a power cut, blocks that never reached the disk are zeros,
                # which no record contains. Either can only be the last line: all before it were synced.
                if not line.endswith(b"\n") or (b"\0" in line and not file.peek(1)):
                    break
                self._accept(number, line)
                number += 1
        if number == 0:
            raise JournalError(
                f"journal '{self._path}' has no complete header: its run broke at the start; delete it"
            )
        if os.fstat(self._fd).st_size > self._end:
            os.ftruncate(self._fd, self._end)
        os.fsync(self._fd)  # also for a whole last line whose writer was killed before its own sync

    def _accept(self, number: int, line: bytes) -> None:
        """Check one whole line and remember where it is."""
        # {"crc32":"01234567","record":…}\n
        body = line[29:-2]
        crc = zlib.crc32(body, self._crc)
        if line[:29] != b'{"crc32":"%08x","record":' % crc or line[-2:] != b"}\n":
            raise self._damaged(number)
        try:
            record = json.loads(body)
        except (ValueError, RecursionError):
            raise self._damaged(number) from None
        if not isinstance(record, dict):
            raise self._damaged(number)
        if number == 0:
            if record.get("format") != _FORMAT or record.get("version") != _VERSION:
                raise JournalError(
                    f"journal '{self._path}' has version {record.get('version')!r} and this openprior knows "
                    f"{_VERSION}; close its run with 'openprior ledger close', delete it and start anew"
                )
            self.header = dict(self._decoded(record.get("header")))
        elif "note" in record:
            name, text = record["note"], record.get("text")
            if type(name) is not str or type(text) is not str:
                raise self._damaged(number)
            self.notes.setdefault(name, []).append(text)
        else:
            seq, request = record.get("seq"), record.get("request")
            if (
                type(seq) is not int
                or seq in self._index
                or type(request) is not str
                or "outcome" not in record
            ):
                raise self._damaged(number)
            self._index[seq] = (request, self._end, len(line))
        self._before_last, self._crc = self._crc, crc
        self._end += len(line)

    def _decoded(self, value: object) -> dict[str, object]:
        """A header or an outcome: named values."""
        try:
            found = decode_value(value)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError, zlib.error):
            found = None
        if not isinstance(found, dict):
            raise JournalError(
                f"journal '{self._path}' has values that cannot be read; restore the file, or delete it and "
                "start a new run"
            )
        return found

    def _damaged(self, number: int) -> JournalError:
        return JournalError(
            f"journal '{self._path}' is damaged in line {number + 1}; restore the file, or delete it and "
            "start a new run"
        )


class NoJournal:
    """The journal of a run that cannot be resumed: same verbs, remembers nothing."""

    def __init__(self, header: Mapping[str, object] | None = None) -> None:
        self.header: dict[str, object] = dict(header or {})

    def __len__(self) -> int:
        """Nothing is ever recorded."""
        return 0

    def find(self, seq: int, request: str) -> Outcome | None:
        """Nothing."""
        return None

    def record(self, seq: int, request: str, outcome: Outcome) -> None:
        """Forget it."""

    def confirm(self, facts: Callable[[], Iterable[bytes | memoryview]]) -> None:
        """Nothing to compare with."""

    def close(self) -> None:
        """Nothing to let go of."""

    def remove(self) -> None:
        """Nothing to delete."""


def _read_at(descriptor: int, offset: int, length: int) -> bytes:
    """Exactly `length` bytes; one pread returns 2 GiB at most."""
    parts = []
    while length > 0 and (part := os.pread(descriptor, length, offset)):
        parts.append(part)
        offset += len(part)
        length -= len(part)
    return b"".join(parts)


def _sync_folder(file: Path) -> None:
    """Without this a power cut may forget that the file was made (or removed)."""
    descriptor = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failure(path: Path, what: str, error: OSError) -> JournalError:
    return JournalError(
        f"journal '{path}' {what} ({error.strerror}); check the path, its permissions and the disk"
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 120 else text[:117] + "…")
