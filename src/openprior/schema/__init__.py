"""What a table is, from public knowledge alone: nothing here has seen a private row.

base.py          the schema: columns in order, who a person is, how columns nest
columns.py       what a column is, and the kinds that list their values
binned.py        what a column in bins is: edges, bounds, the grid of its values, labels
bins.py          the kinds that are cut into bins: integer, real, datetime
fates.py         what becomes of a value on its way into a column
precision.py     multiples of a step: the precision of values
levels.py        coarser versions of a column: the levels of a hierarchy
layout.py        the columns' domain and the levels above them, which anyone may hold
domain.py        named attributes with finite sizes: what all later rooms speak of
reading_rules.py how text is written in the files: encoding, separators, numbers, dates, gaps
document.py      a schema as a TOML document, both ways
toml.py          a small TOML writer
draft.py         a first schema, guessed from a public table; drafting/ has its parts
edges.py         bin edges from public quantiles
identifiers.py   columns that tell who a row is about
summary.py       a column in words, and its labels for a reader
"""
