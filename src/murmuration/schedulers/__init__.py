"""Who decides: for each architecture, which rows a scheduler reads, how stale they are, how its
writes are accepted."""
