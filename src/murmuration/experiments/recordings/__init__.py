"""Recordings of Kubernetes clusters, scheduled again in virtual time."""
