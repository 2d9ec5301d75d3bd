"""What a master keeps on disk.

`interface.py` says what a store is; `sqlite.py` keeps it in a file, `etcd.py` on several hosts.
`log.py` is what followers read, `lines.py` how a line becomes bytes.

Both write the same fold (`schedulers/central/memory.py`) and both are fenced: `recover` begins an
epoch, and a batch of an earlier one is refused whole. That, and not any clock, is what makes sure
that two masters which both believe they lead cannot both decide. Every row and line has a checksum
(`sums.py`), because a store that silently says something else than was written would be obeyed.
"""
