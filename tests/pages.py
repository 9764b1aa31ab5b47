"""The fenced blocks of a page of documentation."""

import re

__all__ = ["FENCE", "fenced"]

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def fenced(text: str) -> list[re.Match[str]]:
    """Every block: its first group is the language, its second what is in it."""
    return list(FENCE.finditer(text))
