"""`openprior ledger`: what has been spent on which dataset."""

from pathlib import Path
from typing import Annotated, Any

import typer

from openprior.command_line.options import Json, Wait, opened
from openprior.command_line.program import Program
from openprior.command_line.terminal import print_json

__all__ = ["ledger_app"]

ledger_app = Program(no_args_is_help=True, help="What has been spent on which dataset.")


@ledger_app.command("show", epilog="Example: openprior ledger show budget.sqlite")
def ledger_show(
    path: Annotated[Path, typer.Argument(help="The ledger file.", readable=False)],
    ledger_timeout: Wait = 30.0,
    json: Json = False,
) -> None:
    """What each dataset's budget is, what is spent and what is left."""
    found = opened(path, ledger_timeout).datasets()
    if json:
        print_json([_status(d) for d in found])
        return
    if not found:
        typer.echo(f"{path} is empty: no dataset has a budget yet")
    for d in found:
        share = float(d.committed) / d.rho
        typer.echo(
            f"{d.name}: ε = {d.epsilon:g}, δ = {d.delta:g} (ρ = {d.rho:.6g}); committed {share:.1%}, "
            f"ρ = {d.remaining if d.remaining > 1e-12 * d.rho else 0:.6g} left"
        )
        for run in d.runs:
            what = run.details.get("mechanism", "")
            typer.echo(
                f"  {run.id}  {run.started}  {what}  {run.state}  reserved ρ = {run.reserved:.6g}, "
                f"spent {float(run.spent):.6g} in {run.events} steps"
            )


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
    ledger_timeout: Wait = 30.0,
) -> None:
    """Set what all releases of a dataset may spend together; never below what is already committed."""
    from openprior.privacy.calibrate import budget_rho
    from openprior.privacy.ledger import Ledger

    rho = budget_rho(epsilon, delta)
    Ledger(path, timeout=ledger_timeout).set_budget(dataset, rho=rho, epsilon=epsilon, delta=delta)
    typer.echo(f"{dataset}: ε = {epsilon:g}, δ = {delta:g} (ρ = {rho:.6g})")


@ledger_app.command("close", epilog="Example: openprior ledger close budget.sqlite RUN")
def ledger_close(
    path: Annotated[Path, typer.Argument(help="The ledger file.", readable=False)],
    run: Annotated[str, typer.Argument(help="The run's id, as 'ledger show' prints it.")],
    ledger_timeout: Wait = 30.0,
) -> None:
    """Give up an unfinished run: what it spent stays spent, the rest goes back; it can no longer be resumed."""
    opened(path, ledger_timeout).close(run)
    typer.echo(f"closed {run}")


def _status(d: Any) -> dict[str, Any]:
    runs = [
        {"id": r.id, "state": r.state, "reserved": r.reserved, "spent": float(r.spent), "started": r.started}
        for r in d.runs
    ]
    facts = {"dataset": d.name, "epsilon": d.epsilon, "delta": d.delta, "rho": d.rho}
    return {**facts, "committed": float(d.committed), "remaining": d.remaining, "runs": runs}
