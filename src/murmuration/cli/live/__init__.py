"""The commands of a live cluster."""
