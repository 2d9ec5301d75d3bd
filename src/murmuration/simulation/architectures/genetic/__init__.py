"""Batches placed by short searches."""
