"""The hierarchical release: groups in levels, each bent from the level above to its own measurements."""
