"""All detailed measures of a release's quality in one place. Everything here is NOT PRIVATE.

They read the private table without noise, for the owner's eyes: publish the release, never these figures.
"""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from openprior.display import Sheet, Shown
from openprior.errors import OptionError
from openprior.evaluation.associations import Associations, Compared, associations_of
from openprior.evaluation.copies import Copies, check_tables, copies_of
from openprior.evaluation.metrics import NOTICE, tables_of
from openprior.evaluation.nist import Variation, total_variation
from openprior.evaluation.propensity import Propensity, propensity_of
from openprior.evaluation.usefulness import Usefulness, check_target, usefulness_of
from openprior.given import whole_number
from openprior.schema.base import Schema
from openprior.tables.encode import Table

__all__ = ["Quality", "evaluate_quality", "quality_of"]


@dataclass(frozen=True, repr=False)
class Quality(Shown):
    """Detailed measures of a release against the private table. NOT PRIVATE."""

    nist: float
    """NIST's k-marginal score of the 3-way marginals (of all columns if there are fewer), 0 to 1000."""
    total_variation: Mapping[int, Variation]
    """Distances of the 1-, 2- and 3-way marginals."""
    associations: Associations = field(repr=False)
    propensity: Propensity
    usefulness: Usefulness | None
    """None without a target column."""
    copies: Copies
    notice: str = NOTICE

    def as_dict(self) -> dict[str, Any]:
        """For JSON: plain numbers, texts, lists and dicts; undefined numbers are null. NOT PRIVATE."""
        plain: dict[str, Any] = _plain(self)
        return plain

    def summary(self) -> list[tuple[str, str, str]]:
        """Name, value and how to read it, one line per measure. NOT PRIVATE."""
        lines = [
            (
                "NIST k-marginal score",
                f"{self.nist:.0f} of 1000",
                f"1000 means equal {max(self.total_variation)}-way marginals, 0 means nothing in common.",
            )
        ]
        for k, v in self.total_variation.items():
            which = f"{v.marginals} random ones of {v.possible:,}" if v.sampled else f"all {v.marginals:,}"
            lines.append(
                (
                    f"{k}-way total variation",
                    f"mean {v.mean:.4f}, largest {v.largest:.4f}",
                    f"Share of rows in the wrong cell of a {k}-way table, over {which}; "
                    f"the worst is {' × '.join(v.worst)}.",
                )
            )
        for name, compared, scale in (
            ("Cramér's V of pairs", self.associations.cramers_v, "0 to 1"),
            ("Correlation of pairs", self.associations.correlation, "−1 to 1"),
        ):
            if compared.worst:
                lines.append(
                    (
                        name,
                        f"mean off by {compared.mean:.3f}, largest {compared.largest:.3f}",
                        f"How far associations ({scale}) of two columns are off; "
                        f"the worst pair is {' and '.join(compared.worst)}.",
                    )
                )
        return lines + self._of_models() + self._of_copies()

    def sheet(self) -> Sheet:
        """One line per measure. NOT PRIVATE."""
        return Sheet(
            "Quality of released rows",
            ("measure", "value", "how to read it"),
            tuple(self.summary()),
            warnings=(self.notice,),
        )

    def _of_models(self) -> list[tuple[str, str, str]]:
        p, u = self.propensity, self.usefulness
        halves = not math.isnan(p.chance_auc)
        lines = [
            (
                "Told from private rows (AUC)",
                f"{p.auc:.3f}" + (f", private halves {p.chance_auc:.3f}" if halves else ""),
                "0.5 means that a classifier cannot tell released rows from private ones, 1 that it always can.",
            ),
            (
                "Propensity score (pMSE)",
                f"{p.score:.4f}" + (f", private halves {p.chance_score:.4f}" if halves else ""),
                "At or below that of private halves means not told apart, 1 that they are told apart for certain.",
            ),
        ]
        if u is not None:
            lines.append(
                (
                    f"Accuracy of predicting {u.target}",
                    f"{u.released.accuracy:.3f}, from private rows {u.private.accuracy:.3f}",
                    "A model learnt from released rows should do about as well on unseen private rows as one learnt "
                    f"from private rows; always saying the commonest value gives {u.majority:.3f}.",
                )
            )
            if not math.isnan(u.released.auc):
                lines.append(
                    (
                        f"AUC of predicting {u.target}",
                        f"{u.released.auc:.3f}, from private rows {u.private.auc:.3f}",
                        "The same for how well values are ranked: 0.5 is guessing, 1 is perfect.",
                    )
                )
            lines.append(
                (
                    f"Log loss of predicting {u.target}",
                    f"{u.released.log_loss:.3f}, from private rows {u.private.log_loss:.3f}",
                    "The same for the predicted probabilities: smaller is better.",
                )
            )
        return lines

    def _of_copies(self) -> list[tuple[str, str, str]]:
        c = self.copies
        verdict = "more than" if c.beyond_chance else "no more than"
        return [
            (
                "Unique private rows that were released too",
                f"{c.matched:,} of {c.unique:,} ({c.rate:.2%})",
                "Rows that only one person has and that also occur in the release, by chance or by copying.",
            ),
            (
                "Such matches against chance",
                f"{c.released_rate:.2%}, by chance {c.chance_rate:.2%} ± {c.error:.2%}",
                f"Released rows hit {verdict} another sample of the same people would.",
            ),
        ]


def evaluate_quality(
    release: Any,
    private: Any,
    *,
    target: str | None = None,
    schema: Schema | str | Path | None = None,
    seed: int = 0,
) -> Quality:
    """Many measures of released rows against the private table. NOT PRIVATE: do not publish it.

    NIST's k-marginal score, total variation, associations, a classifier that tells released rows from private ones,
    copies of unique private rows, and with `target` how well a model trained on released rows predicts that column of
    private ones.
    """
    seed = whole_number("seed", seed, 0)
    released, truth, schema = tables_of(release, private, schema)
    return quality_of(released, truth, schema, target=target, seed=seed)


def quality_of(
    released: Table, private: Table, schema: Schema, *, target: str | None = None, seed: int = 0
) -> Quality:
    """All measures of released rows against the private table. NOT PRIVATE: do not publish it.

    target   a column to predict from the others, learnt from released rows; left out if None
    seed     of the random parts (samples, halves, folds): the same seed gives the same figures
    """
    check_tables(released, private)
    if schema.domain != private.domain:
        raise OptionError("the tables do not have the schema's columns; encode both with this schema")
    if target is not None:
        check_target(private, target)
    variation = total_variation(released, private, seed=seed)
    return Quality(
        nist=1000.0 * (1.0 - variation[max(variation)].mean),
        total_variation=variation,
        associations=associations_of(released, private, schema),
        propensity=propensity_of(released, private, seed=seed),
        usefulness=None if target is None else usefulness_of(released, private, target, seed=seed),
        copies=copies_of(released, private, seed=seed),
    )


def _plain(value: Any) -> Any:
    """Numbers, texts, lists and dicts only."""
    if isinstance(value, Compared):
        return _plain(value.as_dict())
    if dataclasses.is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return value
