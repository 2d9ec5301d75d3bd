"""Agents message by message in virtual time, over a network that fails.

`drive.py` runs any agents of the contract, `network.py` is what lies between them. Each protocol
has a set-up that makes parties and emulates their hosts (`central.py`, `offers.py`, `swarm.py`,
`depas.py`, `negotiation/`), checkers of what must never be, and a module that draws a schedule of
faults from a seed (`*_faults.py`); `protocols.py` lists them.

A set-up is the ground truth: it knows which process really runs where. Checkers compare what agents
believe with that after every step, so a mistake is found when it is made and not when it shows. A
schedule has two parts, everything going wrong and then calm; safety must hold in both, and in the
second one everything must come to its end.
"""
