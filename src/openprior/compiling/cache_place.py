"""Where compiled loops are kept, so that a machine compiles once.

numba keeps them beside the source or, where that folder cannot be written, in the user's cache folder; with neither,
its decorators refuse and nothing of openprior could be imported. Such a process gets a folder of its own for as long as
it runs: never one that others can write, because what lies there is run.
"""

import os
import sys
import warnings

__all__ = ["cache_folder", "need_cache"]

_HERE = os.path.dirname(os.path.abspath(__file__))


def cache_folder() -> str | None:
    """The first folder of those that numba tries that can be written; None where there is none."""
    asked, beside = os.environ.get("NUMBA_CACHE_DIR"), os.path.join(_HERE, "__pycache__")
    places = [asked, beside, _user_folder()]
    return next((place for place in places if place and _can_write(place)), None)


def need_cache() -> None:
    """Make a folder for this process where there is none to keep compiled loops in, and say so."""
    if cache_folder() is not None:
        return
    import atexit
    import shutil
    import tempfile

    from openprior.errors import OpenPriorWarning

    folder = tempfile.mkdtemp(prefix="openprior-compiled-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["NUMBA_CACHE_DIR"] = folder
    numba = sys.modules.get("numba")
    if numba is not None:
        numba.config.CACHE_DIR = folder
    warnings.warn(
        "there is no folder to keep compiled loops in, so every process compiles them anew; set NUMBA_CACHE_DIR to one "
        "that only you can write",
        OpenPriorWarning,
        stacklevel=3,
    )


def _user_folder() -> str:
    """The user's cache folder, as numba finds it."""
    if sys.platform == "win32":
        return os.path.join(os.environ.get("LOCALAPPDATA") or os.path.expanduser("~"), "numba", "Cache")
    if sys.platform == "darwin":
        return os.path.expanduser("~/Library/Caches/numba")
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "numba")


def _can_write(folder: str) -> bool:
    """Whether files can be written there, or the folder be made."""
    while not os.path.exists(folder):
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above
    return os.path.isdir(folder) and os.access(folder, os.W_OK)
