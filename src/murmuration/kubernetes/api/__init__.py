"""The API of a Kubernetes cluster: who we are, how we ask, and how we follow what changes."""
