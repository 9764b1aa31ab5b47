"""What is legal and probably not meant: an ε that protects nobody, a table that is too small.

A caution is public: it goes to the screen and into the certificate. So it may depend on the budget, which is public,
and on the number of rows only where that is public too (replace-one) or was released.
"""

import math
import warnings

from openprior.errors import OpenPriorWarning

__all__ = ["FEW_ROWS", "LARGE_EPSILON", "as_remark", "caution", "few_rows", "large_epsilon"]

LARGE_EPSILON = 20.0
FEW_ROWS = 100


def large_epsilon(epsilon: float) -> str | None:
    """What to say of ε, if anything.

    >>> large_epsilon(1.0) is None
    True
    """
    if not epsilon > LARGE_EPSILON:
        return None
    power = math.floor(epsilon / math.log(10))
    return (
        f"epsilon = {epsilon:g} is above {LARGE_EPSILON:g}: an outcome may be e^{epsilon:g} (about 10^{power}) times "
        "as likely with a person's data as without them, so this hides hardly anything about anyone; around 1 is a "
        "strong promise"
    )


def few_rows(rows: int) -> str | None:
    """What to say of a number of rows, which must be public or released, if anything."""
    if rows >= FEW_ROWS:
        return None
    return (
        f"the table has fewer than {FEW_ROWS} rows: noise that hides one person among so few hides most of what they "
        "have in common too, so expect hardly any answer to be right"
    )


def as_remark(words: str) -> str:
    """As a sentence of a certificate.

    >>> as_remark("the table is small")
    'The table is small.'
    """
    return f"{words[:1].upper()}{words[1:]}."


def caution(words: str | None, stacklevel: int = 3) -> None:
    """Warn, if there is something to say."""
    if words is not None:
        warnings.warn(words, OpenPriorWarning, stacklevel=stacklevel)
