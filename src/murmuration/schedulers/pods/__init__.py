"""Pods of a Kubernetes cluster: which go where, decided by the same policies as everything else."""
