"""Everything that stands between the private counts and the world.

unit.py               who is protected: one person with Δ rows, and what a neighbour is
statistics.py         what may be measured: counts, each with its sensitivity and the proof
error_statistics.py   errors that may be measured: a score, the best mixture error
error_strata.py       how wrong a finished model is, stratum by stratum
merged_counts.py      counts of a marginal whose rare values are merged
merging.py            public maps from values to groups, and the sums by them
weighted_sums.py      sums of counts with weights, from which the answers to queries follow
residual_statistics.py   what a marginal says that no smaller one does
together.py           many of them as one vector: one event for thousands of marginals
scores.py             what selections compare: scores as data, their bound derived
flat_scores.py        thousands of them as a few vectors, in one pass
score_grid.py         the grid on which they are exact
signed_scores.py      those of single cells and of their negations
events.py             what was done: noise and selections as types, each with its cost
strict.py             JSON read with suspicion
exact.py              exact sums of doubles, and rounding in the safe direction
calibrate.py          between (ε, δ), ρ and noise scales: pure functions
pure_cost.py          what an ε-DP step costs in ρ
noise.py              the only source of noise
selection.py          exact selection on integers
regression.py         a regression that may be measured: private rows against public ones
regression_steps.py   one step of it, on whole numbers
best_mixture.py       how well any weights on public rows could do, with certified bounds
vault.py              where the private counts are
curator.py            the only way to them: measure, select, partition
measurement.py        what a measurement gives: the one type from here to the file
account.py            one run's account: charge, act, journal, in that order
ledger.py             who may still spend how much on which dataset
ledger_status.py      what it says of a dataset, in ρ and in ε
ledger_checks.py      what it refuses before it writes anything
ledger_rows.py        its rows, read with suspicion
ledger_refusals.py    how often a table was refused for what is in it
refusal.py            failures that tell something of the table, counted before they are told
ledger_seals.py       keys and digests of outcomes, and who may go on with a run
ledger_file.py        the SQLite file behind it
ledger_tables.py      the tables in that file, and how an older one gets the newer
journal.py            every outcome of a run, on disk before anything is built on it
journal_values.py     how outcomes are written there
sealed.py             outcomes under seal: one draw for a charge, with the proof
run.py                a reserved budget, and what becomes of it when a run ends or breaks
cautions.py           what is legal and probably not meant, in words
session.py            the one way in: from a source to a curator
fake.py               a curator without noise, for tests: NOT PRIVATE
auditing/             does a mechanism keep its promise? Its outcomes, replayed on neighbours
"""
