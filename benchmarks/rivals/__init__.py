"""`python -m benchmarks.rivals`: other tools for private synthetic tables beside ours, on the same tables and budgets.

tools.py          the tools, what of theirs runs, and what their promise means
environments.py   one environment per tool, made with venv and pip
tables.py         the private tables as codes, and the errors of rows against them
one_run.py        one method on one table in a process of its own, with a time limit
kept.py           every run on a line of a file, so that the command can be stopped and started again
results.py        the lines of benchmarks/results/rivals.md
picture.py        benchmarks/results/rivals.svg
adapters/         what runs inside a tool's environment: rows and sizes in, synthetic rows out
"""
