"""Columns that tell who a row is about: found by what they are called and by how many values they have.

A name alone decides nothing (`phone` may be yes or no), and neither does a number of values (an income in cents differs
from row to row). An identifier is a column with a telling name whose values are nearly all different, or very many for
the rows there are; or text whose values nearly all differ, whatever it is called. Measurements are none: they get bins.

A draft leaves identifiers out. As a column of a release one would be a list of persons, published as the schema's
values; and where it says that a person has several rows, a promise without it is about rows, not persons.
"""

import re
from dataclasses import dataclass

__all__ = ["Observed", "Remark", "exclusion", "is_named_like_identifier", "remark_on"]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_TELLING = _set(
    "id ids uid pid uuid guid identifier ident key no nr num number index idx unnamed serial serialno record "
    "ssn nin nino nhs mrn passport licence license plate vin iban account acct card "
    "email mail phone telephone tel mobile fax address addr ip imei url "
    "name names firstname lastname surname forename fullname username login"
)
"""Words that stand for one person or thing."""
_PEOPLE = _set(
    "person patient user customer client member student employee respondent subject participant household"
)
"""Whom a row may belong to: telling where it is the whole name."""
_IDS = _set("id ids uid pid uuid guid identifier ident no nr num number ssn nin nino nhs mrn email")
"""Words that, with such a one or alone, name the person of a row."""

_FEW = 20  # a column with fewer values is no identifier, whatever it is called
_MANY = 100
_VERY_MANY = 1000
_ROWS_EACH = 20  # a telling name and at most so many rows per value: persons with several rows


@dataclass(frozen=True)
class Observed:
    """What is known of a column of the public table."""

    name: str
    rows: int
    """How many rows have a value."""
    distinct: int
    is_text: bool
    is_whole: bool
    """Whether all values are whole numbers."""
    is_running: bool = False
    """Whether there is hardly a gap between them, or they rise from row to row."""

    @property
    def is_nearly_unique(self) -> bool:
        """Whether most values differ."""
        return self.distinct >= _FEW and 2 * self.distinct > self.rows


@dataclass(frozen=True)
class Remark:
    """What a person should know of a column, and whether the draft leaves it out."""

    text: str
    leaves_out: bool
    warns: bool = True
    """Whether something is lost unless somebody looks; else it is a note only."""


def words_of(name: str) -> tuple[str, ...]:
    """The words of a column's name.

    >>> words_of("patientID"), words_of("home_phone-no"), words_of("SERIALNO2")
    (('patient', 'id'), ('home', 'phone', 'no'), ('serialno',))
    """
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", name)
    return tuple(word.lower() for word in re.findall(r"[^\W\d_]+", apart))


def is_named_like_identifier(name: str) -> bool:
    """Whether the name is one of an identifier; that alone makes the column none.

    >>> [is_named_like_identifier(n) for n in ("patient_id", "userName", "number_of_children", "idle", "person")]
    [True, True, False, False, True]
    """
    words = words_of(name)
    if not words:  # the index that a frame was written with
        return True
    if "of" in words[1:] and words[0] != "name":  # "no of rooms" is a count, "date of id" hardly an id
        words = ()
    return bool(_TELLING.intersection(words)) or _is_person(words)


def _is_person(words: tuple[str, ...]) -> bool:
    """Whether the name says of whom a row is: `person`, `patient_id`, `customerNo`."""
    rest = set(words) - _PEOPLE
    return bool(_PEOPLE.intersection(words)) and rest <= _IDS


def remark_on(column: Observed, most: int) -> Remark | None:
    """What to say of a column, if anything; of text, the `most` frequent values are kept."""
    if not (column.is_text or column.is_whole):
        return None
    named = is_named_like_identifier(column.name)
    if named and _is_person(words_of(column.name)) and column.distinct >= _FEW:
        return _left_out(column)
    if named and (column.is_nearly_unique or _has_many_values(column)):
        return _left_out(column)
    if column.is_text and column.is_nearly_unique and column.distinct > _MANY:
        return _left_out(column)
    if column.is_running and column.is_nearly_unique and column.distinct > _MANY:
        return Remark(
            f"'{column.name}' looks like a running number (most differ, and they have no gaps or rise row by row); "
            f"if so, leave it out: {exclusion(column.name)}",
            leaves_out=False,
        )
    if column.is_text and column.distinct > most:
        return Remark(
            f"'{column.name}' has {column.distinct:,} values, of which the {most:,} most frequent are kept and the "
            f"rest become 'other'; group them before, or leave it out: {exclusion(column.name)}",
            leaves_out=False,
        )
    return None


def exclusion(name: str) -> str:
    """How to leave a column out, in a shell and in Python."""
    return f'--exclude "{name}", in Python exclude=["{name}"]'


def _has_many_values(column: Observed) -> bool:
    each = column.rows <= _ROWS_EACH * column.distinct
    return column.distinct > _VERY_MANY or (column.distinct > _MANY and each)


def _left_out(column: Observed) -> Remark:
    name = column.name
    take_in = f'to take it in all the same, draft with --include "{name}", in Python include=["{name}"]'
    as_person = f'person_id = "{name}"'
    draft = f'(or draft with --person-id "{name}")'
    if column.is_nearly_unique or not _IDS.union(_PEOPLE).intersection(words_of(name)):
        why = "most values differ" if column.is_nearly_unique else f"{column.distinct:,} values"
        text = (
            f"'{name}' looks like an identifier ({why}), so it is left out of the schema; if it says whose row it is, "
            f"write {as_person} at the top of the schema {draft}; {take_in}"
        )
    else:
        text = (
            f"'{name}' looks like the id of persons with several rows each ({column.distinct:,} values in "
            f"{column.rows:,} rows), so it is left out of the schema; write {as_person} and max_rows_per_person at its "
            f"top {draft}, else the promise is about one row and not about one person; {take_in}"
        )
    return Remark(text, leaves_out=True)
