"""What the web page asks of a master: sessions, the grid of nodes, totals, queue and history."""
