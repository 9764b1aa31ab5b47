"""The audit: does a mechanism keep the promise that its events make? Checked on tables, not on paper.

neighbours.py   made-up tables, the persons in them, and what they turn into
witness.py      a real curator whose every look, draw and charge is written down
path.py         one run of a mechanism, and the same run again with the recorded outcomes
movement.py     how far each look moved between two neighbours, and what that costs
samplers.py     whether the noise is as large as it was asked to be
findings.py     what was found, in words, as a table, as JSON
audit.py        all of it for one mechanism: settings, runs, verdicts
"""
