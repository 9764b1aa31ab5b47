"""The prior as a pure function of what is public: the rows, the columns and the marginals that are asked for.

Learning draws at random (orders of networks, folds, starts of classes). Its seed is a digest of what it learns from,
not the run's: so the same public table gives the same prior in every run, seeded or secure, and it makes no difference
whether a prior was learnt now, taken from the cache (prior_cache.py) or given as a file.

Privacy: no argument here is private. Rows and columns are the public table's, and the workload is published with every
release; neither the seed, nor a digest, nor a name of a file depends on anything else. ∎
"""

import hashlib
import json
from collections.abc import Sequence

import numpy as np

from openprior.errors import OptionError
from openprior.models.prior.prior import Prior, fit_prior
from openprior.questions.workload import Marginal
from openprior.schema.domain import Domain
from openprior.tables.table import Table, content_of

__all__ = ["check_sizes", "learn", "learnt_from"]

_LARGEST = 1 << 16
"""Values of a column: codes have sixteen bits."""


def check_sizes(domain: Domain) -> None:
    """Refuse columns that the compiled loops cannot hold."""
    if max(domain.shape) > _LARGEST:
        raise OptionError("tilt takes columns of at most 65,536 values; give the largest fewer bins")


def learnt_from(public: Table, marginals: Sequence[Marginal]) -> str:
    """SHA-256 of all that a prior depends on, in hex."""
    return hashlib.sha256(json.dumps([content_of(public), list(marginals)]).encode()).hexdigest()


def learn(public: Table, marginals: Sequence[Marginal]) -> Prior:
    """The prior of a public table, the same whoever learns it."""
    check_sizes(public.domain)
    seed = int(learnt_from(public, marginals), 16)
    return fit_prior(public, marginals, np.random.default_rng(seed))
