"""Readers of published traces, one file per source: each gives a Trace and says what it assumed."""
