"""Negotiation (MASB): node agents that keep their own nodes stable, and brokers that know roughly
where room is.

Read `phases.py` first, the protocol as a table, then `giver.py`, the side that gives a task away.
`node_agent.py` is a giver with a node, `entry_agent.py` one without; `broker.py` knows roughly
where room is. What both fidelities share are plain functions: `rules.py` (may it come?),
`selection.py` (who leaves?), `candidates.py` (how good is a node?). `bulk.py` and
`bulk_selection.py` call them for whole columns.

The promise is that a task is never without an owner and never runs twice, though no two agents ever
agree on anything at the same time. It rests on the order of notes in a hand-over (`giver.py`), on
numbers that are used once and remembered by the side that could be fooled (`memory.py`), and on the
rule that nothing but the word of the target, or of somebody who must know that it is gone, gives a
task back to its source. A time-out never does: it only says the same thing again.
"""
