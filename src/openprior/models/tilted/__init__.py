"""Tilt's model: a prior, tilted by noisy marginals, and carried by weighted particles.

tilting.py         the tilted prior while it is learnt
particles.py       a cloud of weighted particles
moves.py           compiled moves that leave the tilted prior as it is
blocks.py          what was measured, marginal by marginal, as the compiled loops read it
raking.py          weights that meet noisy marginals, and how far each is trusted
remainder.py       what is left of a marginal's error once it is measured
independent.py     independent columns, which a public table has to be better than
replicates.py      how sure its answers are
tilted_model.py    the finished distribution
"""
