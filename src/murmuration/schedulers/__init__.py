"""Who decides: for each architecture, which rows a scheduler may read, how stale they are, and how its writes are accepted."""
