"""The only counter: one compiled kernel (kernel.py), what to count (plan.py), and who drives it (local.py)."""
