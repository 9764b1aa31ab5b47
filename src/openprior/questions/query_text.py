"""How queries are written: words between signs, and what stands in double quotes is one word, as `quotes.py` has it.

>>> split_words('age="[18, 30)"|3, sex="F"', ",")
['age="[18, 30)"|3', 'sex="F"']
>>> unquoted('"a = b"'), unquoted(" age "), quoted("age"), quoted("a = b")
('a = b', 'age', 'age', '"a = b"')
"""

import re

from openprior.errors import OptionError, WorkloadError
from openprior.given import shown
from openprior.questions.quotes import in_quotes, split

__all__ = ["first_word", "is_quoted", "query_parts", "quoted", "split_words", "unclear", "unquoted"]

_QUOTED = r'"(?:[^"]|"")*"'


def split_words(text: str, sign: str) -> list[str]:
    """The words between signs, stripped; signs in double quotes are no signs."""
    try:
        return [word.strip() for word in split(text, sign, after="-")]
    except OptionError as error:
        raise WorkloadError(str(error)) from None


def first_word(text: str, sign: str) -> tuple[str, str | None]:
    """What stands before the first sign, and what after it; None if there is no sign."""
    first, *rest = split_words(text, sign)
    return first, sign.join(rest) if rest else None


def is_quoted(word: str) -> bool:
    """Whether a word stands in double quotes."""
    return re.fullmatch(_QUOTED, word.strip(), re.DOTALL) is not None


def unquoted(word: str) -> str:
    """The word without its quotes, if it has any; within them, two mean one."""
    word = word.strip()
    return word[1:-1].replace('""', '"') if is_quoted(word) else word


def quoted(word: str) -> str:
    """The word as it can stand in a query: in quotes, unless it is plain."""
    return word if re.fullmatch(r"\w[\w .]*\w|\w", word) else in_quotes(word)


def query_parts(text: str) -> tuple[str, list[str]]:
    """The kind of queries and the words in its parentheses."""
    match = re.fullmatch(r"\s*(\w+)\s*\((.*)\)\s*", text, re.DOTALL)
    words = split_words(match[2], ",") if match else []
    if not match or not all(words):
        raise unclear(text)
    return match[1], words


def unclear(text: str) -> WorkloadError:
    """The error that nobody understands a query."""
    return WorkloadError(
        f'queries {shown(text)} are not understood; write prefixes(a), ranges(a, 0-4, 5-9), where(a=0-4, b="yes"|"no") '
        "or marginal(a, b), with codes or quoted labels for values"
    )
