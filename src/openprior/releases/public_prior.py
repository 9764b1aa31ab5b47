"""A prior that is kept: what was learnt from a public table, ready to start any number of releases.

It holds all that a release takes from the public table: the prior itself, the public rows as codes, the schema that
coded them, and a sample of the values inside their bins. So a release needs the public table no more. `save` writes it
as one file without pickle; `open_prior` reads that with suspicion.

Privacy: everything in it comes from the public table and the workload's marginals, and its rows stand in it as they
are. Of a private table none may be made: `release` compares the rows with the private ones before it charges.
"""

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from openprior.counting.cells import Cells
from openprior.display import Sheet, Shown
from openprior.errors import OpenPriorError, OptionError, PriorError
from openprior.given import path_of, shown
from openprior.methods.base import Mechanism, mechanisms
from openprior.models.prior.prior import Prior
from openprior.models.prior.prior_cache import kept_or_learnt
from openprior.models.prior.prior_file import Damaged, OtherPrior, Stored, packed, unpacked
from openprior.privacy.strict import Record
from openprior.progress import phase
from openprior.progress_shown import ShowProgress, watched
from openprior.questions.workload import Marginal, WorkloadLike, all_marginals, canonical, workload_on
from openprior.schema.base import Schema, need_schema, reading_of
from openprior.schema.reading_rules import Reading
from openprior.tables.decode import Decoder
from openprior.tables.encode import encode_table
from openprior.tables.inside import Reservoir
from openprior.tables.source import open_source
from openprior.tables.table import Table, content_of
from openprior.whole import filling, outside_releases

__all__ = ["PriorLike", "PublicPrior", "fit_prior", "need_prior", "open_prior"]

_INSIDE = "inside"
_ARCHIVE = b"PK\x03\x04"
"""What a file begins with."""
_ANEW = "learn it anew with 'openprior prior'"


@dataclass(frozen=True, eq=False, repr=False)
class PublicPrior(Shown):
    """What was learnt from a public table; give it to `release(prior=...)`."""

    schema: Schema
    """What the public table's columns are; the private table's must be the same."""
    marginals: tuple[Marginal, ...]
    """The marginals that it was learnt to answer well. A release may ask for others."""
    public_name: str
    """The public table's name, where it had one."""
    made_with: str
    """The version of openprior that learnt it."""
    stored: Stored
    """The prior as the file has it."""

    @property
    def prior(self) -> Prior:
        """What the mechanism starts from."""
        return self.stored.prior

    @cached_property
    def table(self) -> Table:
        """The public rows as codes."""
        return self.stored.rows

    @property
    def rows(self) -> int:
        """How many public rows there are."""
        return self.stored.prior.rows

    @cached_property
    def rows_sha256(self) -> str:
        """SHA-256 of the public rows as the schema codes them, in hex: which table it was learnt from."""
        return content_of(self.table)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of its file, in hex; certificates of releases that used it have it."""
        return hashlib.sha256(packed(self.stored)).hexdigest()

    @property
    def recorded(self) -> dict[str, str]:
        """What a certificate says of it."""
        return {"sha256": self.sha256, "rows_sha256": self.rows_sha256, "openprior": self.made_with}

    def with_schema(self, schema: Schema | str | Path | None) -> Schema:
        """Its own schema; another one is refused, as codes would mean something else."""
        if schema is not None and need_schema(schema).hash != self.schema.hash:
            raise PriorError(
                "the prior was learnt with another schema; give that one or none, or learn the prior anew with this one"
            )
        return self.schema

    def with_rows(self, public: Table | None) -> Table:
        """Its own public rows; another public table is refused."""
        if public is not None and content_of(public) != self.rows_sha256:
            raise PriorError(
                "the prior was learnt from other rows than those of the public table; give one of the two, or learn "
                "the prior anew"
            )
        return self.table

    def decoder(self) -> Decoder:
        """How codes become values: inside bins, from the sample of the public ones."""
        return Decoder.of(self.schema, _reservoirs(self.schema, self.stored))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the file; it appears whole or not at all. It is a copy of the public rows, and may be passed on as
        they may."""
        file = path_of("the prior's file", path, error=PriorError)
        outside_releases(file)
        try:
            with filling(file) as draft:
                draft.write_bytes(packed(self.stored))
        except OSError as error:
            what = os.strerror(error.errno) if error.errno else type(error).__name__
            raise PriorError(
                f"cannot write the prior to {path}: {what}; free space or choose another place"
            ) from None

    def sheet(self) -> Sheet:
        """What it was learnt from."""
        classes, anchors, networks = self.prior.shares
        rows = (
            ("public table", self.public_name or "without a name"),
            ("rows", f"{self.rows:,}"),
            ("columns", f"{len(self.schema.columns):,}"),
            ("marginals", f"{len(self.marginals):,}"),
            ("shares", f"classes {classes:.2f}, anchors {anchors:.2f}, networks {networks:.2f}"),
            ("learnt by", f"openprior {self.made_with}"),
            ("SHA-256", self.sha256),
        )
        return Sheet("Prior", ("", ""), rows, ("It holds a copy of the public rows.",))


PriorLike = PublicPrior | str | Path
"""What callers may give as a prior."""


@watched
def fit_prior(
    public: Any,
    *,
    schema: Schema | str | Path | None = None,
    workload: WorkloadLike | None = None,
    reading: Reading | None = None,
    progress: ShowProgress = None,
) -> PublicPrior:
    """Learn from a public table what `tilt` starts from, once for any number of releases. Touches no private data.

    public     the public table, in any way that `release` takes one
    schema     what the columns are, or the path of its file; drafted from the public table if not given
    workload   what the releases will ask for, as for `release`; all 3-way marginals if not given
    reading    how text is written in the file, where no schema is given; a schema has it in it
    progress   as for `release`
    """
    schema = None if schema is None else need_schema(schema)
    reading = reading_of(schema, reading)
    source = open_source(public, schema, reading=reading)
    if schema is None:
        with phase("drafting the schema"):
            schema = Schema.draft(source, reading=reading)
    work = workload_on(workload, schema.domain, default=all_marginals(3))
    Cells(schema.domain, work.marginals)
    with phase("reading the public table"):
        table = encode_table(source, schema)
    if table.n < 2:
        raise OptionError("the public table has only one row; a prior needs at least two")
    prior = kept_or_learnt(table, work.marginals)
    rng = np.random.default_rng(int(content_of(table), 16))
    facts = {
        "schema": schema.to_toml(),
        "marginals": [list(m) for m in work.marginals],
        "public": "" if source.name == "table" else source.name,
        "openprior": version("openprior"),
    }
    arrays = {
        f"{_INSIDE}.{schema.names.index(name)}.{part}": numbers
        for name, reservoir in Decoder.sampled(schema, source, rng).items()
        for part, numbers in reservoir.arrays().items()
    }
    return _public_prior(Stored(prior, table.domain, facts, arrays))


def open_prior(path: str | os.PathLike[str]) -> PublicPrior:
    """Open a prior that `save` wrote, or 'openprior prior'."""
    file = path_of("the prior's file", path, error=PriorError)
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):
            raise PriorError(f"{path} is no file; give the file that 'openprior prior' wrote")
        with file.open("rb") as opened:
            if opened.read(len(_ARCHIVE)) != _ARCHIVE:  # before all of a large file that is none is read
                raise Damaged("it is no archive of arrays")
            opened.seek(0)
            return _public_prior(unpacked(opened.read()))
    except FileNotFoundError:
        raise PriorError(f"there is no prior {path}; check the name, or {_ANEW}") from None
    except OSError as error:
        what = os.strerror(error.errno) if error.errno else type(error).__name__
        raise PriorError(f"cannot read the prior {path}: {what}; check the file") from None
    except OtherPrior as error:
        raise PriorError(f"{path} was made by another version of openprior: {error}; {_ANEW}") from None
    except (Damaged, MemoryError) as error:
        raise PriorError(
            f"{path} is no prior, or a damaged one: {error}; copy it again, or {_ANEW}"
        ) from None


def need_prior(value: object, mechanism: Mechanism) -> PublicPrior:
    """The prior that a caller gave for a mechanism: one as it is, or the path of its file."""
    if not mechanism.takes_prior:
        others = " or ".join(name for name, other in mechanisms().items() if other.takes_prior)
        raise OptionError(
            f"mechanism '{mechanism.name}' takes no prior; use {others}, or give the public table instead"
        )
    if isinstance(value, str | os.PathLike):
        return open_prior(value)
    if not isinstance(value, PublicPrior):
        raise OptionError(
            f"prior is {shown(value)}; give what openprior.fit_prior(...) returns, or the path of its file"
        )
    return value


def _public_prior(stored: Stored) -> PublicPrior:
    """With its facts looked at; raises `Damaged` where they are none."""
    try:
        record = Record(stored.facts, "its facts")
        toml, name, made_with = (record.text(field) for field in ("schema", "public", "openprior"))
        listed = record.items("marginals")
        record.end()
        schema = Schema.from_toml(toml)
        marginals = tuple(canonical(m, schema.domain) for m in listed)
    except OpenPriorError as error:
        raise Damaged(str(error)) from None
    if schema.domain != stored.domain:
        raise Damaged("its schema has other columns than its rows")
    if not marginals or [list(m) for m in marginals] != listed:
        raise Damaged("its marginals are none")
    _reservoirs(schema, stored)
    return PublicPrior(schema, marginals, name, made_with, stored)


def _reservoirs(schema: Schema, stored: Stored) -> Mapping[str, Reservoir]:
    """The samples of values inside bins, looked at; those of every column that has bins, and no other arrays."""
    left = dict(stored.arrays)
    held = {}
    for column in Decoder.binned(schema):
        place = schema.names.index(column.name)
        try:
            arrays = {part: left.pop(f"{_INSIDE}.{place}.{part}") for part in Reservoir.PARTS}
            held[column.name] = Reservoir.of(column, schema.reading, arrays)
        except (KeyError, ValueError) as error:
            raise Damaged(f"its values inside bins are none ({error})") from None
    if left:
        raise Damaged("it has arrays that nobody knows")
    return held
