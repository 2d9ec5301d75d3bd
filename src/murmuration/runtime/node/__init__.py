"""The node agent process: executor, journal, watchdog and isolation."""
