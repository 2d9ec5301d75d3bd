"""Architectures: one room each, with a value that says how it differs from the others; `table.py`
lists them."""
