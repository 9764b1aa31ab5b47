"""Where the budget went: the steps, added up by what they did and laid end to end."""

import math
from dataclasses import dataclass

from openprior.releases.certificate import Certificate
from openprior.report.steps import GROUPS, Step, noise_range
from openprior.report.words import percent, plain

__all__ = ["Budget", "Group", "Segment", "budget_of"]

_SEGMENTS = 120
"""Steps beyond which neighbours share a segment of the bar."""
_LISTED = 400
"""Steps listed in the page; the certificate has all."""


@dataclass(frozen=True)
class Group:
    """All steps of one kind."""

    key: str
    name: str
    steps: int
    cost: float
    share: float
    noise: str


@dataclass(frozen=True)
class Segment:
    """A piece of the bar, from `start` to `start + width` of the budget."""

    key: str
    start: float
    width: float
    tip: str


@dataclass(frozen=True)
class Budget:
    """All steps against the limit."""

    unit: str
    """ρ, or ε if δ = 0."""
    limit: float
    spent: float
    groups: tuple[Group, ...]
    segments: tuple[Segment, ...]
    listed: tuple[Step, ...]
    steps: int

    @property
    def left(self) -> float:
        """The share that was not used."""
        return max(0.0, 1 - self.spent / self.limit) if self.limit else 0.0


def budget_of(certificate: Certificate, steps: tuple[Step, ...]) -> Budget:
    """The steps added up, by kind and end to end."""
    pure = certificate.is_pure
    return Budget(
        unit="ε" if pure else "ρ",
        limit=certificate.epsilon if pure else certificate.rho,
        spent=math.fsum(s.cost for s in steps),
        groups=_groups(steps),
        segments=_segments(steps),
        listed=steps[:_LISTED],
        steps=len(steps),
    )


def _groups(steps: tuple[Step, ...]) -> tuple[Group, ...]:
    groups = []
    for key, name in GROUPS.items():
        of_kind = [s for s in steps if s.group == key]
        if of_kind:
            cost, share = math.fsum(s.cost for s in of_kind), math.fsum(s.share for s in of_kind)
            noise = noise_range(sigma for s in of_kind for _, sigma in s.counted)
            if key == "errors":
                noise = of_kind[0].noise  # one step, and not of counts
            groups.append(Group(key, name, len(of_kind), cost, share, noise))
    return tuple(sorted(groups, key=lambda g: -g.cost))


def _segments(steps: tuple[Step, ...]) -> tuple[Segment, ...]:
    """One segment per step; of very many steps, one per kind in each stretch of them."""
    segments: list[Segment] = []
    start, stretch = 0.0, max(1, math.ceil(len(steps) / _SEGMENTS))
    for first in range(0, len(steps), stretch):
        together = steps[first : first + stretch]
        for key in dict.fromkeys(s.group for s in together):
            of_kind = [s for s in together if s.group == key]
            width = math.fsum(s.share for s in of_kind)
            if width > 0:
                segments.append(Segment(key, start, width, _tip(of_kind, width)))
                start += width
    return tuple(segments)


def _tip(steps: list[Step], width: float) -> str:
    first, last = steps[0], steps[-1]
    if len(steps) == 1:
        group = GROUPS[first.group].lower()
        what = group if first.what in group else f"{group}, {first.what}"
        return f"Step {first.number}: {what}. {first.noise}, {percent(width)} of the budget"
    cost = math.fsum(s.cost for s in steps)
    return (
        f"Steps {first.number} to {last.number}: {GROUPS[first.group].lower()}, {len(steps)} times. "
        f"{plain(cost)} in all, {percent(width)} of the budget"
    )
