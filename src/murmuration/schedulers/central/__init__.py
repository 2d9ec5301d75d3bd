"""The live cluster's agents as state machines: master, job manager, node agent, leases. They are
told events and the time and answer with messages; `runtime/` drives them in real time and
`simulation/messages/central.py` in virtual time."""
