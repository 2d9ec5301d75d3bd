"""Containers as mobile agents: pheromones that drive them off a node, and the search for one that takes them (Rusek, Dwornicki 2021)."""
