"""The settings that `tune` compares: mechanisms with options, written as a product of choices.

>>> [described(m) for m in grid_of({"tilt": {"rounds": [12, None]}, "public": {}})]
['tilt, rounds = 12', 'tilt', 'public']
"""

import dataclasses
import itertools
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from openprior.errors import OptionError
from openprior.given import several, shown
from openprior.methods.base import Mechanism, mechanisms
from openprior.methods.mechanism_text import MechanismLike, settings_from
from openprior.questions.quotes import quoted

__all__ = ["changed_options", "checked_grid", "default_grid", "described", "grid_of", "options_text"]


def grid_of(choices: Mapping[str, Mapping[str, Any]]) -> list[Mechanism]:
    """Every combination of the options of every method named, without repetition.

    The value of an option is a list of choices, or one choice. None stands for the default of an option that has no
    None of its own. An empty mapping is the method as it comes.
    """
    known = mechanisms()
    settings: list[Mechanism] = []
    for name, options in choices.items():
        if name not in known:
            raise OptionError(f"mechanism {shown(name)} is unknown; there are {', '.join(known)}")
        if not isinstance(options, Mapping):
            raise OptionError(
                f"the options of {name} are {shown(options)}; give a mapping such as {{'rounds': [8, 16]}}"
            )
        fields = {f.name: f for f in dataclasses.fields(known[name])}
        for key in options:
            if key not in fields:
                has = ", ".join(fields) or "none"
                raise OptionError(f"option {shown(key)} is unknown for {name}; it has {has}")
        lists = [v if isinstance(v, list) else [v] for v in options.values()]
        for values in itertools.product(*lists):
            chosen = {k: _default_for_none(fields[k], v) for k, v in zip(options, values, strict=True)}
            setting = _make(name, known[name], chosen)
            if setting not in settings:
                settings.append(setting)
    return settings


def default_grid(*, pure: bool = False) -> list[Mechanism]:
    """A few settings of the methods that use a public table; with `pure`, of those that promise δ = 0."""
    if pure:
        return grid_of({"ide": {"noise": "laplace", "choose": ["published", "expected", "workload"]}})
    return grid_of(
        {
            "tilt": {"rounds": [12, 48]},
            "pmw-pub": {"rounds": [None, 50]},
            "ide": {},
            "jam-pgm": {"rounds": [15]},
            "public": {},
        }
    )


def checked_grid(
    grid: Iterable[MechanismLike] | Mapping[str, Mapping[str, Any]] | None, *, pure: bool
) -> list[Mechanism]:
    """The settings as a list: as given, as a product, or the default."""
    if grid is None:
        return default_grid(pure=pure)
    settings = grid_of(grid) if isinstance(grid, Mapping) else _listed(several("grid", grid))
    if not settings:
        raise OptionError("the grid is empty; give at least one setting, such as openprior.Tilt(), or None")
    for i, setting in enumerate(settings):
        if setting in settings[:i]:
            raise OptionError(f"the grid has {described(setting)} twice; give each setting once")
    return settings


def _listed(given: Iterable[object]) -> list[Mechanism]:
    """Settings one by one; a text may mean several, as on the command line."""
    settings: list[Mechanism] = []
    for setting in given:
        if isinstance(setting, str):
            settings += settings_from(setting)
        elif isinstance(setting, Mechanism):
            settings.append(setting)
        else:
            raise OptionError(
                f"{shown(setting)} in the grid is no mechanism; give an instance such as openprior.Tilt(), or its name"
            )
    return settings


def changed_options(mechanism: Mechanism) -> dict[str, Any]:
    """The options that differ from their defaults, as a certificate lists them."""
    return {name: mechanism.options[name] for name in _changed(mechanism)}


def described(mechanism: Mechanism) -> str:
    """A setting in words: its name and what differs from the defaults."""
    return ", ".join([mechanism.name, *(f"{k} = {_text(v)}" for k, v in _changed(mechanism).items())])


def options_text(mechanism: Mechanism) -> str:
    """A setting as the command line takes it.

    >>> tilt, grouped = grid_of({"tilt": {"rounds": 12}, "hierarchy": {"inner": grid_of({"mwem": {"rounds": 9}})}})
    >>> options_text(tilt)
    '-m tilt -O rounds=12'
    >>> options_text(grouped)
    '-m hierarchy -O inner=mwem:rounds=9'
    """
    options = (f"-O {shlex.quote(f'{k}={_text(v)}')}" for k, v in _changed(mechanism).items())
    return " ".join([f"-m {mechanism.name}", *options])


def _changed(mechanism: Mechanism) -> dict[str, Any]:
    values = {f.name: (vars(mechanism)[f.name], f.default) for f in dataclasses.fields(mechanism)}
    return {name: value for name, (value, default) in values.items() if value != default}


def _default_for_none(field: "dataclasses.Field[Any]", value: Any) -> Any:
    return field.default if value is None and "None" not in str(field.type) else value


def _make(name: str, kind: type[Any], options: dict[str, Any]) -> Mechanism:
    try:
        mechanism: Mechanism = kind(**options)
    except OptionError as error:
        raise OptionError(f"{name} cannot be as the grid has it: {error}") from None
    return mechanism


def _text(value: Any) -> str:
    """A value in the words of the command line.

    >>> _text(grid_of({"mwem": {"rounds": 9, "groups": (("a", "b"), ("c",))}})[0])
    'mwem:rounds=9,groups=(a,b;c)'
    """
    if isinstance(value, Mechanism):
        texts = {k: _text(v) for k, v in _changed(value).items()}
        options = ",".join(f"{k}=({text})" if "," in text else f"{k}={text}" for k, text in texts.items())
        return f"{value.name}:{options}" if options else value.name
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, tuple):
        if value and isinstance(value[0], float):
            return ",".join(map(repr, value))
        return ";".join(
            ",".join(map(quoted, part)) if isinstance(part, tuple) else str(part) for part in value
        )
    return str(value)
