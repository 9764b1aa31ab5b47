"""Rows: where they come from, how each value becomes a code by itself, whose they are, and the way back.

source.py       anything that streams Arrow batches, behind one protocol
files.py        CSV and Parquet files, and folders of them, as sources
fingerprint.py  a few numbers that two tables share only if they have the same rows
scramble.py     words that look random
same.py         refuses a public table that is the private one
unwrap.py       Arrow arrays without their wrapping
convert.py      Arrow arrays as plain numbers; the one place where text is parsed
lookup.py       from the values of one column to its codes
conditions.py   which codes a user's conditions allow
objects.py      Python objects as Arrow, each by its own type
identity.py     whose row it is, however the id is stored
limit.py        at most Δ rows per person, the same ones in every order
encode.py       from a source to tables of codes: schema, lookup and limit together
table.py        a table of codes
decode.py       from codes back to labels, types and values inside bins
simulate.py     the embedded demo surveys
population.py   the invented people who answer them
"""
