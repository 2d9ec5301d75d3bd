"""The whole control plane in virtual time: masters on one store, node agents, frameworks."""
