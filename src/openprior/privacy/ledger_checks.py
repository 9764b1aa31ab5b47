"""What a ledger refuses, before it writes anything: numbers that cannot be, what does not fit, what does not add up."""

from collections.abc import Mapping
from fractions import Fraction

from openprior.errors import BudgetExceeded, LedgerError, OptionError
from openprior.given import finite_number, shown
from openprior.privacy.calibrate import budget_rho, epsilon_spent
from openprior.privacy.exact import down, up
from openprior.privacy.ledger_status import DatasetStatus, unit_words
from openprior.privacy.pure_cost import pure_rho

__all__ = [
    "check_budget_rho",
    "check_committed",
    "check_guarantee",
    "check_left",
    "check_pure",
    "check_rho",
    "check_unit",
]


def check_rho(what: str, rho: float, *, zero: bool = False) -> float:
    """A ρ as a double, which must be positive and finite."""
    value = finite_number(f"{what} ρ", rho)
    # value != rho: a Fraction or large int that a double cannot hold would be recorded as less than it is.
    if not ((value > 0 or (zero and value == 0)) and value == rho):
        raise OptionError(f"{what} ρ = {shown(rho)} must be a finite double greater than 0")
    return value


def check_guarantee(epsilon: float, delta: float) -> tuple[float, float]:
    """ε and δ that can be, as doubles."""
    found = finite_number("epsilon", epsilon), finite_number("delta", delta)
    if found[0] <= 0:
        raise OptionError(f"epsilon = {shown(epsilon)} must be finite and greater than 0")
    if not 0 <= found[1] < 1:
        raise OptionError(f"delta = {shown(delta)} must be at least 0 and less than 1")
    return found


def check_budget_rho(rho: float | None, epsilon: float, delta: float) -> float:
    """The ρ of a budget: all that ε and δ give, or what was asked for if that is no more.

    ρ-zCDP implies (ε, δ)-DP for every ρ up to `budget_rho(ε, δ)`, so runs that together stay within the ρ recorded keep
    the (ε, δ) recorded beside it; a larger ρ would let them pass it. ∎
    """
    most = budget_rho(epsilon, delta)
    if rho is None:
        return most
    budget = check_rho("budget", rho)
    if budget > most:
        raise OptionError(
            f"a budget of epsilon = {epsilon:g} and delta = {delta:g} is worth ρ = {most:.4g}, and not {budget:.4g}; "
            "give ε and δ without ρ, or a larger ε"
        )
    return budget


def check_pure(rho: float, epsilon: float, delta: float) -> None:
    """A run of δ = 0 counts with its ε, so it may not reserve more ρ than that ε is worth."""
    if delta == 0 and rho > pure_rho(epsilon) * (1 + 1e-8):
        raise OptionError(
            f"a run with epsilon = {epsilon:g} at delta = 0 cannot reserve ρ = {rho:g}; give budget_rho(epsilon, 0)"
        )


def check_committed(known: DatasetStatus, rho: float, epsilon: float, delta: float) -> None:
    """A budget covers what is committed already; one of δ = 0 only what is pure, and that by its ε."""
    committed, name = known.committed, known.name
    if Fraction(rho) < committed:
        raise LedgerError(
            f"dataset '{name}' has ρ = {up(committed)!r} committed (ε = {known.epsilon_committed:.4g} at "
            f"δ = {known.delta:g}), more than the new budget {rho!r}; give at least that, or close open runs to free "
            "what they did not spend"
        )
    if delta > 0:
        return
    if any(r.delta > 0 and r.committed > 0 for r in known.runs):
        raise LedgerError(
            f"dataset '{name}' has runs with δ above 0, so it cannot be promised δ = 0; give a budget with a δ"
        )
    used = known.pure_committed
    if Fraction(epsilon) < used:
        raise LedgerError(
            f"dataset '{name}' has ε = {up(used):.4g} committed at δ = 0, where ε adds up; give at least that"
        )


def check_left(known: DatasetStatus, rho: float, epsilon: float, delta: float) -> None:
    """Refuse a run that does not fit.

    Where the budget is one of δ = 0, ε itself adds up (ρ says nothing about δ = 0), so only pure runs fit there.
    """
    name, left = known.name, Fraction(known.rho) - known.committed
    remedy = "ask for less, close runs that are over, or raise the budget with 'openprior ledger budget'"
    if known.delta == 0 < delta:
        raise LedgerError(
            f"dataset '{name}' has a budget of δ = 0, and this run asks for δ = {delta:g}; use delta = 0, or set "
            "a budget with a δ"
        )
    if known.delta == 0:
        free = Fraction(known.epsilon) - known.pure_committed
        if Fraction(epsilon) > free:
            raise BudgetExceeded(
                f"dataset '{name}' has ε = {known.epsilon_left:.4g} left of {known.epsilon:g} at δ = 0, where ε adds "
                f"up, and this run asks for ε = {epsilon:g}; {remedy}"
            )
    if Fraction(rho) > left:
        raise BudgetExceeded(
            f"dataset '{name}' has ε = {known.epsilon_left:.4g} left of {known.epsilon:g} at "
            f"δ = {known.delta:g} (ρ = {down(left):.4g} of {known.rho:.4g}), and this run asks for "
            f"ε = {epsilon_spent(rho, known.delta):.4g} there (ρ = {rho:.4g}); {remedy}"
        )


def check_unit(known: DatasetStatus, details: Mapping[str, object]) -> None:
    """Costs of one dataset add up only if all are about the same unit: who is one person, Δ, and the relation.

    Runs of older ledgers have no unit written down; then the same relation and the very same schema will do.
    """
    for run in known.runs:
        if run.state == "closed" and not run.events:
            continue
        before = run.details
        same = before.get("unit") == details.get("unit")
        if same and "unit" not in before:
            same = before.get("relation") == details.get("relation")
        elif "unit" not in before and "relation" in before:
            unit = details["unit"]
            same = (
                isinstance(unit, Mapping)
                and before["relation"] == unit["relation"]
                and before.get("schema") == details.get("schema")
            )
        if not same:
            raise LedgerError(
                f"dataset '{known.name}' protects {unit_words(before)}, and this run would protect "
                f"{unit_words(details)}; their costs do not add up. Use another dataset name with a budget of its own, "
                "or the schema and the relation that the dataset began with"
            )
