"""Negotiation (MASB): node agents that keep their own nodes stable, and brokers that know roughly
where room is."""
