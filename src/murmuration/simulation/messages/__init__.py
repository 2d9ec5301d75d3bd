"""Agents message by message in virtual time, over a network that fails."""
