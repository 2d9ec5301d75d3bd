"""Frames, connections and HTTP.

Going down: `peers` and `http` speak, `transport.py` carries frames, `wire.py` makes them bytes,
`sockets.py` is the one place that opens a socket, with TLS or without. Beside them lies who
somebody is: `callers.py` (roles), `certificates.py` and `authority.py` (keys), `sessions.py`
(browsers), and where the leader is: `directory.py` in a folder, `etcd_directory.py` among several
masters.

A message is believed for three reasons only: its connection has shown a certificate or a token, the
role of that may say such a thing, and the party it names is the one that the connection belongs to.
All three are looked at before anything of it reaches a state machine.
"""
