"""Mechanisms written as text, on the command line as in Python: 'aim', 'tilt:rounds=12,alpha=0.7'.

A choice of several values makes several settings: 'tilt:rounds=12|48'. What stands in parentheses stays together
('hierarchy:inner=mst|(jam-pgm:rounds=10,alpha=0.7)'), and a name of a column that has a sign in it stands in double
quotes ('hierarchy:levels=("STATE, old";PUMA,YEAR)').
"""

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from openprior.errors import OptionError
from openprior.given import shown
from openprior.methods.base import Mechanism, mechanisms
from openprior.questions.query_file import read_queries
from openprior.questions.quotes import names, split

__all__ = ["MechanismLike", "make_mechanism", "mechanism_from", "need_mechanism", "settings_from"]

MechanismLike = Mechanism | str
"""What callers may give as a mechanism."""
_DEEPEST = 8
"""Mechanisms in each other; more is a slip, and Python would end before it is told."""


def need_mechanism(value: object) -> Mechanism:
    """The mechanism that a caller gave: an instance as it is, a text by the rule above."""
    if isinstance(value, str):
        return mechanism_from(value)
    if isinstance(value, type) and issubclass(value, Mechanism):
        raise OptionError(
            f"mechanism is the class {value.__name__}; give an instance, such as {value.__name__}()"
        )
    if not isinstance(value, Mechanism):
        raise OptionError(
            f"mechanism {shown(value)} is not one; give an instance such as openprior.Tilt(), or a name such as 'tilt'"
        )
    return value


def mechanism_from(text: str) -> Mechanism:
    """The one mechanism that a text means.

    >>> mechanism_from("mst").name, mechanism_from("jam-pgm:rounds=12").rounds
    ('mst', 12)
    """
    settings = settings_from(text)
    if len(settings) > 1:
        raise OptionError(f"mechanism {shown(text)} names {len(settings)} settings; give one")
    return settings[0]


def settings_from(text: str) -> list[Mechanism]:
    """Every combination of the choices in a text; one where there are none."""
    name, _, rest = text.partition(":")
    pairs = [part.partition("=") for part in split(rest, ",", parentheses=True) if part.strip()]
    choices = [
        [f"{key.strip()}{sign}{_bare(value)}" for value in split(values, "|", parentheses=True)]
        for key, sign, values in pairs
    ]
    return [make_mechanism(name.strip(), options) for options in itertools.product(*choices)]


def make_mechanism(name: str, options: Iterable[str] = ()) -> Mechanism:
    """A mechanism by name, with options written as name=value."""
    known = mechanisms()
    name = _known_name(name, known)
    fields = {f.name: f for f in dataclasses.fields(known[name])}
    values: dict[str, Any] = {}
    for text in options:
        key, sign, value = text.partition("=")
        if key not in fields:
            raise OptionError(
                f"option {shown(key)} is unknown for {name}; it has {', '.join(fields) or 'none'}"
            )
        if key in values:
            raise OptionError(f"option '{key}' is given twice; give it once")
        if not sign:
            raise OptionError(f"option '{key}' has no value; write {key}=VALUE")
        values[key] = _value(str(fields[key].type), key, value)
    return known[name](**values)


def _known_name(name: str, known: Mapping[str, type[Mechanism]]) -> str:
    """As it is listed, from any spelling that means one: 'PMW_Pub', or the class's own name.

    >>> [_known_name(name, mechanisms()) for name in ("pmw-pub", "PMW_Pub", "PmwPub")]
    ['pmw-pub', 'pmw-pub', 'pmw-pub']
    """
    plain = name.lower().replace("_", "-")
    for listed, cls in known.items():
        if plain == listed or name == cls.__name__:
            return listed
    raise OptionError(f"mechanism {shown(name)} is unknown; there are {', '.join(known)}")


def _bare(text: str) -> str:
    """Without the parentheses around it."""
    text = text.strip()
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text


def _value(kind: str, key: str, text: str) -> Any:
    if "None" in kind and text.lower() == "none":
        return None
    if "Mechanism" in kind:
        if text.count(f"{key}=") > _DEEPEST:
            raise OptionError(f"option {key} = {shown(text)} has too many mechanisms in each other; name one")
        settings = settings_from(text)
        if len(settings) > 1:
            raise OptionError(f"option {key} = {shown(text)} names {len(settings)} settings; give one")
        return settings[0]
    if kind.startswith("tuple[str"):
        if text.startswith("@"):
            return read_queries(Path(text[1:]))
        return tuple(part.strip() for part in split(text, ";") if part.strip())
    if kind.startswith(("tuple[float", "tuple[int")):
        number = int if "int" in kind else float
        try:
            return tuple(number(part) for part in text.split(","))
        except ValueError:
            raise OptionError(f"option {key} = {shown(text)} is not understood; write numbers: 1,4") from None
    if "tuple" in kind:
        return tuple(tuple(names(group)) for group in split(text, ";"))
    try:
        if "bool" in kind:
            return {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}[
                text.lower()
            ]
        if "int" in kind:
            return int(text)
        return float(text) if "float" in kind else text
    except (ValueError, KeyError):
        wanted = "true or false" if "bool" in kind else "a whole number" if "int" in kind else "a number"
        raise OptionError(f"option {key} = {shown(text)} is not understood; it must be {wanted}") from None
