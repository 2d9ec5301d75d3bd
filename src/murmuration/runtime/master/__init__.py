"""The master process: its engine, its HTTP API and what that answers.

`process.py` puts the parts together: the state machine (`schedulers/central/master.py`), the driver
that runs it (`runtime/drive.py`), its notes in the store (`notes.py`), and two doors. `peers.py` is
the door for node agents and schedulers, by frames; `api.py` the one for people and programs, by
HTTP. Neither decides. The API asks the read model (`reading.py`), which looks at the state machine
and changes nothing, or gives the driver an event and answers when what came of it is on disk.

One loop serves everybody, so nothing here may take long: listings are answered one at a time
between two rounds of the loop, the disk has a thread of its own, and what others send is bounded
before it is looked at.
"""
