"""What several methods share: rounds, schedules of the budget, the guard, strategies, growing models and their time."""
