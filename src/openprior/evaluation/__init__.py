"""How good a release is, measured against the private table: NOT PRIVATE, and says so; or privately, for an extra ε."""
