"""Models of ADULT's size against the public library `mbi` (2.0, on JAX): the same fits, the same marginals.

The library runs in a process of its own, which is this file as a script: JAX starts threads, which the tests that fork
could not bear, warns when imported, and has to be told to compute in double precision before.
"""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

ROWS = 32_384
STEPS = 1000
# Twelve pairs, triples and singles that chain up, with one cycle (c02 c08 c09 c14) among them; 0.26 MB.
MEASURED = [
    ("c00", "c05"),
    ("c05", "c06", "c09"),
    ("c06", "c07"),
    ("c02", "c08"),
    ("c08", "c09"),
    ("c09", "c14"),
    ("c02", "c14"),
    ("c01", "c02", "c14"),
    ("c03", "c09"),
    ("c04", "c07", "c08"),
    ("c10", "c14"),
    ("c13",),
]
# No clique has these together.
ACROSS = [("c00", "c14"), ("c04", "c10"), ("c01", "c03", "c09"), ("c00", "c04", "c13"), ("c02", "c11", "c12")]


def run_peer(folder: Path, facts: dict[str, object], arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What mbi says; its process gets files and gives one back."""
    if importlib.util.find_spec("mbi") is None:
        pytest.skip("mbi is not installed")
    (folder / "facts.json").write_text(json.dumps(facts), encoding="utf-8")
    np.savez(folder / "arrays.npz", **arrays)
    done = subprocess.run(
        [sys.executable, __file__, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    with np.load(folder / "found.npz") as found:
        return dict(found)


def key(marginal: Iterable[str]) -> str:
    return "-".join(marginal)


def peer(folder: Path) -> None:
    """The script's part."""
    import warnings

    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)
    warnings.simplefilter("ignore")
    import mbi

    facts = json.loads((folder / "facts.json").read_text(encoding="utf-8"))
    arrays = np.load(folder / "arrays.npz")
    domain = mbi.Domain(list(facts["domain"]), list(facts["domain"].values()))
    marginals = [tuple(m) for m in facts["marginals"]]
    if facts["task"] == "estimate":
        seen = [mbi.LinearMeasurement(arrays[key(m)], m, stddev=1.0) for m in marginals]
        model = mbi.estimation.MirrorDescent().estimate(domain, seen, known_total=ROWS, iters=STEPS)
    else:
        tables = {
            m: mbi.Factor(domain.project(m), arrays[key(m)].reshape(domain.project(m).shape))
            for m in marginals
        }
        potentials = mbi.CliqueVector(domain, marginals, tables)
        oracle = mbi.marginal_oracles.message_passing_shafer_shenoy
        marginals = oracle(potentials, float(ROWS))
        model = mbi.MarkovRandomField(potentials=potentials, marginals=marginals, total=ROWS)
    wanted = [tuple(m) for m in facts["wanted"]]
    np.savez(folder / "found.npz", **{key(m): np.asarray(model.project(m).datavector()) for m in wanted})


if __name__ == "__main__":
    peer(Path(sys.argv[1]))
    sys.exit()


from benchmarks.data import ADULT_SIZES, made_up  # noqa: E402  (the script's process needs neither)
from openprior.counting.local import count_table  # noqa: E402
from openprior.models.graphical.estimation import Estimator, alike  # noqa: E402
from openprior.models.graphical.junction import JunctionTree, Structure  # noqa: E402
from openprior.models.graphical.model import GraphicalModel  # noqa: E402
from openprior.models.graphical.propagation import Propagation  # noqa: E402
from openprior.privacy.measurement import Measurement  # noqa: E402


def objective(answers: dict[tuple[str, ...], np.ndarray], seen: list[Measurement]) -> float:
    return sum(0.5 * float(((answers[o.marginal] - o.values) ** 2).sum()) for o in seen)


@pytest.mark.slow
@pytest.mark.parametrize(("sigma", "seed"), [(5.0, 1), (40.0, 2)])
def test_fits_are_no_worse_than_a_thousand_steps_of_mirror_descent(
    sigma: float, seed: int, tmp_path: Path
) -> None:
    """At the default options; and where no clique looks, both models say the same."""
    table = made_up(ADULT_SIZES, ROWS, seed)
    rng = np.random.default_rng(seed)
    seen = [
        Measurement.of(m, values + rng.normal(0, sigma, len(values)), 0.0)
        for m, values in count_table(table, MEASURED).items()
    ]
    assert Structure(table.domain, MEASURED).megabytes < 0.5
    theirs = run_peer(
        tmp_path,
        {
            "task": "estimate",
            "domain": table.domain.sizes(),
            "marginals": MEASURED,
            "wanted": MEASURED + ACROSS,
        },
        {key(o.marginal): o.values for o in seen},
    )
    fitter = Estimator(table.domain, float(ROWS), weigh=alike)
    model = fitter.fit(seen)
    assert all(model.tree.host(m) is None for m in ACROSS)
    ours = model.answers([*MEASURED, *ACROSS])
    assert fitter.last is not None
    assert fitter.last.converged
    assert fitter.last.objective == pytest.approx(objective(ours, seen), rel=1e-9)
    they = objective({m: theirs[key(m)] for m in MEASURED}, seen)
    assert objective(ours, seen) <= they * (1 + 1e-3)
    for m in ACROSS:
        assert theirs[key(m)].sum() == pytest.approx(ROWS, rel=1e-6)
        assert np.abs(ours[m] - theirs[key(m)]).sum() < 0.02 * ROWS


def test_the_same_potentials_have_the_same_marginals(tmp_path: Path) -> None:
    """Message passing and elimination, with nothing estimated."""
    domain = made_up(ADULT_SIZES, 10, 0).domain
    passes = Propagation(JunctionTree(domain, Structure(domain, MEASURED).cliques), MEASURED)
    potentials = np.random.default_rng(3).normal(0, 1.5, passes.length)
    parts = {m: potentials[passes.starts[m] : passes.starts[m] + domain.size(m)] for m in MEASURED}
    theirs = run_peer(
        tmp_path,
        {
            "task": "marginals",
            "domain": domain.sizes(),
            "marginals": MEASURED,
            "wanted": MEASURED + ACROSS[1:3],
        },
        {key(m): values for m, values in parts.items()},
    )
    found, _ = passes.marginals(potentials, float(ROWS))
    for m in MEASURED:
        part = found[passes.starts[m] : passes.starts[m] + domain.size(m)]
        np.testing.assert_allclose(part, theirs[key(m)], rtol=1e-9, atol=1e-9)
    answers = GraphicalModel(passes.tree, passes.clique_tables(), float(ROWS)).answers(ACROSS[1:3])
    for m in answers:
        np.testing.assert_allclose(answers[m], theirs[key(m)], rtol=1e-9, atol=1e-9)
