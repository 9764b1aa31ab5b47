"""What to know before the budget is spent: error bounds, fit of the public table, tuning on public data."""
