"""What a master keeps on disk."""
