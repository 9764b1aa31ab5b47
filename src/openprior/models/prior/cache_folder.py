"""Where priors are kept between runs: the user's cache folder, or none.

`OPENPRIOR_CACHE` names another folder, or says `off`. Else it is the platform's own: `$XDG_CACHE_HOME` or `~/.cache`,
`~/Library/Caches` on macOS, `%LOCALAPPDATA%` on Windows. What is kept stands in `openprior/priors` there, in the folder
`priors` of one that was named.
"""

import os
import sys
from pathlib import Path

__all__ = ["VARIABLE", "cache_folder"]

VARIABLE = "OPENPRIOR_CACHE"
_OFF = "off"
_ROOM = "priors"


def cache_folder() -> Path | None:
    """The folder, which need not exist; None if the cache is off, or there is no home to keep it in."""
    named = os.environ.get(VARIABLE, "").strip()
    if named.lower() == _OFF:
        return None
    if named:
        return Path(named).absolute() / _ROOM
    base = _platform_folder()
    return None if base is None else base / "openprior" / _ROOM


def _platform_folder() -> Path | None:
    named = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME", "")
    if named and os.path.isabs(named):  # a relative one is to be ignored, by the rule that names the variable
        return Path(named)
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache")
