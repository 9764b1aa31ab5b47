"""The only counter: every count of every row, here or on a cluster, is made by this kernel.

cells.py    cells by number: the flat layout that counts, scores, answers and errors share
passes.py   which tables to count, so that few passes give all marginals
tally.py    the compiled loops
local.py    counting on this machine, on every core
engine.py   the seam: this machine, or where the source's rows are
whole_rows.py   distinct rows and how often each occurs, for what no marginal can tell
cores.py    the cores that this process may use
one_thread.py   what is computed on one thread, whatever BLAS and OpenMP would start
"""
