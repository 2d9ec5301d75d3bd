"""Results that are there already."""
