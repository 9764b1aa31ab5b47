"""Tilt's model: a prior learnt from public rows, tilted by noisy marginals, and carried by weighted particles.

prior.py           the prior: classes, anchors and networks in the shares that predict held-out public rows best
held_out.py        how well each kind predicts rows that were left out
classes.py         latent classes, which anchors are smoothed by
network.py         Bayesian networks of several orders
parents.py         the parents of one attribute, tried once for all orders
conditionals.py    distributions given parents, each shrunk towards fewer of them
contexts.py        compiled loops over rows sorted by context, which both of these use
prior_learning.py  the prior as a pure function of what is public
prior_cache.py     priors that were learnt before, kept on this machine
cache_folder.py    where they are kept
prior_file.py      a prior as a file
prior_checks.py    whether arrays are a prior, before compiled loops read them
draws.py           compiled draws from the prior
moves.py           compiled moves that leave the tilted prior as it is
particles.py       a cloud of weighted particles
blocks.py          what was measured, marginal by marginal, as the compiled loops read it
raking.py          weights that meet noisy marginals, and how far each is trusted
remainder.py       what is left of a marginal's error once it is measured
independent.py     independent columns, which a public table has to be better than
tilting.py         the tilted prior while it is learnt
replicates.py      how sure its answers are
tilted_model.py    the finished distribution
"""
