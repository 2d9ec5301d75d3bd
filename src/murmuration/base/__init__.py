"""What everything stands on: errors, files, compilation, random draws, exact amounts, the
version."""
