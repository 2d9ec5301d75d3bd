"""From named nodes and tasks to a problem of the optimiser."""
