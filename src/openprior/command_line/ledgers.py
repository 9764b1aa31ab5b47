"""`openprior ledger`: what has been spent on which dataset."""

import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openprior.command_line.options import Json, Wait, opened
from openprior.command_line.program import Program
from openprior.command_line.terminal import print_json, say

if TYPE_CHECKING:
    from openprior.privacy.ledger_status import BudgetChange, DatasetStatus

__all__ = ["ledger_app"]

ledger_app = Program(no_args_is_help=True, help="What has been spent on which dataset.")


@ledger_app.command("show", epilog="Example: openprior ledger show budget.sqlite")
def ledger_show(
    path: Annotated[Path, typer.Argument(help="The ledger file.", readable=False)],
    ledger_timeout: Wait = 30.0,
    json: Json = False,
) -> None:
    """What each dataset's budget is, what is spent, what is left for a next run, and every run."""
    found = opened(path, ledger_timeout).datasets()
    if json:
        print_json([_facts(d) for d in found])
        return
    if not found:
        say(f"{path} is empty: no dataset has a budget yet")
    for d in found:
        for line in _lines(d):
            say(line)


@ledger_app.command(
    "budget", epilog="Example: openprior ledger budget budget.sqlite survey --epsilon 4 --delta 1e-9"
)
def ledger_budget(
    path: Annotated[
        Path, typer.Argument(help="The ledger file; created if it is not there.", readable=False)
    ],
    dataset: Annotated[str, typer.Argument(help="The dataset's name.")],
    epsilon: Annotated[float, typer.Option(help="ε that all releases of the dataset may spend together.")],
    delta: Annotated[float, typer.Option(help="δ of that; 0 for pure ε-DP.")],
    yes: Annotated[
        bool, typer.Option("--yes", help="Raise a budget that is there; it promises people less.")
    ] = False,
    ledger_timeout: Wait = 30.0,
) -> None:
    """Set what all releases of a dataset may spend together; never below what is already committed."""
    from openprior.privacy.calibrate import budget_rho
    from openprior.privacy.ledger import Ledger

    rho = budget_rho(epsilon, delta)
    Ledger(path, timeout=ledger_timeout).set_budget(
        dataset, rho=rho, epsilon=epsilon, delta=delta, raise_ok=yes
    )
    say(f"{dataset}: ε = {epsilon:g}, δ = {delta:g} (ρ = {rho:.6g})")


@ledger_app.command("close", epilog="Example: openprior ledger close budget.sqlite RUN")
def ledger_close(
    path: Annotated[Path, typer.Argument(help="The ledger file.", readable=False)],
    run: Annotated[str, typer.Argument(help="The run's id, as 'ledger show' prints it.")],
    ledger_timeout: Wait = 30.0,
) -> None:
    """Give up an unfinished run: what it spent stays spent, the rest goes back; it can no longer be resumed."""
    opened(path, ledger_timeout).close(run)
    say(f"closed {run}")


def _lines(d: "DatasetStatus") -> Iterator[str]:
    """A dataset in lines of at most 100 letters, as long as names are short."""
    from openprior.privacy.ledger_refusals import REFUSALS

    dust = 1e-12 * d.rho
    yield f"{d.name}: ε = {d.epsilon:g}, δ = {d.delta:g} (ρ = {d.rho:.6g})"
    if d.unit is not None:
        yield f"  protects   {d.unit}"
    committed = float(d.committed)
    yield (
        f"  committed  ε = {_up(d.epsilon_committed)} (ρ = {committed:.6g}, {committed / d.rho:.1%}): "
        "spent, or reserved by open runs"
    )
    left = d.remaining if d.remaining > dust else 0
    yield f"  left       ε = {d.epsilon_left:.4g} for a next run at δ = {d.delta:g} (ρ = {left:.6g})"
    if d.refusals_in_all:
        yield (
            f"  refusals   {d.refusals_in_all} in all, {d.refusals} since the last acknowledgement, which is asked for "
            f"from {REFUSALS} on"
        )
    for change in d.changes[0 if len(d.changes) > 1 else 1 :]:
        yield f"  budget     {change.changed}  {_change_words(change)}"
    for run in d.runs:
        resumed = "" if not run.resumed else f", resumed {run.resumed} time{'' if run.resumed == 1 else 's'}"
        yield f"  {run.id}  {run.started}  {run.state}{resumed}"
        yield f"    {run.mechanism or 'unnamed'}{'' if run.out is None else f' into {run.out}'}"
        steps = "1 step" if run.events == 1 else f"{run.events} steps"
        yield (
            f"    reserved ε = {run.epsilon:.6g}, δ = {run.delta:g} (ρ = {run.reserved:.6g}); "
            f"spent ε = {_up(run.epsilon_spent)} (ρ = {float(run.spent):.6g}) in {steps}"
        )


def _change_words(change: "BudgetChange") -> str:
    after = f"ε = {change.epsilon:g}, δ = {change.delta:g} (ρ = {change.rho:.4g})"
    how = "" if change.stated else ", by a first run"
    if change.before is None:
        return f"set to {after}{how}"
    _, epsilon, delta = change.before
    return f"from ε = {epsilon:g}, δ = {delta:g} to {after}{how}"


def _up(epsilon: float) -> str:
    """Four digits, rounded up: more was not spent.

    >>> _up(0.99991), _up(0.12341), _up(1.0), _up(0.0)
    ('1', '0.1235', '1', '0')
    """
    if epsilon == 0:
        return "0"
    digit = 10.0 ** (math.floor(math.log10(epsilon)) - 3)
    near = float(f"{epsilon:.4g}")
    # A hair above a round number is that number: conversions are good to nine digits.
    return f"{near if near >= epsilon * (1 - 1e-9) else near + digit:.4g}"


def _facts(d: "DatasetStatus") -> dict[str, Any]:
    runs = [
        {
            "id": r.id,
            "state": r.state,
            "mechanism": r.mechanism,
            "out": r.out,
            "resumed": r.resumed,
            "epsilon": r.epsilon,
            "delta": r.delta,
            "reserved": r.reserved,
            "spent": float(r.spent),
            "epsilon_spent": r.epsilon_spent,
            "steps": r.events,
            "started": r.started,
            "unit": r.details.get("unit"),
        }
        for r in d.runs
    ]
    return {
        "dataset": d.name,
        "epsilon": d.epsilon,
        "delta": d.delta,
        "rho": d.rho,
        "protects": d.unit,
        "committed": float(d.committed),
        "epsilon_committed": d.epsilon_committed,
        "remaining": d.remaining,
        "epsilon_left": d.epsilon_left,
        "refusals": d.refusals,
        "refusals_in_all": d.refusals_in_all,
        "changes": [asdict(change) for change in d.changes],
        "runs": runs,
    }
