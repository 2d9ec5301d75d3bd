"""Tables, plots and single-file HTML pages drawn from plain values; nothing here knows about
simulation."""
