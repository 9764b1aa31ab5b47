"""The only counter: cells by number, which tables to count, one compiled kernel, and who drives it."""
