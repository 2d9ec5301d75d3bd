"""What tasks have on disk: a disk of a container's own (`own_disk.py`), a watch over the rest
(`watch.py`), what ended runs leave (`kept.py`), and whose files in a volume are (`idmap.py`)."""
