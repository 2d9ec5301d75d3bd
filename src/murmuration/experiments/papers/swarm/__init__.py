"""Swarm scheduling (Rusek and Dwornicki): containers that follow pheromone."""
