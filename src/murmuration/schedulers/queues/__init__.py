"""In which order waiting jobs start, and which may start before their turn: queue disciplines of
batch systems."""
