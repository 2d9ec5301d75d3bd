"""Snapshots of clusters: Kubernetes objects, our TOML and Alibaba's files become one `Problem`."""
