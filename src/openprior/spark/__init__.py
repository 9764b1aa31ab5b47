"""The same kernel on a cluster: the session, reading where the rows are, counting and work by group on executors."""
