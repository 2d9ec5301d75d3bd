"""What a cluster of several hosts needs besides its parts."""
