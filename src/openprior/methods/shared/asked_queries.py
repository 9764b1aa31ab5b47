"""The option `queries` of mechanisms: what it is, and how labels in it become codes."""

import warnings
from typing import Any

from openprior.errors import OpenPriorWarning
from openprior.methods.base import option
from openprior.questions.queries import Queries
from openprior.questions.query_labels import codes_for_values, in_codes, query_texts
from openprior.schema.base import Schema

__all__ = ["queries_in_codes", "queries_option"]


def queries_option() -> Any:
    """Texts, or mappings of columns to labels; none by default."""
    return option(
        default=(),
        doc='0/1 queries, e.g. prefixes(age); ranges(age, 0-4, 5-9); where(age=0-4, sex="F"); or @FILE (TOML or CSV)',
        read=query_texts,
    )


def queries_in_codes(texts: tuple[str, ...], schema: Schema) -> tuple[str, ...]:
    """With codes for labels; refuses what does not fit, and warns of codes that look like values. Reads nothing."""
    coded = tuple(in_codes(text, schema) for text in texts)
    for text in coded:
        Queries.parse(text, schema.domain)
    for text in texts:
        doubt = codes_for_values(text, schema)
        if doubt is not None:
            warnings.warn(doubt, OpenPriorWarning, stacklevel=4)
    return coded
