"""Recordings of a cluster: what its API showed, and what a scheduler decided, line by line."""
