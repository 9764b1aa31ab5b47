"""What several methods share: rounds, schedules of the budget, the guard, strategies, growing models and their time;
and parts of one that read better alone: the data player of DualQuery, its search and its program."""
