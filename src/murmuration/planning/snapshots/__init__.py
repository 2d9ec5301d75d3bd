"""Snapshots of clusters: Kubernetes objects, our own TOML and Alibaba's files become the one
`Problem`."""
