"""Who decides: for each architecture, which rows a scheduler may read, how stale they are, how its writes are accepted."""
