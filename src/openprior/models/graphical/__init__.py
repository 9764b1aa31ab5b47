"""Private-PGM: junction trees, compiled messages, estimation from noisy marginals, exact answers, rows."""
