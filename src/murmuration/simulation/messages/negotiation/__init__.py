"""Negotiation on the virtual driver: the cluster, its hosts, checkers, and random faults."""
