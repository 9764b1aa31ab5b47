"""Everything that openprior raises on purpose.

    OpenPriorError
    ├── DataError
    │   ├── SchemaError         a schema that cannot be, or that a table does not fit
    │   ├── SourceError         a table that cannot be read
    │   ├── EncodeError         values that the schema refuses
    │   └── PriorError          a kept prior that cannot be read, or belongs to other columns or rows
    ├── WorkloadError           a marginal or workload that cannot be
    │   └── MarginalTooLarge    more cells than the stated limit
    ├── OptionError             an option outside its range (ε, δ, rounds, …)
    ├── PrivacyError
    │   ├── BudgetExceeded      a charge that the budget does not cover; nothing was read
    │   ├── LedgerError         a ledger that cannot be opened, read or locked
    │   └── JournalError        a journal that does not belong to the run
    └── ReleaseError            a release that cannot be written or opened
        └── OtherFormat         a release that another version of openprior made

A message names the thing, the value and the remedy in one line. It never carries a value or a count of
the private table: those are added only where the caller asked for them (`show_private`).
"""

import re

__all__ = [
    "BudgetExceeded",
    "DataError",
    "EncodeError",
    "JournalError",
    "LedgerError",
    "MarginalTooLarge",
    "OpenPriorError",
    "OpenPriorWarning",
    "OptionError",
    "OtherFormat",
    "PriorError",
    "PrivacyError",
    "ReleaseError",
    "SchemaError",
    "SourceError",
    "WorkloadError",
    "without_passwords",
]


_LONGEST = 400
# user:password@ of an address, also one that was cut off, up to the last @ that follows; a port is no password.
_PASSWORD = re.compile(
    r"""((?:\bpostgres(?:ql)?:|:/)/{0,2}[^\s:@/]*):(?!\d{1,5}(?:[/\s'";,)#?]|$))(?:.*@)?\S*""", re.DOTALL
)
_OPTION = re.compile(r"""((?:password|passwd|pwd|token)=)[^\s&#;'"]*""", re.IGNORECASE)


def without_passwords(text: str) -> str:
    """A text without the passwords of the addresses in it.

    >>> without_passwords("no file postgresql://ada:secret@host/db#people; check it")
    'no file postgresql://ada:… check it'
    >>> without_passwords("spark://host:7077 and http://host/?password=secret&x=1")
    'spark://host:7077 and http://host/?password=…&x=1'
    """
    return _OPTION.sub(r"\1…", _PASSWORD.sub(r"\1:…", text))


class OpenPriorError(Exception):
    """Base of every error that openprior raises on purpose; one line, whatever names and values it quotes."""

    def __init__(self, message: str = "") -> None:
        line = " ".join(without_passwords(str(message)).split())
        if len(line) > _LONGEST:
            line = (
                f"{line[: _LONGEST * 5 // 8]} … {line[-_LONGEST * 5 // 16 :]}"  # the remedy stands at the end
            )
        super().__init__(line)


class OpenPriorWarning(UserWarning):
    """Something legal that is probably not meant (δ above 1/n, say)."""


class DataError(OpenPriorError):
    """A table, a schema or their meeting went wrong."""


class SchemaError(DataError):
    """The schema cannot be, or the table does not fit it."""


class SourceError(DataError):
    """The table cannot be read."""


class EncodeError(DataError):
    """The table has values that the schema refuses."""


class PriorError(DataError):
    """The kept prior cannot be read or written, or does not belong to the tables."""


class WorkloadError(OpenPriorError):
    """The marginal or workload cannot be."""


class MarginalTooLarge(WorkloadError):
    """A marginal has more cells than the stated limit."""


class OptionError(OpenPriorError, ValueError):
    """An option is outside its range."""


class PrivacyError(OpenPriorError):
    """The privacy layer refused."""


class BudgetExceeded(PrivacyError):
    """The budget does not cover the charge; nothing was read."""


class LedgerError(PrivacyError):
    """The ledger cannot be opened, read or locked."""


class JournalError(PrivacyError):
    """The journal does not belong to this run."""


class ReleaseError(OpenPriorError):
    """The release cannot be written or opened."""


class OtherFormat(ReleaseError):
    """Another version of openprior made the release; it is not damaged."""
