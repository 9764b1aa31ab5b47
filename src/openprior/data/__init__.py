"""What a table is: its schema, its domain, where it comes from and how it becomes integer codes."""
