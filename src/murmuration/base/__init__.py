"""The foundations: errors, files, compilation, random draws, exact amounts, the
version."""
