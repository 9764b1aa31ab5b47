"""`audit`: run a mechanism, write down its outcomes, replay them on neighbours, and see that it keeps its promise.

For both relations, Δ = 1, 2, 3 rows per person, with and without a public table and, where the mechanism has it, with
δ = 0: a run is recorded, half of the time with outcomes drawn far off the truth, and replayed on neighbours. Then

- the *path* must be the same: events, parameters, words, model. Who looks at the data past the outcomes goes astray;
- no statistic may *move* further than it declares, no level further than its selection was told;
- the *cost* of the path, from actual moves and actual noise, may not pass what was charged, nor charges the budget;
- the *noise* must be asked for at the scale that the event states, inside an event, after its charge.

One direction only is proved by it: a fault is a fault, and no fault on these tables is no proof for all tables. The
proofs stand beside the primitives. It needs only what a mechanism is (`Mechanical`), not which there are, so it is in
this room.
"""

import importlib
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from openprior.errors import OptionError
from openprior.given import shown, whole_number
from openprior.privacy.auditing.findings import Audit, AuditRow
from openprior.privacy.auditing.movement import compare, own_faults
from openprior.privacy.auditing.neighbours import made_up, neighbours, raw, small_schema
from openprior.privacy.auditing.path import Mechanical, Setting, differences, walk
from openprior.privacy.auditing.samplers import noise_ratio
from openprior.privacy.unit import Relation, Unit
from openprior.progress import phase
from openprior.progress_shown import ShowProgress, watched
from openprior.questions.workload import WorkloadLike, WorkloadPlan, all_marginals, need_workload, workload_on
from openprior.schema.base import Schema, need_schema
from openprior.tables.encode import encode_table
from openprior.tables.table import Table

__all__ = ["audit"]

_DELTA = 1e-6
_EPSILONS = (1.0, 6.0)
"""Little budget and much: mechanisms take other ways."""
_PEOPLE = (12, 5)
_MOST = 10_000
"""Runs, and neighbours of each; each takes a fraction of a second."""
_NOT_REPEATABLE = (
    "path: the same outcomes on the same table give something else: it uses a clock, a generator other than `rng`, or "
    "what an earlier run has left behind, so it cannot be audited, nor resumed"
)


@watched
def audit(
    mechanism: Mechanical | str,
    *,
    table: Any = None,
    public: Any = None,
    schema: Schema | str | Path | None = None,
    workload: WorkloadLike | None = None,
    relation: str | None = None,
    runs: int = 2,
    neighbours: int = 3,
    seed: int = 0,
    progress: ShowProgress = None,
) -> Audit:
    """Check that a mechanism keeps its promise, on made-up tables and their neighbours.

    mechanism    an instance, such as `Aim(rounds=5)`, a text such as "aim:rounds=5", or one of your own
    table        rows to audit on instead of made-up ones; the figures are NOT PRIVATE, so take no secret table
    public       a public table beside it
    schema       of that table; drafted from the public table if not given
    workload     what to ask for; all 2-way marginals if not given
    relation     "replace-one" or "add-remove"; if not given both, or the one under which it runs
    runs         recorded runs per setting, each of another kind
    neighbours   replays of each
    seed         of tables, outcomes and public randomness
    progress     as for `release`; a step is a row of the audit
    """
    mechanism = _mechanical(mechanism)
    runs, neighbours = whole_number("runs", runs, 1, _MOST), whole_number("neighbours", neighbours, 1, _MOST)
    seed = whole_number("seed", seed, 0)
    workload = None if workload is None else need_workload(workload)
    schema = None if schema is None else need_schema(schema)
    if table is None and not (public is None and schema is None):
        raise OptionError("a public table or a schema without a table; give the table that they belong to")
    relations = _relations(mechanism, relation)
    own = None if table is None else _own_tables(table, public, schema)
    deltas = [1, 2, 3] if own is None else [own[0].max_rows_per_person]
    cases = [(m, p, r, d) for m, p in _promises(mechanism) for r in relations for d in deltas]
    rows = []
    with phase(f"auditing {mechanism.name}", len(cases)) as work:
        for each, pure, which, delta in cases:
            case = _Case(each, pure, which, delta, workload, runs, neighbours, seed)
            rows.append(case.row(own))
            work.advance()
    caveat = (
        "" if own is None else "The figures are computed from the table given, without noise: NOT PRIVATE."
    )
    return Audit(tuple(rows), noise_ratio(seed), caveat)


def _mechanical(given: Any) -> Mechanical:
    """What the caller wants to be audited, if it can be."""
    if isinstance(given, str):
        # By name: the room that has the list is above this one.
        named: Mechanical = importlib.import_module("openprior.methods.mechanism_text").mechanism_from(given)
        return named
    facts = ("name", "is_pure", "public_table", "pure_options")
    if (
        isinstance(given, type)
        or not callable(getattr(given, "run", None))
        or not all(hasattr(given, fact) for fact in facts)
    ):
        raise OptionError(
            f"mechanism {shown(given)} is not one; give an instance such as openprior.Aim(), or a name such as 'aim'"
        )
    mechanism: Mechanical = given
    return mechanism


def _relations(mechanism: Mechanical, relation: str | None) -> list[Relation]:
    """The relation that is asked for, or all under which the mechanism runs."""
    schema = small_schema(1, persons=False)
    if relation is not None:
        return [Unit.of(schema, relation).relation]
    needs_n = getattr(mechanism, "needs_public_n", False)  # one of a user's own need not say
    return [r for r in Relation if Unit.of(schema, r).n_is_public or not needs_n]


def _promises(mechanism: Mechanical) -> Iterator[tuple[Mechanical, bool]]:
    """The mechanism under zCDP, and with δ = 0 if it can."""
    yield mechanism, False
    if mechanism.is_pure:
        yield mechanism, True
    elif is_dataclass(mechanism) and mechanism.pure_options is not None:
        pure: Any = replace(mechanism, **mechanism.pure_options)
        if pure.is_pure:
            yield pure, True


def _label(mechanism: Mechanical) -> str:
    """Its name, and the options that are not as usual."""
    words = [mechanism.name]
    options: tuple[Any, ...] = fields(mechanism) if is_dataclass(mechanism) else ()
    for option in options:
        value = getattr(mechanism, option.name)
        if option.default is not MISSING and value != option.default:
            words.append(f"{option.name}={getattr(value, 'name', value)}")
    return " ".join(words)


def _own_tables(table: Any, public: Any, schema: Schema | None) -> tuple[Schema, pa.Table, Table | None]:
    if schema is None:
        if public is None:
            raise OptionError("there is no schema, and no public table to draft one from; give one of them")
        schema = Schema.draft(public)
    rows = raw(table, schema)
    if rows.num_rows < 2:
        raise OptionError("the table has fewer than two rows; give more, or none for made-up ones")
    return schema.plain, rows, None if public is None else encode_table(public, schema)


@dataclass(frozen=True, eq=False)
class _Case:
    """One row of the table: a mechanism under one promise, one relation, one Δ."""

    mechanism: Mechanical
    pure: bool
    relation: Relation
    delta: int
    workload: WorkloadPlan | None
    runs: int
    neighbours: int
    seed: int

    def row(self, own: tuple[Schema, pa.Table, Table | None] | None) -> AuditRow:
        """Record, replay, compare."""
        faults: dict[str, None] = {}
        events = walks = 0
        movement = cost = 0.0
        finished = False
        for run in range(self.runs):
            # Other rows of the table begin with other kinds of runs, so that few runs see them all.
            removing = self.relation is Relation.ADD_REMOVE
            kind = run + self.delta - 1 + 3 * removing
            rng = np.random.default_rng([self.seed, self.delta, removing, run])
            schema, table, public = self._tables(kind, rng) if own is None else own
            setting = self._setting(kind, schema, public)
            near = list(neighbours(table, schema, self.relation, rng, self.neighbours))
            if removing and kind % 2:  # recorded without the person, replayed with: the other direction
                table, near = near[0], [table]
            recorded = walk(setting, table)
            walks, events = walks + 1, events + len(recorded.looks)
            finished = finished or not recorded.failure
            faults.update(dict.fromkeys(own_faults(recorded.looks, recorded.witness)))
            for other in near:
                replayed = walk(setting, other, recorded.script)
                moved = compare(recorded.looks, replayed.looks, setting.unit, pure=self.pure)
                movement, cost = max(movement, moved.movement), max(cost, moved.cost)
                found = [*differences(recorded, replayed), *moved.faults]
                if found and any(differences(recorded, walk(setting, table, recorded.script))):
                    found = [_NOT_REPEATABLE]
                found += own_faults(replayed.looks, replayed.witness) if not replayed.diverged else []
                faults.update(dict.fromkeys(found))
                walks += 1
        if not finished:
            faults[f"no run came to its end: {recorded.failure}"] = None
        return AuditRow(
            _label(self.mechanism),
            "0" if self.pure else ">0",
            str(self.relation),
            self.delta,
            walks,
            events,
            movement,
            cost,
            tuple(faults),
        )

    def _tables(self, kind: int, rng: np.random.Generator) -> tuple[Schema, pa.Table, Table]:
        """Made-up ones: with a person id where there are several rows per person, and every other time."""
        schema = small_schema(self.delta, persons=self.delta > 1 or kind % 2 == 1)
        table = made_up(schema, rng, others=_PEOPLE[kind % 2], spread=kind % 4 < 3)
        public = made_up(replace(schema, person_id=None, max_rows_per_person=1), rng, others=30, spread=True)
        return schema, table, encode_table(public, schema)

    def _setting(self, kind: int, schema: Schema, public: Table | None) -> Setting:
        given = public if self.mechanism.public_table == "needed" or kind % 2 == 0 else None
        return Setting(
            mechanism=self.mechanism,
            schema=schema,
            unit=Unit.of(schema, self.relation),
            workload=workload_on(self.workload, schema.domain, default=all_marginals(2)),
            public=given,
            epsilon=_EPSILONS[kind // 2 % 2],
            delta=0.0 if self.pure else _DELTA,
            seed=self.seed + kind,
            far=kind % 4 in (1, 2),
        )
