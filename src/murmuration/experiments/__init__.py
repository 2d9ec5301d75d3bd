"""Whole studies: comparisons, sweeps, and the tables and figures of the papers."""
