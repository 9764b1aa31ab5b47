"""The cores that this process may use, which may be fewer than the machine has."""

import os

__all__ = ["available_cores", "workers"]


def available_cores() -> list[int]:
    """The numbers of the cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def workers() -> int:
    """How many threads work side by side: one per core that this process may use."""
    return len(available_cores())
