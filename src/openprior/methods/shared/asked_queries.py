"""The option `queries` of mechanisms: what it is, and how labels in it become codes."""

import dataclasses
import warnings
from typing import Any, TypeVar

from openprior.errors import OpenPriorWarning
from openprior.methods.base import Mechanism, option
from openprior.questions.queries import Queries
from openprior.questions.query_labels import codes_for_values, in_codes, query_texts
from openprior.schema.base import Schema

__all__ = ["queries_option", "with_codes"]

M = TypeVar("M", bound=Mechanism)


def queries_option() -> Any:
    """Texts, or mappings of columns to labels; none by default."""
    return option(
        default=(),
        doc='0/1 queries, e.g. prefixes(age); ranges(age, 0-4, 5-9); where(age=0-4, sex="F"); or @FILE (TOML or CSV)',
        read=query_texts,
    )


def with_codes(mechanism: M, schema: Schema) -> M:
    """The mechanism with codes for the labels in its queries; nothing is read to know that a label is none.

    Refuses what does not fit the schema, and warns of codes that look like values.
    """
    texts: tuple[str, ...] = mechanism.options["queries"]
    coded = tuple(in_codes(text, schema) for text in texts)
    for text in coded:
        Queries.parse(text, schema.domain)
    for text in texts:
        doubt = codes_for_values(text, schema)
        if doubt is not None:
            warnings.warn(doubt, OpenPriorWarning, stacklevel=4)
    return mechanism if coded == texts else dataclasses.replace(mechanism, queries=coded)  # type: ignore[call-arg]
