"""What a draft says of a column: what was done, and the line to change where that is not what was meant.

A remark begins with the column's name in quotes. Of what is lost or read wrongly there is a warning; the others are
notes in the schema file and on the screen only.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from openprior.given import shown
from openprior.schema.columns import MISSING_TOKENS
from openprior.schema.identifiers import Remark, exclusion
from openprior.schema.toml import value as written

__all__ = ["Notes", "joined", "left_out"]

_KEPT = "kept as text"


@dataclass(frozen=True)
class Notes:
    """The remarks that there can be on one column."""

    name: str

    def constant(self, value: str, *, missing: bool, outcome: str | None) -> Remark:
        """All rows say the same; `outcome` is what becomes of anything else, if that is lost."""
        rows = "every public row that has a value" if missing else "every public row"
        said = f"is {value} in {rows}"
        return self._note(said) if outcome is None else self._loss(f"{said}; {outcome}")

    def nearly_constant(self, value: str, share: float) -> Remark:
        """Hardly a row says anything else."""
        percent = f"{min(100 * share, 99.99):.2f} %"
        return self._note(
            f"is {value} in {percent} of the public rows, so expect little to be right about the others; if "
            f"nobody needs it, leave it out: {exclusion(self.name)}"
        )

    def nothing(self, outcome: str) -> Remark:
        """No row says anything."""
        return self._loss(f"has no value in any public row; {outcome}")

    def codes(self, *, whole: bool, other: bool) -> Remark:
        """Numbers that are listed."""
        rest = "becomes 'other'" if other else "is refused"
        noun, kind = ("whole numbers", "integer") if whole else ("numbers", "real")
        bounds = "low and high" if whole else "bins"
        return Remark(
            f"'{self.name}': few {noun}, taken as codes, so any other {rest}; for quantities write kind = \"{kind}\", "
            f'{bounds} and out_of_domain = "open" instead',
            leaves_out=False,
            warns=False,
        )

    def leading_zeros(self, word: str) -> Remark:
        """Digits that are no numbers."""
        return self._note(f"has leading zeros (such as {word}), so it is kept as text")

    def spellings(self, words: Iterable[str]) -> Remark:
        """Yes and no in several cases."""
        return self._note(f"spells its values in several ways ({_list(words)}), which are taken as two")

    def gaps(self, words: Sequence[str], rows: int) -> Remark:
        """Texts that count as missing among numbers or dates."""
        return self._note(f"has {_list(words)} in {_rows(rows)}, taken as missing, as missing_values says")

    def missing_words(self, words: Sequence[str], rows: int) -> Remark:
        """Texts that count as missing among words, and may be words."""
        left = [token for token in MISSING_TOKENS if token not in words]
        return self._note(
            f"has {_list(words)} in {_rows(rows)}, taken as missing; if that is a value, write missing_values = "
            f"{_inline(left)}"
        )

    def sentinels(
        self, values: Sequence[object], rows: int, rest: tuple[object, object], *, own: str
    ) -> Remark:
        """Numbers far from the rest that may mean that there is none."""
        tokens = [
            *MISSING_TOKENS,
            *(f"{value:g}" if isinstance(value, float) else str(value) for value in values),
        ]
        which = " and ".join(shown(value) for value in values)
        return self._loss(
            f"has {which} in {_rows(rows)}, far from the rest ({rest[0]} to {rest[1]}), as if "
            f"it stood for a missing value; it is kept as a number{own}; if it means missing, write "
            f"missing_values = {_inline(tokens)} and take it out of values or bins"
        )

    def infinite_codes(self, rows: int) -> Remark:
        """Infinite numbers where numbers are listed."""
        return self._loss(
            f"has infinite numbers in {_rows(rows)}, taken as missing, as missing_values says, because they cannot be "
            'listed; if they are very large numbers, write kind = "real", bins and out_of_domain = "open" instead of '
            "values, and no missing_values"
        )

    def infinite_ends(self, tokens: Sequence[str], rows: int) -> Remark:
        """Infinite numbers where the ends are open."""
        return self._note(
            f"has infinite numbers in {_rows(rows)}, counted at the ends; if they mean missing, write missing_values = "
            f"{_inline(tokens)}"
        )

    def other_numbers(self, what: str, example: str, options: str) -> Remark:
        """Text that would be numbers if it were read otherwise."""
        return self._loss(f"has {what} (such as {example}), {_KEPT}; to have numbers, draft with {options}")

    def with_signs(self, example: str) -> Remark:
        """Amounts with a sign of a currency, or per cent."""
        return self._loss(
            f"has numbers with a sign or a unit (such as {example}), {_KEPT}; to have numbers, remove the sign from "
            "both tables before"
        )

    def other_dates(self, example: str, options: str) -> Remark:
        """Text that would be dates if it were read otherwise."""
        return self._loss(f"has dates such as {example}, {_KEPT}; to have dates, draft with {options}")

    def mixed_dates(self, examples: Sequence[str]) -> Remark:
        """Dates that nobody can read in one way."""
        return self._loss(
            f"has dates in several formats (such as {' and '.join(examples)}), {_KEPT}; write them all as "
            "2021-12-31 before"
        )

    def last_date(self, first: object, last: object) -> Remark:
        """Dates go on after the public table was made."""
        return self._note(
            f"has public dates up to {last}; later ones get the last bin, from {first} on, and are drawn from there; "
            "if the private table goes on longer, add edges to bins"
        )

    def dates_as_numbers(self, example: object) -> Remark:
        """20211231."""
        return self._loss(
            f"has numbers that look like dates (such as {example}), kept as numbers; if they are dates, draft with "
            '--date-format %Y%m%d (in Python date_format="%Y%m%d")'
        )

    def three_digits(self, example: str) -> Remark:
        """1.234 may be more than a thousand."""
        return self._note(
            f"has three digits after every point (such as {example}), read as a decimal point; if it separates "
            'thousands, draft with --thousands . --decimal , (in Python thousands=".", decimal=",")'
        )

    def _loss(self, text: str) -> Remark:
        return Remark(f"'{self.name}' {text}", leaves_out=False)

    def _note(self, text: str) -> Remark:
        return Remark(f"'{self.name}' {text}", leaves_out=False, warns=False)


def joined(name: str, remarks: Sequence[Remark]) -> str:
    """All that is said of a column, as one text."""
    first, *more = (remark.text for remark in remarks)
    texts = [first]
    for text in more:
        bare = text.removeprefix(f"'{name}'")
        texts.append(f"it {bare.strip()}" if bare.startswith(" ") else bare.removeprefix(":").strip())
    return "; ".join(texts)


def left_out(remark: Remark, name: str) -> Remark:
    """The remark on texts that are read otherwise than meant, where they differ too much to be a category."""
    said = remark.text.replace(_KEPT, "left out of the schema, because as texts most of them differ")
    return Remark(f'{said}; to take in the texts, draft with --include "{name}"', leaves_out=True)


def _rows(count: int) -> str:
    return "1 public row" if count == 1 else f"{count:,} public rows"


def _list(words: Iterable[str]) -> str:
    return ", ".join(f"'{word}'" for word in words)


def _inline(words: Iterable[str]) -> str:
    """A list as TOML has it, in one line."""
    return f"[{', '.join(written(word) for word in words)}]"
