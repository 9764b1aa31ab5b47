"""Rows: where they come from, how each value becomes a code by itself, whose they are, and the way back.

source.py       anything that streams Arrow batches, behind one protocol
files.py        which format a path has: a file, or a folder of files
csv_file.py     CSV files, in any encoding
parquet_file.py Parquet files
json_lines.py   JSON lines, one object per line
partitions.py   folders of files as one table; keys in their names are columns
foreign_file.py files of other programs, known by their endings
naming.py       what the name of a file says
packed.py       files as streams of bytes, unpacked on the way
spelling.py     texts as the schema says they are written, as usual
spelling_hints.py what to say where a public column seems to be written in another way
fingerprint.py  a few numbers that two tables share only if they have the same rows
scramble.py     words that look random
same.py         refuses a public table that is the private one
unwrap.py       Arrow arrays without their wrapping
convert.py      Arrow arrays as plain numbers; the one place where text is parsed
lookup.py       from the values of one column to its codes
objects.py      Python objects as Arrow, each by its own type
identity.py     whose row it is, however the id is stored
limit.py        at most Δ rows per person, the same ones in every order
encode.py       from a source to tables of codes: schema, lookup and limit together
table.py        a table of codes
decode.py       from codes back to labels, types and values inside bins
simulate.py     the embedded demo surveys
population.py   the invented people who answer them
"""
