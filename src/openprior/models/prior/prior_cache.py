"""Priors that were learnt before, kept on this machine: a repeated release does not learn from the same rows again.

A file is named by a digest of what its prior depends on: the public rows, the columns, the marginals, and the code that
learnt it. It is written whole or not at all, for its owner only, and read with suspicion: one that is damaged, or has
other rows than its name says, is dropped and the prior is learnt anew. The least recently used go first when all
together pass the limit. Where nothing can be kept, priors are learnt, and a warning says so.

Privacy: a file is a copy of the *public* rows, and neither it nor its name depends on anything private (see
prior_learning.py). Only what a caller gave as its public table is kept (`Mechanism.prepared`, which a release calls
after it has compared the rows with the private ones); the rows that a hierarchy draws inside its groups are not, as
those come from measurements. Whatever a file holds, the promise stands: it is that of the curator's noise, and holds
for every prior that was not made from the private rows.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import re
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import numpy as np

from openprior.errors import OpenPriorWarning
from openprior.models.prior.cache_folder import VARIABLE, cache_folder
from openprior.models.prior.prior import Prior
from openprior.models.prior.prior_file import FORMAT, Damaged, Stored, packed, unpacked
from openprior.models.prior.prior_learning import learn, learnt_from
from openprior.progress import phase
from openprior.questions.workload import Marginal
from openprior.tables.table import Table

__all__ = ["LIMIT", "clear_cache", "kept_files", "kept_or_learnt", "key_of"]

LIMIT = 10**9
"""Bytes of all files together."""
_NAME = re.compile(r"[0-9a-f]{64}\.prior")
_DRAFT = ".prior-draft"
_LOCK = ".lock"
_LEFT = re.compile(rf".*{re.escape(_DRAFT)}|[0-9a-f]{{64}}{re.escape(_LOCK)}")
"""What a killed process may leave: drafts, which hold rows, and locks."""
_STALE = 3600.0
"""Seconds after which a draft or a lock is what a killed process has left."""
_PATIENCE, _LOOK = 120.0, 0.05
"""Seconds to wait for another process that learns the same, and between two looks."""


def kept_or_learnt(public: Table, marginals: Sequence[Marginal]) -> Prior:
    """The prior of a public table: from the cache if it is there, else learnt and kept."""
    folder = cache_folder()
    if folder is None:
        return learn(public, marginals)
    path = folder / f"{key_of(public, marginals)}.prior"
    prior = _kept(path, public)
    if prior is not None:
        return prior
    if not _made(folder):
        return learn(public, marginals)
    with _alone(path):
        prior = _kept(path, public)  # another process may have learnt it meanwhile
        if prior is None:
            prior = learn(public, marginals)
            _keep(path, Stored(prior, public.domain, {}, {}))
    return prior


def key_of(public: Table, marginals: Sequence[Marginal]) -> str:
    """What a kept prior is named by: all that it depends on, the code included."""
    parts = [FORMAT, learnt_from(public, marginals), *(version(p) for p in ("openprior", "numpy", "numba"))]
    return hashlib.sha256(json.dumps([*parts, _code()]).encode()).hexdigest()


def clear_cache(folder: Path) -> int:
    """Remove every prior in the folder, and drafts of them; how many priors there were."""
    kept = kept_files(folder)
    for file in (*kept, *_left_files(folder)):
        file.unlink(missing_ok=True)
    return len(kept)


def kept_files(folder: Path) -> list[Path]:
    """The priors in the folder; nothing else in it is ours to count or to remove."""
    return _files(folder, _NAME)


def _left_files(folder: Path) -> list[Path]:
    return _files(folder, _LEFT)


def _files(folder: Path, names: re.Pattern[str]) -> list[Path]:
    try:
        return [entry for entry in folder.iterdir() if names.fullmatch(entry.name) and entry.is_file()]
    except OSError:
        return []


@cache
def _code() -> str:
    """A digest of the code that learns: a version number stays the same while the code is worked on."""
    digest = hashlib.sha256()
    for file in sorted(files(__package__).iterdir(), key=lambda file: file.name):
        if file.name.endswith(".py"):
            digest.update(file.read_bytes())
    return digest.hexdigest()


# Reading.


def _kept(path: Path, public: Table) -> Prior | None:
    """The prior in the file, if it is there and as it must be."""
    try:
        if not path.is_file():
            return None
        if path.stat().st_size > LIMIT:
            raise Damaged("it is too long")
        with phase("prior: from the cache"):
            stored = unpacked(path.read_bytes())
        own = stored.prior.arrays.anchors.T
        if stored.domain != public.domain or not all(map(np.array_equal, own, public.columns)):
            raise Damaged("it has other rows than its name says")
    except Damaged as error:
        warnings.warn(
            f"a prior in the cache was damaged ({error}); it is dropped and learnt anew",
            OpenPriorWarning,
            stacklevel=2,
        )
        with contextlib.suppress(OSError):
            path.unlink()
        return None
    except OSError as error:
        _cannot_keep(path.parent, error)
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return stored.prior


# Writing.


def _made(folder: Path) -> bool:
    """Whether the folder is there, if it need be by making it, for its owner only."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        _cannot_keep(folder, error)
        return False
    return True


def _keep(path: Path, stored: Stored) -> None:
    """Write the file, so that it is there whole or not at all, and make room for it."""
    data = packed(stored)
    if len(data) > LIMIT:
        return
    try:
        descriptor, draft = tempfile.mkstemp(suffix=_DRAFT, dir=path.parent)  # for its owner only
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
            os.replace(draft, path)
        finally:
            with contextlib.suppress(OSError):
                os.unlink(draft)
        _make_room(path)
    except OSError as error:
        _cannot_keep(path.parent, error)


def _make_room(newest: Path) -> None:
    """Remove the least recently used until all are within the limit, and what killed processes have left."""
    facts = []
    for file in kept_files(newest.parent):
        with contextlib.suppress(OSError):  # another process may just have removed it
            facts.append((file.stat().st_mtime, file.stat().st_size, file))
    total = sum(size for _, size, _ in facts)
    for _, size, file in sorted(facts, key=lambda fact: fact[0]):
        if total > LIMIT and file.name != newest.name:
            file.unlink(missing_ok=True)
            total -= size
    for file in _left_files(newest.parent):
        with contextlib.suppress(OSError):
            if time.time() - file.stat().st_mtime > _STALE:
                file.unlink()


def _cannot_keep(folder: Path, error: OSError) -> None:
    what = os.strerror(error.errno) if error.errno else type(error).__name__
    warnings.warn(
        f"the prior cannot be kept in {folder} ({what}), so every release learns it anew; set {VARIABLE} to a folder "
        "that can be written, or to off",
        OpenPriorWarning,
        stacklevel=3,
    )


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """While no other process learns the same prior. It saves work and nothing depends on it: who cannot lock, or has
    waited long enough, goes on."""
    try:
        descriptor = os.open(path.with_suffix(_LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError:
        yield  # the folder cannot be written, which is said when the prior is
        return
    try:
        if not _locked(descriptor):
            with phase("waiting for another run that learns the same prior"):
                end = time.monotonic() + _PATIENCE
                while time.monotonic() < end and not _locked(descriptor):
                    time.sleep(_LOOK)
        yield
    finally:
        with contextlib.suppress(OSError):
            path.with_suffix(_LOCK).unlink()
        os.close(descriptor)  # and with it the lock is gone


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks
    return True
