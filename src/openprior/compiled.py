"""How loops are compiled: once per types, kept on disk, and without Python's lock while they run.

Nobody calls them from C, so no way in from there is compiled, which would take a twentieth of the time.
"""

from typing import Any

import numba as nb

__all__ = ["compiled"]


def compiled(**options: Any) -> Any:
    """A decorator for a loop, with numba's options."""
    return nb.njit(nogil=True, cache=True, no_cfunc_wrapper=True, **options)
