"""Distributions that answer marginals and give rows; they see public rows and noisy measurements only.

base.py              what a model is, how it is saved, and how a saved one is found again
arrays_file.py       a model's arrays as one file
support.py           weights on given rows, and how multiplicative updates learn them
product.py           independent models over disjoint attributes
grouped.py           a distribution for each of many disjoint groups
rounding.py          whole numbers of rows from weights
parts.py             rows in parts, for more of them than fit into memory
rounded_rows.py      any number of whole rows of a weighted table, at the cost of a small one
generator.py         a mixture of products, which is what is left of a trained generator
neural.py            the generator while it is trained, with JAX
rows.py              rows whose marginals are as close as possible to given answers
row_search.py        the search for them: rows that give their places to particles like them
exchanges.py         the compiled loops of that search
shrink.py            weights on fixed rows, bent to noisy marginals as far as their noise deserves
relative_entropy.py  Iterative Distribution Estimation: a prior bent to noisy answers, group by group
entropy_update.py    one update of it, compiled
components.py        marginals as sums of independent parts, each the mean of what was measured of it
linear.py            sums of measurements and nothing else, with exact standard errors
linear_rows.py       rows for such answers
two_stage.py         what it approaches, solved exactly for small problems

graphical/ is Private-PGM's model, prior/ is what a public table teaches, and tilted/ is Tilt's model, which starts
there.
"""
