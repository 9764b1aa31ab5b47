"""Generated bad calls: each ends in one clear line or in a right result.

A case is a number. The number decides everything: which kind of generator, what it breaks and how,
and which function or
command is called with it. So a failure is repeated with ``python -m tests.fuzz --case 1234``,
and a range is walked with
``--from 0 --to 1000``. Private tables carry values that are nowhere else (`stock.SECRETS`), and these are looked for
in everything that a case says and writes.

calls.py      what a case is: a call, what it may write, and what a right result is
stock.py      the good tables, schema, release, ledger and broken run that cases start from
odd.py        values that are not what anybody asked for
judge.py      what every ending must be
runner.py     a number to its case, and the case to its verdict
files.py      CSV and Parquet files, folders and paths
schemas.py    schema documents and drafts
options.py    arguments of the functions
commands.py   words on the command line
folders.py    release folders and certificates
ledgers.py    ledger files and what is asked of them
journals.py   journals of broken runs
frames.py     tables in memory
"""
