"""Every listed mechanism keeps its promise: outcomes recorded on one table and replayed on its neighbours."""

import math
from typing import Any

import numpy as np
import pytest

import openprior as op
from openprior.errors import OptionError
from openprior.privacy.auditing.movement import _divergence, _exponential_log, _flip_log, own_faults
from openprior.privacy.auditing.neighbours import made_up, neighbours, small_schema
from openprior.privacy.auditing.path import Setting, walk
from openprior.privacy.auditing.witness import Draw, Look
from openprior.privacy.events import Gaussian
from openprior.privacy.statistics import Counts
from openprior.privacy.unit import Relation, Unit
from openprior.questions.workload import all_marginals
from openprior.tables.encode import encode_table
from tests.conftest import arrow, random_table

SMALL: dict[str, Any] = {"batch": 8, "rounds": 2, "steps": 4}
QUICK: dict[str, dict[str, Any]] = {
    "tilt": {"particles": 1000, "rounds": 3},
    "dual-query": {"samples": 10, "solver": "search"},
    "gem": SMALL,
    "gem-pub": SMALL,
}
MECHANISMS = {name: cls(**QUICK.get(name, {})) for name, cls in op.mechanisms().items()}
MECHANISMS["hierarchy with a mechanism inside"] = op.Hierarchy(inner=op.Mst())
MECHANISMS["mst as counted"] = op.Mst(compress=False)
MECHANISMS["aim with merged values"] = op.Aim(compress=True)
MECHANISMS["jam-pgm with merged values"] = op.JamPgm(compress=True)
MECHANISMS["gem by queries"] = op.Gem(variant="queries", **SMALL)
SLOW = ("hdmm with queries", "ide by hdmm")
MECHANISMS["hdmm with queries"] = op.Hdmm(
    queries=("prefixes(area)", "ranges(c, 0-1, 1-2)")  # from weighted sums
)
MECHANISMS["ide by hdmm"] = op.Ide(answers="hdmm", queries=("prefixes(area)",), order="drawn", updates=2)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in MECHANISMS]
)
def test_no_promise_is_broken(name: str) -> None:
    # One run per setting: the settings begin with different kinds of runs. Few for tilt and gem, which are slow.
    audited = op.audit(MECHANISMS[name], runs=1, neighbours=1 if name.startswith(("tilt", "gem")) else 2)
    assert audited.ok, str(audited)
    needs_n = getattr(MECHANISMS[name], "needs_public_n", False)
    assert {r.relation for r in audited.rows} == ({Relation.REPLACE_ONE} if needs_n else set(Relation))
    assert {r.rows_per_person for r in audited.rows} == {1, 2, 3}
    assert {r.delta for r in audited.rows} == (
        {"0", ">0"} if MECHANISMS[name].pure_options and "inside" not in name else {">0"}
    )
    # The neighbours are the worst there are: what may be reached is reached.
    if name == "importance":  # its bound is for the worst β there is, and that of these tables is another
        assert 0.1 < max(r.movement for r in audited.rows) < 1
    elif name != "public":
        assert max(r.movement for r in audited.rows) == pytest.approx(1.0)
        assert max(r.cost for r in audited.rows) == pytest.approx(1.0)


def test_a_public_start_breaks_no_promise() -> None:
    """Rounds against the public table come first, and their constants stand in every score that follows."""
    mechanism = op.DualQuery(samples=10, solver="search", start="public", public_rounds=3)
    audited = op.audit(mechanism, neighbours=1)  # every other run has no public table, and says so alike
    assert audited.ok, str(audited)
    assert max(r.movement for r in audited.rows) == pytest.approx(1.0)


def test_a_table_of_ones_own() -> None:
    sizes = {"a": 3, "b": 4}
    table = arrow(random_table(sizes, 40, 1), who=np.repeat(np.arange(20), 2))
    schema = op.Schema.from_toml(
        'person_id = "who"\nmax_rows_per_person = 2\n' + op.Schema.from_sizes(sizes).to_toml()
    )
    audited = op.audit(op.Mst(), table=table, schema=schema, relation="add-remove", neighbours=2)
    assert audited.ok
    assert [(r.relation, r.rows_per_person) for r in audited.rows] == [("add-remove", 2)]
    assert "NOT PRIVATE" in audited.caveat


def test_what_is_no_mechanism_is_refused() -> None:
    for wrong in (op.Mst, None):
        with pytest.raises(OptionError, match="give an instance"):
            op.audit(wrong)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="relation 'both' is unknown"):
        op.audit(op.Mst(), relation="both")
    with pytest.raises(OptionError, match="at least 1"):
        op.audit(op.Mst(), runs=0)
    with pytest.raises(OptionError, match="without a table"):
        op.audit(op.Mst(), schema=op.Schema.from_sizes({"a": 2}))


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("relation", list(Relation))
def test_neighbours_differ_in_one_person(relation: Relation, rows: int) -> None:
    schema, rng = small_schema(rows, persons=True), np.random.default_rng(1)
    table = made_up(schema, rng, others=6, spread=True)

    def by_person(t: Any) -> dict[int, list[tuple[Any, ...]]]:
        found: dict[int, list[tuple[Any, ...]]] = {}
        for row in t.to_pylist():
            found.setdefault(row["person"], []).append(tuple(row[a] for a in schema.names))
        return found

    before = by_person(table)
    assert max(map(len, before.values())) == rows + 2  # more than the limit
    for other in neighbours(table, schema, relation, rng, 6):
        after = by_person(other)
        changed = [w for w in before.keys() | after.keys() if before.get(w) != after.get(w)]
        assert len(changed) == 1
        if relation is Relation.REPLACE_ONE:
            assert len(before[changed[0]]) == len(after[changed[0]])
        else:
            assert (changed[0] in before) != (changed[0] in after)


def test_far_outcomes_take_other_ways() -> None:
    """Outcomes are also drawn far off the truth, so that branches on outcomes are seen."""
    schema = small_schema(1, persons=False)
    table = made_up(schema, np.random.default_rng(1), others=12, spread=True)
    ways = set()
    for far in (False, True):
        for seed in range(3):
            setting = Setting(
                mechanism=op.Aim(), schema=schema, unit=Unit(), workload=all_marginals(2).on(schema.domain),
                public=encode_table(table, schema), epsilon=6.0, delta=1e-6, seed=seed, far=far,
            )  # fmt: skip
            path = walk(setting, table)
            ways.add(tuple(str(look.event.to_dict()) for look in path.looks))
            errors = [
                np.abs(d.outcome - d.exact).max() / d.scale for d in path.script if d.kind == "gaussian"
            ]
            assert (max(errors) > 10) == far
    assert len(ways) > 3


def test_noise_below_what_the_event_says_is_seen() -> None:
    schema = small_schema(1, persons=False)
    table = made_up(schema, np.random.default_rng(1), others=12, spread=True)
    setting = Setting(
        mechanism=op.Mst(), schema=schema, unit=Unit(), workload=all_marginals(2).on(schema.domain),
        public=None, epsilon=1.0, delta=1e-6, seed=1, far=False,
    )  # fmt: skip
    path = walk(setting, table)
    assert list(own_faults(path.looks, path.witness)) == []
    event = Gaussian.at(Counts(("b",)), 0.1, Unit())
    one = Draw("gaussian", np.zeros(2, np.int64), event.sigma * 0.7, 0, np.zeros(2, np.int64))
    path.looks[0] = Look(event, path.looks[0].charge, [one])
    path.looks[1].draws.clear()
    found = list(own_faults(path.looks, path.witness))
    assert "noise: event 1 (gaussian) drew 0.7 times the noise that it says" in found
    assert "noise: event 2 (gaussian) drew 0 times, not 1" in found


def test_costs_of_selections_by_hand() -> None:
    """Two candidates, of which one moves by the sensitivity: everything can be written down."""
    epsilon = 1.3
    before, after = np.array([0, 5]), np.array([5, 5])
    p = 1 / (1 + math.exp(epsilon / 2))
    assert np.exp(_exponential_log(before, 5, epsilon)) == pytest.approx([p, 1 - p])
    assert np.exp(_exponential_log(after, 5, epsilon)) == pytest.approx([0.5, 0.5])
    coin = math.exp(-epsilon / 2)  # heads of the worse one, which then has to come first
    assert np.exp(_flip_log(before, 5, epsilon)) == pytest.approx([coin / 2, 1 - coin / 2])
    assert np.exp(_flip_log(np.array([3, 1, 2, 3]), 2, 0.8)).sum() == pytest.approx(1.0)
    # Exponential mechanism: range ε if one moves up and the other down; ρ is then at most ε²/8.
    log_p, log_q = (_exponential_log(np.array(u), 5, epsilon) for u in ([0, 5], [5, 0]))
    assert np.ptp(log_p - log_q) == pytest.approx(epsilon, rel=1e-6)
    small_p, small_q = (_exponential_log(np.array(u), 5, 0.05) for u in ([2, 3], [3, 2]))
    for log_one, log_other, eps in ((log_p, log_q, epsilon), (small_p, small_q, 0.05)):
        assert _divergence(log_one, log_one - log_other) <= eps**2 / 8
    gap = small_p - small_q  # a fifth of the range
    assert _divergence(small_p, gap) == pytest.approx((0.05 / 5) ** 2 / 8, rel=0.01)
