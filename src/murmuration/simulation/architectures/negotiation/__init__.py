"""Negotiation in bulk: rounds of node agents over whole columns."""
