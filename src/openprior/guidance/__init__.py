"""What to know before the budget is spent: what it buys, which public table fits, which method to take.

plan.py            what a budget can buy, from sizes alone
shares.py          the noise that shares of a budget buy
bounds.py          error bounds with explicit constants
costs.py           seconds and megabytes of each method, roughly
speed.py           how fast this machine is
plan_words.py      a plan in words and tables
schema_check.py    what a schema does to a table: clipped, other, missing
outside.py         what falls outside the schema, asked within a screening
screen.py          which public table is closest to the private one, for a small ε
mixture_error.py   how well the public rows could answer if reweighted at best
divergences.py     how far a table is from a public one in D₂ and D∞; NOT PRIVATE
choose_public.py   which public table, decided on a validation table
validation.py      trials of public tables, and which did best
candidates.py      public tables to choose from, in whatever way they are given
tune.py            which method with which options, decided on public data
grid.py            the settings that are compared
experiment.py      one run of a setting on a public stand-in
workers.py         processes that run many experiments side by side
verdict.py         the best setting, and by how much
"""
