"""Chapters 3, 4 and 6 of Konwinski's dissertation: monolithic, partitioned and shared-state
scheduling."""
