"""What should be right: workloads of marginals, and 0/1 queries over one marginal."""
