"""How fast this machine is, beside the one that the costs of mechanisms were fitted on.

A fixed piece of work like that of most mechanisms (counting, sorting, exponentials; half a megabyte of numbers, so that
caches matter as they do there) is done a few times, and the time that this thread had a processor for is compared with
what it took there. Other programs on the machine are not counted, as they may be gone when the run comes.
"""

import time
from functools import cache
from statistics import median

import numpy as np

__all__ = ["machine_speed"]

_REFERENCE = 0.0042
"""Seconds that the work takes on the machine that costs were fitted on."""
_TIMES = 9


@cache
def machine_speed() -> float:
    """2 where work takes half as long as on the reference machine; takes a twentieth of a second, once per process."""
    _work()
    taken = []
    for _ in range(_TIMES):
        begin = time.thread_time()
        _work()
        taken.append(time.thread_time() - begin)
    return _REFERENCE / max(median(taken), 1e-9)


def _work() -> float:
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 1 << 14, 1 << 17)
    weights = np.exp(-rng.random(1 << 16))
    counts = np.bincount(codes, minlength=1 << 14)
    order = np.argsort(codes[: 1 << 15], kind="stable")
    return float(weights.sum() + counts[order & ((1 << 14) - 1)].sum())
