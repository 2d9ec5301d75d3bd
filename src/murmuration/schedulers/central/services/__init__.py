"""Services that run: whether their tasks are well, and how they are changed."""
