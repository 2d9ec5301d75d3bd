"""How runs are carried out: what is compiled before them, and how long they will take."""
