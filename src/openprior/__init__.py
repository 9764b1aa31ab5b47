"""openprior: differentially private statistics and synthetic tables, with public data as prior knowledge.

>>> import openprior as op
>>> op.mechanisms()["tilt"] is op.Tilt
True
"""

import importlib
from typing import TYPE_CHECKING, Any

from openprior.compiling.cache_place import need_cache

if TYPE_CHECKING:
    from openprior.errors import OpenPriorError
    from openprior.evaluation.compare import compare
    from openprior.evaluation.error_estimate import estimate_error
    from openprior.evaluation.groups import evaluate_groups
    from openprior.evaluation.metrics import evaluate
    from openprior.evaluation.quality import evaluate_quality
    from openprior.guidance.choose_public import choose_public
    from openprior.guidance.divergences import divergences
    from openprior.guidance.mixture_error import best_mixture_error
    from openprior.guidance.plan import plan
    from openprior.guidance.screen import screen
    from openprior.guidance.tune import tune
    from openprior.methods.aim import Aim
    from openprior.methods.base import mechanisms
    from openprior.methods.dual_query import DualQuery
    from openprior.methods.gem import Gem
    from openprior.methods.gem_pub import GemPub
    from openprior.methods.hdmm import Hdmm
    from openprior.methods.hierarchy.method import Hierarchy
    from openprior.methods.ide import Ide
    from openprior.methods.importance import ImportanceWeights
    from openprior.methods.jam import JamPgm
    from openprior.methods.mst import Mst
    from openprior.methods.mwem import Mwem
    from openprior.methods.mwem_pub import MwemPub
    from openprior.methods.pmw_pub import PmwPub
    from openprior.methods.public import PublicProxy
    from openprior.methods.tilt import Tilt
    from openprior.privacy.auditing.audit import audit
    from openprior.progress import Progress
    from openprior.questions.workload import Workload, all_marginals, random_marginals, target_marginals
    from openprior.releases.certificate import Certificate
    from openprior.releases.combine import Combined, combine
    from openprior.releases.public_prior import PublicPrior, fit_prior, open_prior
    from openprior.releases.release import release
    from openprior.releases.result import Release, open_release
    from openprior.schema.base import Schema
    from openprior.schema.reading_rules import Reading

__version__ = "0.1.0"

need_cache()

__all__ = [
    "Aim",
    "Certificate",
    "Combined",
    "DualQuery",
    "Gem",
    "GemPub",
    "Hdmm",
    "Hierarchy",
    "Ide",
    "ImportanceWeights",
    "JamPgm",
    "Mst",
    "Mwem",
    "MwemPub",
    "OpenPriorError",
    "PmwPub",
    "Progress",
    "PublicPrior",
    "PublicProxy",
    "Reading",
    "Release",
    "Schema",
    "Tilt",
    "Workload",
    "all_marginals",
    "audit",
    "best_mixture_error",
    "choose_public",
    "combine",
    "compare",
    "divergences",
    "estimate_error",
    "evaluate",
    "evaluate_groups",
    "evaluate_quality",
    "fit_prior",
    "mechanisms",
    "open_prior",
    "open_release",
    "plan",
    "random_marginals",
    "release",
    "screen",
    "target_marginals",
    "tune",
]

# Everything is imported when it is first used, so that `import openprior` stays fast.
_HOMES = {
    "Aim": "methods.aim",
    "Certificate": "releases.certificate",
    "Combined": "releases.combine",
    "DualQuery": "methods.dual_query",
    "Gem": "methods.gem",
    "GemPub": "methods.gem_pub",
    "Hdmm": "methods.hdmm",
    "Hierarchy": "methods.hierarchy.method",
    "Ide": "methods.ide",
    "ImportanceWeights": "methods.importance",
    "JamPgm": "methods.jam",
    "Mst": "methods.mst",
    "Mwem": "methods.mwem",
    "MwemPub": "methods.mwem_pub",
    "OpenPriorError": "errors",
    "PmwPub": "methods.pmw_pub",
    "Progress": "progress",
    "PublicPrior": "releases.public_prior",
    "PublicProxy": "methods.public",
    "Reading": "schema.reading_rules",
    "Release": "releases.result",
    "Schema": "schema.base",
    "Tilt": "methods.tilt",
    "Workload": "questions.workload",
    "all_marginals": "questions.workload",
    "audit": "privacy.auditing.audit",
    "best_mixture_error": "guidance.mixture_error",
    "choose_public": "guidance.choose_public",
    "combine": "releases.combine",
    "compare": "evaluation.compare",
    "divergences": "guidance.divergences",
    "estimate_error": "evaluation.error_estimate",
    "evaluate": "evaluation.metrics",
    "evaluate_groups": "evaluation.groups",
    "evaluate_quality": "evaluation.quality",
    "fit_prior": "releases.public_prior",
    "mechanisms": "methods.base",
    "open_prior": "releases.public_prior",
    "open_release": "releases.result",
    "plan": "guidance.plan",
    "random_marginals": "questions.workload",
    "release": "releases.release",
    "screen": "guidance.screen",
    "target_marginals": "questions.workload",
    "tune": "guidance.tune",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        import difflib  # here, because it is slow to import and seldom needed

        close = difflib.get_close_matches(name, _HOMES, 1)
        meant = f"; did you mean '{close[0]}'?" if close else ""
        raise AttributeError(f"module 'openprior' has no attribute '{name}'{meant}")
    return getattr(importlib.import_module(f"openprior.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
