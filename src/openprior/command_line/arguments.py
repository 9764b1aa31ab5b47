"""What words on the command line mean beyond what the library itself reads: tables, and mechanisms with -O options."""

import os
from pathlib import Path
from typing import Any

from openprior.errors import OptionError
from openprior.progress import phase
from openprior.tables.address import is_database

__all__ = ["grid", "mechanism", "named_folders", "table"]


def table(path: str, engine: str, master: str | None, reading: Any) -> Any:
    """What to read at a path: the path itself, or its source on Spark."""
    if engine not in ("local", "spark"):
        raise OptionError(f"engine '{engine}' is unknown; use local or spark")
    if engine == "spark":
        if is_database(path):
            raise OptionError("Spark reads files here, and no databases; leave out --engine spark")
        from openprior.spark.reading import read_path

        with phase("starting Spark"):
            return read_path(path, master, reading)
    if master is not None:
        raise OptionError("a Spark master without Spark; add --engine spark")
    return path


def named_folders(texts: list[str]) -> dict[str, Path]:
    """Folders by name, given as FOLDER or NAME=FOLDER; a folder that is there may have the sign in its own name."""
    folders: dict[str, Path] = {}
    for text in texts:
        name, sign, path = text.partition("=")
        if not sign or os.path.isdir(text):
            name, path = os.path.basename(os.path.abspath(text)), text
        if not name.strip() or not path:
            raise OptionError(f"'{text}' is no release; write FOLDER or NAME=FOLDER")
        if name.strip() in folders:
            raise OptionError(f"two releases are called '{name.strip()}'; write NAME=FOLDER with other names")
        folders[name.strip()] = Path(path)
    return folders


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
