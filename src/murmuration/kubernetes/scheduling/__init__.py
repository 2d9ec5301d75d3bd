"""A cluster as its scheduler keeps it: what is free, who may go where, and how pods get there."""
