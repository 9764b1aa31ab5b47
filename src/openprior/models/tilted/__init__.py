"""Tilt's model: a prior learnt from public rows, tilted by noisy marginals, and carried by weighted particles.

prior.py         the prior: classes, anchors and networks in the shares that predict held-out public rows best
classes.py       latent classes, which anchors are smoothed by
network.py       Bayesian networks with backed-off conditionals
draws.py         compiled draws from the prior
moves.py         compiled moves that leave the tilted prior as it is
particles.py     a cloud of weighted particles
blocks.py        what was measured, marginal by marginal, as the compiled loops read it
raking.py        weights that meet noisy marginals, and how far each is trusted
remainder.py     what is left of a marginal's error once it is measured
independent.py   independent columns, which a public table has to be better than
tilting.py       the tilted prior while it is learnt
replicates.py    how sure its answers are
tilted_model.py  the finished distribution
"""
