"""Distributions that answer marginals and give rows; they see public data and noisy measurements only."""
