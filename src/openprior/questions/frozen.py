"""Arrays that nobody can change any more.

What is asked of the private table is checked, charged for, and then read. An array that another thread writes in
between would be read as something that was never checked. So questions keep copies of their own, on memory that stays
as it is.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["frozen"]


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """A copy that cannot be made writeable again; an array that is one already, or a slice of one, as it is.

    >>> kept = frozen(np.arange(3))
    >>> frozen(kept) is kept and frozen(kept[1:]).base is not None
    True
    >>> kept.setflags(write=True)
    Traceback (most recent call last):
        ...
    ValueError: cannot set WRITEABLE flag to True of this array
    """
    if type(array) is np.ndarray and _is_fixed(array):
        return array
    plain = np.asarray(array)
    if plain.dtype.hasobject:
        return plain  # whoever uses it refuses its type
    # Of bytes, and not of an array with its flag down: that flag can be put up again.
    return np.frombuffer(plain.tobytes(), plain.dtype).reshape(plain.shape)


def _is_fixed(array: NDArray[Any]) -> bool:
    """Whether the memory is that of bytes, which Python never changes."""
    owner: Any = array
    while isinstance(owner, np.ndarray):
        owner = owner.base
    return isinstance(owner, bytes)
