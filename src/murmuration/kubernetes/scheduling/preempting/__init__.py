"""Making room for pods that matter more: whom to ask to go."""
