"""Names in a text: signs part them, and double quotes keep a name together that has such a sign in it, as in CSV.

A quote counts where a name begins, and inside quotes two of them mean one. Everywhere else it is a letter like any
other, so a column called `5" pipe` needs no care.

>>> names('age,sex'), names('"age, years", sex'), names('5" pipe,sex')
(['age', 'sex'], ['age, years', 'sex'], ['5" pipe', 'sex'])
"""

from itertools import pairwise

from openprior.errors import OptionError
from openprior.given import shown

__all__ = ["in_quotes", "names", "quoted", "split", "unquoted"]

_SIGNS = ",;:|=()"
"""What means something between names, in a workload or among a mechanism's options."""


def split(text: str, sign: str, *, parentheses: bool = False, after: str = "") -> list[str]:
    """The parts between signs, but for signs in quotes, and in parentheses where these mean something; quotes stay. A
    name may also begin after one of the signs in `after`.

    >>> split('a=1,b=(x,y),c="1,2"', ",", parentheses=True)
    ['a=1', 'b=(x,y)', 'c="1,2"']
    """
    ends, depth, inside, begins = [-1], 0, False, True
    for place, letter in enumerate(text):
        if letter == '"' and (inside or begins):
            inside = not inside
            begins = not inside  # a second quote right after it means one, and the name goes on
        elif not inside:
            begins = letter in _SIGNS + after or (begins and letter.isspace())
            depth += ((letter == "(") - (letter == ")")) * parentheses
            if letter == sign and depth == 0:
                ends.append(place)
    if inside:
        raise OptionError(f"{shown(text)} opens a double quote and does not close it; close it, or write two")
    return [text[end + 1 : after] for end, after in pairwise([*ends, len(text)])]


def unquoted(text: str) -> str:
    """A name without blanks and quotes around it."""
    bare = text.strip()
    if not bare.startswith('"'):
        return bare
    inner = bare[1:-1].replace('""', "")
    if len(bare) < 2 or not bare.endswith('"') or '"' in inner:
        raise OptionError(
            f"{shown(bare)} goes on after its closing quote; put the whole name in double quotes, and write two of "
            "them for one inside"
        )
    return bare[1:-1].replace('""', '"')


def names(text: str, sign: str = ",") -> list[str]:
    """The names between signs, without their quotes."""
    return [unquoted(part) for part in split(text, sign)]


def quoted(name: str) -> str:
    """A name so that it can be read back: in quotes where it needs them.

    >>> quoted("age"), quoted("age, years")
    ('age', '"age, years"')
    """
    plain = name == name.strip() and name and not name.startswith('"') and not set(name) & set(_SIGNS)
    return name if plain else in_quotes(name)


def in_quotes(name: str) -> str:
    """A name in double quotes, where those that it has itself are doubled."""
    return '"' + name.replace('"', '""') + '"'
