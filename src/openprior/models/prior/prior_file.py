"""A prior as a file: arrays and facts in one uncompressed .npz archive, which NumPy opens, too. No pickle.

The same prior gives the same bytes, so that the SHA-256 of the file is the name of what is in it. Reading believes
nothing: the archive may have just the entries that belong there, stored and not packed (so that a small file cannot
become a large one), each as long as its header says; then `prior_checks` looks at every number.
"""

import io
import json
import struct
import tokenize
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from openprior.json_text import parse_json
from openprior.models.prior.prior import Mix, Prior
from openprior.models.prior.prior_checks import checked_arrays
from openprior.schema.domain import Domain
from openprior.tables.table import Table

__all__ = ["FORMAT", "Damaged", "OtherPrior", "Stored", "packed", "unpacked"]

FORMAT = 2
"""Of the file; one more whenever what is written there changes."""
_FACTS = "facts.json"
_NAMES = {"format", "domain", "rows", "shares", "faithful", "more"}
_ENDING = ".npy"
_PREFIX = "prior."
_NEAR = 1e-9
_FACTS_LONGEST = 64 << 20
_NO_ARCHIVE = (
    zipfile.BadZipFile,
    NotImplementedError,
    RuntimeError,
    AttributeError,
    LookupError,
    struct.error,
    SyntaxError,  # NumPy reads the header of an array as Python's own words
    tokenize.TokenError,
    UserWarning,
)


class Damaged(ValueError):
    """The bytes are no prior; the words say why."""


class OtherPrior(Damaged):
    """Another version of openprior wrote it: not damaged, only not for us."""


@dataclass(frozen=True, eq=False)
class Stored:
    """What stands in a file."""

    prior: Prior
    domain: Domain
    facts: Mapping[str, Any]
    """What else its writer said of it; to be looked at by whoever reads it."""
    arrays: Mapping[str, NDArray[Any]]
    """Further arrays of its writer, likewise."""

    @property
    def rows(self) -> Table:
        """The public rows that it was learnt from: they are its anchors."""
        return Table(self.domain, tuple(self.prior.arrays.anchors.T))


def packed(stored: Stored) -> bytes:
    """The file."""
    facts = {
        "format": FORMAT,
        "domain": stored.domain.sizes(),
        "rows": stored.prior.rows,
        "shares": list(stored.prior.shares),
        "faithful": _mix(stored.prior.faithful),
        "more": dict(stored.facts),
    }
    own = {f"{_PREFIX}{name}": np.asarray(array) for name, array in stored.prior.arrays._asdict().items()}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        # A ZipInfo of its own has no time: the same prior is the same file.
        archive.writestr(zipfile.ZipInfo(_FACTS), json.dumps(facts, ensure_ascii=False, allow_nan=False))
        for name, array in {**own, **stored.arrays}.items():
            entry = io.BytesIO()
            npy.write_array(entry, np.asarray(array, order="C"), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}{_ENDING}"), entry.getbuffer())
    return out.getvalue()


def unpacked(data: bytes) -> Stored:
    """What stands in the file; raises `Damaged`, and nothing else, if it is no prior."""
    try:
        facts, arrays = _opened(data)
        return _read(facts, arrays)
    except Damaged:
        raise
    except (ValueError, KeyError, TypeError, OverflowError, MemoryError, EOFError, OSError) as error:
        raise Damaged(str(error).splitlines()[0][:100] if str(error) else type(error).__name__) from None
    except _NO_ARCHIVE as error:
        raise Damaged(f"it is no archive of arrays ({type(error).__name__})") from None


def _opened(data: bytes) -> tuple[Any, dict[str, NDArray[Any]]]:
    """The facts and the arrays, of which nothing is believed yet."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
        names = [entry.filename for entry in entries]
        if len(set(names)) < len(names) or _FACTS not in names:
            raise Damaged("it has no facts, or an entry twice")
        if any(entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 for entry in entries):
            raise Damaged("it has an entry that is packed")
        if sum(entry.file_size for entry in entries) > len(data):
            raise Damaged("its entries are longer than the file")
        if archive.getinfo(_FACTS).file_size > _FACTS_LONGEST:
            raise Damaged("its facts are too long")
        facts = parse_json(archive.read(_FACTS))
        if isinstance(facts, dict) and type(facts.get("format")) is int and facts["format"] != FORMAT:
            raise OtherPrior(f"it has format {facts['format']}, and this version reads format {FORMAT}")
        others = [name for name in names if name != _FACTS]
        if not all(name.endswith(_ENDING) for name in others):
            raise Damaged("it has an entry that is no array")
        return facts, {name.removesuffix(_ENDING): _array(archive.read(name)) for name in others}


def _array(data: bytes) -> NDArray[Any]:
    """One entry, if it is just as long as its header says."""
    entry = io.BytesIO(data)
    if npy.read_magic(entry) != (1, 0):
        raise Damaged("it has an array of another version")
    with warnings.catch_warnings(action="error"):  # NumPy warns of headers that another Python wrote
        shape, fortran, kind = npy.read_array_header_1_0(entry)
    if fortran or kind.hasobject or kind.kind not in "fiu" or not kind.isnative:
        raise Damaged("it has an array of another kind")
    begin, cells = entry.tell(), 1
    for length in shape:
        cells *= int(length)
    if min(shape, default=0) < 0 or cells * kind.itemsize != len(data) - begin:
        raise Damaged("it has an array of another length than it says")
    # A copy that may be written to: compiled loops would be compiled anew for arrays that may not.
    return np.frombuffer(data, kind, offset=begin).reshape(shape).copy()


def _read(facts: Any, arrays: dict[str, NDArray[Any]]) -> Stored:
    if not isinstance(facts, dict) or set(facts) != _NAMES:
        raise Damaged("it has other facts than a prior")
    sizes, rows, shares, more = (facts[name] for name in ("domain", "rows", "shares", "more"))
    if type(facts["format"]) is not int or type(more) is not dict or type(sizes) is not dict:
        raise Damaged("its facts are of another kind")
    if not sizes or any(type(size) is not int or size < 1 for size in sizes.values()):
        raise Damaged("its columns are none")
    own = {name.removeprefix(_PREFIX): a for name, a in arrays.items() if name.startswith(_PREFIX)}
    prior = checked_arrays(own, tuple(sizes.values()))
    if type(rows) is not int or rows != len(prior.anchors):
        raise Damaged("it has another number of rows than it says")
    if not _are_shares(shares) or np.abs(Mix(tuple(shares), 0.0).ends - prior.kinds).max() > _NEAR:
        raise Damaged("its shares are not those of its arrays")
    further = {name: array for name, array in arrays.items() if not name.startswith(_PREFIX)}
    made = Prior(prior, rows, (shares[0], shares[1], shares[2]), _read_mix(facts["faithful"]))
    return Stored(made, Domain(sizes), more, further)


def _are_shares(shares: Any) -> bool:
    """Whether these are shares of the three kinds."""
    if type(shares) is not list or len(shares) != 3:
        return False
    return all(type(share) is float and 0 <= share <= 1 for share in shares) and sum(shares) > 0


def _mix(mix: Mix | None) -> dict[str, Any] | None:
    return None if mix is None else {"shares": list(mix.shares), "redraw": mix.redraw}


def _read_mix(said: Any) -> Mix | None:
    """The faithful mix, if there is one."""
    if said is None:
        return None
    if type(said) is not dict or set(said) != {"shares", "redraw"} or not _are_shares(said["shares"]):
        raise Damaged("its faithful shares are none")
    if type(said["redraw"]) is not float or not 0 <= said["redraw"] <= 1:
        raise Damaged("its anchors change with a probability that is none")
    one, two, three = said["shares"]
    return Mix((one, two, three), said["redraw"])
