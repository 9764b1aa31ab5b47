"""What words on the command line mean beyond what the library itself reads: tables, and mechanisms with -O options."""

from typing import Any

from openprior.errors import OptionError

__all__ = ["grid", "mechanism", "table"]


def table(path: str, engine: str, master: str | None, reading: Any) -> Any:
    """What to read at a path: the path itself, or its source on Spark."""
    if engine not in ("local", "spark"):
        raise OptionError(f"engine '{engine}' is unknown; use local or spark")
    if engine == "spark":
        from openprior.spark.reading import read_path

        return read_path(path, master, reading)
    if master is not None:
        raise OptionError("a Spark master without Spark; add --engine spark")
    return path


def mechanism(name: str, options: list[str]) -> Any:
    """A mechanism by name, its options there ('tilt:rounds=12') or given as name=value beside it."""
    from openprior.methods.mechanism_text import make_mechanism, mechanism_from

    if options and ":" in name:
        raise OptionError(f"mechanism '{name}' has options, and so has -O; write them in one place")
    return make_mechanism(name, options) if options else mechanism_from(name)


def grid(texts: list[str]) -> list[Any]:
    """Mechanisms to compare: 'tilt', or every combination of 'tilt:rounds=12|48,alpha=0.7|0.8'."""
    from openprior.methods.mechanism_text import settings_from

    return [setting for text in texts for setting in settings_from(text)]
