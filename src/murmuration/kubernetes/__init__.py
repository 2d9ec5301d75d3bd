"""A Kubernetes cluster: its objects, the rules of its scheduler, and what may be disrupted."""
