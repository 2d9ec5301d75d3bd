"""Several schedulers over one cluster: a commit point for each node, and who takes which pods."""
