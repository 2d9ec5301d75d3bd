"""Clients of a live cluster: the command's requests, and schedulers from outside."""
