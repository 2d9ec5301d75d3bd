"""Containers as agents: pheromones drive them off a node, and a search finds one that takes them
(Rusek, Dwornicki)."""
