"""The pheromone swarm in bulk."""
