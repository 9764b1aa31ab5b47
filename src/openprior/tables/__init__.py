"""Rows: where tables come from, how their values become codes one by one, whose rows they are, and the way back."""
