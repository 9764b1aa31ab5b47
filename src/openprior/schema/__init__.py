"""What a table is, from public knowledge alone: nothing here has seen a private row.

base.py          the schema: columns in order, who a person is, how columns nest
columns.py       what a column is, and the kinds that list their values
bins.py          the kinds that are cut into bins: integer, real, datetime
levels.py        coarser versions of a column: the levels of a hierarchy
layout.py        the columns' domain and the levels above them, which anyone may hold
domain.py        named attributes with finite sizes: what all later rooms speak of
document.py      a schema as a TOML document, both ways
toml.py          a small TOML writer
draft.py         a first schema, guessed from a public table
edges.py         bin edges from public quantiles
identifiers.py   columns that tell who a row is about
summary.py       a column in words, and its labels for a reader
"""
