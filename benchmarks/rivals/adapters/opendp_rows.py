"""OpenDP: its contingency tables by AIM and MST, under zero-concentrated DP that gives the (ε, δ) by its conversion.

The codes are told as cuts between whole numbers: a column with keys gets one more category for values that are
missing, a column with cuts does not, and its bins are drawn as the codes again.
"""

import mbi_drawing
import opendp.extras.mbi._mst as mst
import opendp.prelude as dp
import polars as pl
from exchange import Task, answer

dp.enable_features("contrib")
# MST of 0.16 splits its share of the budget into parts whose sum can be one rounding too large, as with nine columns,
# and then stops: parts that are a little smaller let it run.
mst.prior = lambda share: share * (1 - 1e-12)
mbi_drawing.mend()

ALGORITHMS = {"aim": dp.mbi.AIM(queries=3), "mst": dp.mbi.MST()}


def rho_of(epsilon: float, delta: float) -> float:
    """The largest ρ whose zCDP is (ε, δ)-DP."""
    numbers = dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float)

    def is_within(scale: float) -> bool:
        gaussian = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*numbers, scale))
        return bool(gaussian.map(1.0).epsilon(delta) <= epsilon)

    return float(0.5 / dp.binary_search(is_within, bounds=(0.2, 1e5)) ** 2)


def make(task: Task) -> object:
    """As many rows as it makes of itself."""
    rho = rho_of(task.epsilon, task.delta)
    table = pl.LazyFrame(task.rows, schema=dict.fromkeys(task.sizes, pl.Int64))
    context = dp.Context.compositor(
        data=table, privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(rho=rho)
    )
    cuts = {name: list(range(size - 1)) for name, size in task.sizes.items()}
    query = context.query(rho=rho).contingency_table(cuts=cuts, algorithm=ALGORITHMS[task.method])
    return query.release().synthesize().select(list(task.sizes)).to_numpy()


if __name__ == "__main__":
    answer(make)
