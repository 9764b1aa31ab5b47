"""What a table is, from public knowledge alone: columns and their values, bins, levels, and the domain they span."""
