"""Tilt's model: a prior from public rows, and its tilt by noisy marginals, carried by particles."""
