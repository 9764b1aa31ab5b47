"""One file per method; each registers itself when it is imported (base.py says what a method is)."""
