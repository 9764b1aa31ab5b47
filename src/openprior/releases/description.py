"""What people say about a release: a title, what it is about, whom to ask, and what the public table is called.

It comes from whoever releases and says nothing of the private rows. It is kept in the certificate, so that it is sealed
with the rest, and the report opens with it.
"""

from dataclasses import asdict, dataclass

from openprior.errors import OptionError
from openprior.given import text_of
from openprior.privacy.strict import Record

__all__ = ["Description", "described_as"]

_LONGEST = {"title": 200, "about": 10_000, "contact": 500}
"""Letters, at most."""


@dataclass(frozen=True)
class Description:
    """What the report opens with; empty texts are not shown."""

    title: str = ""
    about: str = ""
    contact: str = ""
    public: str = ""
    """The public table's name, where it has one."""

    def to_dict(self) -> dict[str, str]:
        """As JSON."""
        return asdict(self)

    @staticmethod
    def from_record(record: Record) -> "Description":
        """As a certificate has it; strict."""
        names = ("title", "about", "contact", "public")
        description = Description(**{name: record.text(name) for name in names})
        record.end()
        return description


def described_as(title: str | None, about: str | None, contact: str | None) -> Description:
    """The texts that a caller gave, looked at before anything is read or charged."""
    texts = {}
    for name, value in (("title", title), ("about", about), ("contact", contact)):
        text = "" if value is None else text_of(name, value).strip()
        if len(text) > _LONGEST[name]:
            raise OptionError(
                f"the {name} has {len(text):,} letters; use at most {_LONGEST[name]:,}, and put the rest elsewhere"
            )
        odd = [c for c in text if not c.isprintable() and not (c in "\n\t" and name == "about")]
        if odd:
            raise OptionError(f"the {name} holds the control character {odd[0]!r}; remove it")
        texts[name] = text
    return Description(**texts)
