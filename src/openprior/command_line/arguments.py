"""What words on the command line mean: workloads, mechanisms and their options, tables."""

import dataclasses
import itertools
from typing import Any

from openprior.errors import OptionError
from openprior.progress import phase

__all__ = ["grid", "mechanism", "table", "workload"]


def workload(text: str) -> Any:
    """A workload plan: '3', 'random:3:512:7', 'target:COL:3' or 'age,sex;age,income'."""
    from openprior.questions.workload import Workload, all_marginals, random_marginals, target_marginals

    kind, *rest = text.split(":")
    try:
        if kind.isdigit() and not rest:
            return all_marginals(int(kind))
        if kind == "random":
            k, count, seed = rest
            return random_marginals(int(k), int(count), int(seed))
        if kind == "target":
            *name, k = rest
            return target_marginals(":".join(name), int(k))
    except ValueError:
        raise OptionError(f"workload '{text}' is not understood; see 'openprior release --help'") from None
    return Workload([[a.strip() for a in m.split(",")] for m in text.split(";") if m.strip()])


def table(path: str, engine: str, master: str | None) -> Any:
    """What to read at a path: the path itself, or its source on Spark."""
    if engine not in ("local", "spark"):
        raise OptionError(f"engine '{engine}' is unknown; use local or spark")
    if engine == "spark":
        from openprior.spark.reading import read_path

        with phase("starting Spark"):
            return read_path(path, master)
    if master is not None:
        raise OptionError("a Spark master without Spark; add --engine spark")
    return path


def mechanism(name: str, options: list[str]) -> Any:
    """A mechanism by name, with options given as name=value."""
    from openprior.methods.base import mechanisms

    known = mechanisms()
    if name not in known:
        raise OptionError(f"mechanism '{name}' is unknown; there are {', '.join(known)}")
    fields = {f.name: f for f in dataclasses.fields(known[name])}
    values: dict[str, Any] = {}
    for text in options:
        key, sign, value = text.partition("=")
        if key not in fields:
            raise OptionError(f"option '{key}' is unknown for {name}; it has {', '.join(fields) or 'none'}")
        if key in values:
            raise OptionError(f"option '{key}' is given twice; give it once")
        if not sign:
            raise OptionError(f"option '{key}' has no value; write -O {key}=VALUE")
        values[key] = _value(str(fields[key].type), key, value)
    return known[name](**values)


def grid(texts: list[str]) -> list[Any]:
    """Mechanisms to compare: 'tilt', or every combination of 'tilt:rounds=12|48,alpha=0.7|0.8'.

    What stands in parentheses stays together: 'hierarchy:inner=mst|(jam-pgm:rounds=10,alpha=0.7)'.
    """
    settings = []
    for text in texts:
        name, _, rest = text.partition(":")
        pairs = [part.partition("=") for part in _split(rest, ",") if part]
        choices = [
            [f"{key.strip()}{sign}{_bare(value)}" for value in _split(values, "|")]
            for key, sign, values in pairs
        ]
        settings += [mechanism(name.strip(), list(options)) for options in itertools.product(*choices)]
    return settings


def _split(text: str, sign: str) -> list[str]:
    """The parts between signs, but for signs in parentheses.

    >>> _split("a=1,b=(x,y)", ",")
    ['a=1', 'b=(x,y)']
    """
    parts, depth = [""], 0
    for letter in text:
        depth += (letter == "(") - (letter == ")")
        if letter == sign and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _bare(text: str) -> str:
    """Without the parentheses around it."""
    text = text.strip()
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text


def _value(kind: str, key: str, text: str) -> Any:
    if "None" in kind and text.lower() == "none":
        return None
    if "Mechanism" in kind:
        settings = grid([text])
        if len(settings) > 1:
            raise OptionError(f"option {key} = '{text}' names {len(settings)} settings; give one")
        return settings[0]
    if kind.startswith("tuple[str"):
        return tuple(part.strip() for part in text.split(";") if part.strip())
    if kind.startswith("tuple[float"):
        try:
            return tuple(float(part) for part in text.split(","))
        except ValueError:
            raise OptionError(f"option {key} = '{text}' is not understood; write numbers: 1,4") from None
    if "tuple" in kind:
        return tuple(tuple(a.strip() for a in g.split(",")) for g in text.split(";"))
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
        raise OptionError(f"option {key} = '{text}' is not understood; it must be {wanted}") from None
