"""Studies from Python: what the commands do, with results as data frames and figures."""
