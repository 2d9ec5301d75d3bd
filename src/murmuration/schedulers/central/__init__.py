"""The agents of a cluster with one master: the master with its job manager and leases, and the node
agent. `runtime/` drives them in real time, `simulation/messages/central.py` in virtual time."""
