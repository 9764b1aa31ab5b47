"""How queries are written: words between signs, and what stands in double quotes is one word, whatever is in it.

>>> split_words('age="[18, 30)"|3, sex="F"', ",")
['age="[18, 30)"|3', 'sex="F"']
>>> unquoted('"a = b"'), unquoted(" age "), quoted("age"), quoted("a = b")
('a = b', 'age', 'age', '"a = b"')
"""

import itertools
import json
import re
from collections.abc import Iterator

from openprior.errors import WorkloadError
from openprior.given import shown

__all__ = ["first_word", "is_quoted", "query_parts", "quoted", "split_words", "unclear", "unquoted"]

_QUOTED = r'"(?:[^"\\]|\\.)*"'


def split_words(text: str, sign: str) -> list[str]:
    """The words between signs, stripped; signs in double quotes are no signs."""
    places = [-1, *_places(text, sign), len(text)]
    return [text[begin + 1 : end].strip() for begin, end in itertools.pairwise(places)]


def first_word(text: str, sign: str) -> tuple[str, str | None]:
    """What stands before the first sign, and what after it; None if there is no sign."""
    place = next(_places(text, sign), None)
    return (text.strip(), None) if place is None else (text[:place].strip(), text[place + 1 :].strip())


def _places(text: str, sign: str) -> Iterator[int]:
    """Where a sign stands outside quotes."""
    in_quotes = escaped = False
    for place, letter in enumerate(text):
        if letter == '"' and not escaped:
            in_quotes = not in_quotes
        elif letter == sign and not in_quotes:
            yield place
        escaped = in_quotes and letter == "\\" and not escaped


def is_quoted(word: str) -> bool:
    """Whether a word stands in double quotes."""
    return re.fullmatch(_QUOTED, word.strip(), re.DOTALL) is not None


def unquoted(word: str) -> str:
    """The word without its quotes, if it has any; within them, as in JSON."""
    word = word.strip()
    if not is_quoted(word):
        return word
    try:
        return str(json.loads(word, strict=False))
    except ValueError:
        raise WorkloadError(f'{word} is not understood; write quotes inside a label as \\"') from None


def quoted(word: str) -> str:
    """The word as it can stand in a query: in quotes, unless it is plain."""
    return word if re.fullmatch(r"\w[\w .]*\w|\w", word) else json.dumps(word, ensure_ascii=False)


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
