"""Planning: a snapshot of a cluster, a better allocation of its tasks, and the ordered moves to get
there."""
