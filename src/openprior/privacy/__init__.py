"""Everything that stands between the private counts and the world: the neighbouring relation and what it does
to sensitivities, the conversion of (ε, δ) to ρ and of ρ to noise, the only source of noise, scores as data,
the ledger that is charged before anything is read, the journal that lets a broken run resume without paying
twice, and the curator that holds all of them together."""
