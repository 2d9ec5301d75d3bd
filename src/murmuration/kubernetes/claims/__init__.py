"""What pods claim beside room on a node: volumes and devices."""
