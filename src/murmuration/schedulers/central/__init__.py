"""The agents of a cluster with one master: the master with its job manager and leases, and the node
agent. `runtime/` drives them in real time, `simulation/messages/central.py` in virtual time.

Begin with `messages.py` (what is said), then `master.py` and `node_agent.py` (who hears it). Behind
the master lie its tables: `jobs.py` (what becomes of a task), `state.py` and `placing.py` (what
would be decided now), `queue/` (who is next), `leases.py` (which nodes count), `memory.py` (what a
crash must not take away).

Three promises hold everything together, and each is kept in one place:

- A run has one node, and a task one run at a time. The ledger accepts or refuses (`state.py` only
  proposes), and a run that was lost is repeated under a new number when the lease of its node has
  ended by the clocks of both sides (`leases.py`).
- What somebody may rely on is noted before it is said. All notes of an answer come first.
- A master that leads no longer changes nothing: the store refuses its notes, and node agents refuse
  messages of a term below the highest they have heard.
"""
