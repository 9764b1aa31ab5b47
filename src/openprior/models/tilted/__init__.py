"""Tilt's model: a prior, tilted by noisy marginals, and carried by weighted particles.

tilting.py         the tilted prior while it is learnt
exact_tilting.py   without a public table: a graphical model while it is learnt, until particles take over
particles.py       a cloud of weighted particles
moves.py           compiled moves that leave the tilted prior as it is
blocks.py          what was measured, marginal by marginal, as the compiled loops read it
raking.py          weights that meet noisy marginals
trust.py           how far the prior is trusted, learnt from what measurements showed of it
telling_apart.py   how far the columns measured first tell the private table from the public one
column_reading.py  what a noisy one-way marginal says about its column
remainder.py       what is left of a marginal's error once it is measured
independent.py     independent columns, which a public table has to be better than
replicates.py      how sure its answers are
tilted_model.py    the finished distribution
"""
