"""What tuning on halves of 2018 chooses is good for the release of 2019 with 2018."""

from pathlib import Path

import pytest

import openprior as op
from openprior.guidance.tune import tune
from openprior.tables.encode import encode_table

ROOT = Path(__file__).parents[2]
COLUMNS = ("AGEP", "SEX", "MSP", "HISP", "RAC1P", "OWN_RENT", "EDU", "PINCP_DECILE", "DVET", "DPHY")
GRID = (op.Tilt(rounds=12), op.Tilt(), op.PmwPub(), op.JamPgm(rounds=10), op.Mst(), op.PublicProxy())


@pytest.mark.slow
def test_what_is_chosen_on_halves_is_within_ten_per_cent_of_the_best_on_the_true_pair(
    data_folder: Path,
) -> None:
    older, newer = (data_folder / "nist_acs" / f"national{year}.csv" for year in (2018, 2019))
    if not (older.is_file() and newer.is_file()):
        pytest.skip("no ACS excerpts: OPENPRIOR_DATA has no nist_acs/national2018.csv and national2019.csv")
    whole = op.Schema.load(ROOT / "examples" / "acs" / "national.toml")
    schema = op.Schema(tuple(whole[name] for name in COLUMNS))
    work = op.all_marginals(2)
    at = {
        "schema": schema,
        "workload": work,
        "epsilon": 1.0,
        "delta": 1e-9,
        "grid": GRID,
        "seeds": 2,
        "workers": 2,
    }
    tuned = tune(older, rows=encode_table(newer, schema).n, **at)  # type: ignore[arg-type]
    true = tune(newer, older, **at)  # type: ignore[arg-type]
    assert not any(s.failures for s in (*tuned.results, *true.results))
    chosen = next(s for s in true.results if s.mechanism == tuned.best.mechanism)
    assert chosen.workload_error <= 1.1 * true.results[0].workload_error
    # And the choice matters: the worst of the grid has far more error.
    assert true.results[-1].workload_error > 1.5 * chosen.workload_error
