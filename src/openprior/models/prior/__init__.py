"""What a public table teaches: a prior distribution in which every row has some probability, learnt and kept.

prior.py           the prior: classes, anchors and networks in the shares that predict held-out public rows best
held_out.py        how well each kind predicts rows that were left out
classes.py         latent classes, which anchors are smoothed by
network.py         Bayesian networks of several orders
parents.py         the parents of one attribute, tried once for all orders
conditionals.py    distributions given parents, each shrunk towards fewer of them
contexts.py        compiled loops over rows sorted by context, which both of these use
draws.py           compiled draws from the prior
graphical_prior.py a graphical model as a prior
prior_learning.py  the prior as a pure function of what is public
prior_cache.py     priors that were learnt before, kept on this machine
cache_folder.py    where they are kept
prior_file.py      a prior as a file
prior_checks.py    whether arrays are a prior, before compiled loops read them
"""
