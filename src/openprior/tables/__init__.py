"""Rows: where they come from, how each value becomes a code by itself, whose they are, and the way back.

source.py       anything that streams Arrow batches, behind one protocol
files.py        which format a path has: a file, or a folder of files
csv_file.py     CSV files, in any encoding
parquet_file.py Parquet files
json_lines.py   JSON lines, one object per line
partitions.py   folders of files as one table; keys in their names are columns
foreign_file.py files that are not read here, or are not what their names say
naming.py       what the name of a file says
packed.py       files as streams of bytes, unpacked on the way
spelling.py     texts as the schema says they are written, as usual
office.py       files of office and statistics programs, by how their names end
workbook.py     sheets of Excel and OpenDocument workbooks as sources
statistics_file.py  files of SPSS, SAS and Stata as sources
stored_dates.py     dates as these programs store them: numbers with a format
address.py      addresses of tables in databases, which may hold a password
query.py        queries: names in SQL, and what ties a row to a person
database.py     tables and queries of databases as sources
duckdb_file.py  DuckDB files
sqlite_file.py  SQLite files
postgres.py     PostgreSQL servers
fingerprint.py  a few numbers that two tables share only if they have the same rows
scramble.py     words that look random
coded_rows.py   rows as codes, in the shape of a source
same.py         refuses a public table that is the private one
unwrap.py       Arrow arrays without their wrapping
convert.py      Arrow arrays as plain numbers; the one place where text is parsed
number_keys.py  numbers that values are compared with, without rounding
lookup.py       from the values of one column to its codes
fate_codes.py   what becomes of the values of one column: clipped, not listed, unreadable, missing
conditions.py   which codes a user's conditions allow
objects.py      Python objects as Arrow, each by its own type
python_rows.py  dicts of columns, lists of dicts, structured arrays and Series as sources
identity.py     whose row it is, however the id is stored
limit.py        at most Δ rows per person, the same ones in every order
encode.py       from a source to tables of codes: schema, lookup and limit together
table.py        a table of codes
decode.py       from codes back to labels and types
inside.py       values inside bins: from which public values, or from all of the bin
simulate.py     the embedded demo surveys
population.py   the invented people who answer them
"""
