"""DEPAS: auto-scaling without a centre."""
