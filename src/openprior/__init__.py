"""openprior: differentially private statistics and synthetic tables, with public data as prior knowledge.

>>> import openprior as op
>>> sorted(op.mechanisms())
['aim', 'hierarchy', 'ide', 'jam-pgm', 'mst', 'mwem', 'mwem-pub', 'pmw-pub', 'public', 'tilt']
"""

import importlib
from typing import TYPE_CHECKING, Any

# These are functions and would be hidden by the sub-package or module of the same name if that were imported
# later; importing them here, light as they are, settles it.
from openprior.evaluate import estimate_error, evaluate, evaluate_groups, evaluate_quality
from openprior.mechanisms import mechanisms
from openprior.release import Release, open_release, release

if TYPE_CHECKING:
    from openprior.certificate import Certificate
    from openprior.data.schema import Schema
    from openprior.errors import OpenPriorError
    from openprior.guidance.mixture import best_mixture_error
    from openprior.guidance.plan import plan
    from openprior.guidance.screen import screen
    from openprior.guidance.tune import tune
    from openprior.mechanisms.aim import Aim
    from openprior.mechanisms.hierarchy import Hierarchy
    from openprior.mechanisms.ide import Ide
    from openprior.mechanisms.jam import JamPgm
    from openprior.mechanisms.mst import Mst
    from openprior.mechanisms.mwem import Mwem
    from openprior.mechanisms.mwem_pub import MwemPub
    from openprior.mechanisms.pmw_pub import PmwPub
    from openprior.mechanisms.public import PublicProxy
    from openprior.mechanisms.tilt import Tilt
    from openprior.workload import Workload, all_marginals, random_marginals, target_marginals

__version__ = "0.1.0"

__all__ = [
    "Aim",
    "Certificate",
    "Hierarchy",
    "Ide",
    "JamPgm",
    "Mst",
    "Mwem",
    "MwemPub",
    "OpenPriorError",
    "PmwPub",
    "PublicProxy",
    "Release",
    "Schema",
    "Tilt",
    "Workload",
    "all_marginals",
    "best_mixture_error",
    "estimate_error",
    "evaluate",
    "evaluate_groups",
    "evaluate_quality",
    "mechanisms",
    "open_release",
    "plan",
    "random_marginals",
    "release",
    "screen",
    "target_marginals",
    "tune",
]

# The rest is imported when it is first used, so that `import openprior` stays fast.
_HOMES = {
    "Aim": "mechanisms.aim",
    "Certificate": "certificate",
    "Hierarchy": "mechanisms.hierarchy",
    "Ide": "mechanisms.ide",
    "JamPgm": "mechanisms.jam",
    "Mst": "mechanisms.mst",
    "Mwem": "mechanisms.mwem",
    "MwemPub": "mechanisms.mwem_pub",
    "OpenPriorError": "errors",
    "PmwPub": "mechanisms.pmw_pub",
    "PublicProxy": "mechanisms.public",
    "Schema": "data.schema",
    "Tilt": "mechanisms.tilt",
    "Workload": "workload",
    "all_marginals": "workload",
    "best_mixture_error": "guidance.mixture",
    "plan": "guidance.plan",
    "random_marginals": "workload",
    "screen": "guidance.screen",
    "target_marginals": "workload",
    "tune": "guidance.tune",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'openprior' has no attribute '{name}'")
    return getattr(importlib.import_module(f"openprior.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
