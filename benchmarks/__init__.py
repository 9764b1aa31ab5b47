"""Speed and errors, with their last results. Times are those of a first release: nothing is taken from the cache of
priors, unless OPENPRIOR_CACHE says otherwise."""

import os

os.environ.setdefault("OPENPRIOR_CACHE", "off")
