"""One file a mechanism. They register themselves when they are imported."""

import importlib
from typing import Any

__all__ = ["load_all", "mechanisms"]

_FILES = ("tilt", "pmw_pub", "mwem", "mwem_pub", "jam", "aim", "mst", "ide", "hierarchy", "public")


def mechanisms() -> dict[str, type[Any]]:
    """Every mechanism by name; each is a dataclass of options."""
    from openprior.mechanisms.base import registry

    return registry()


def load_all() -> None:
    """Import every mechanism."""
    for name in _FILES:
        importlib.import_module(f"openprior.mechanisms.{name}")
