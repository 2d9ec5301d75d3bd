"""How good assignments are found: construction, local search, ejection chains, CP-SAT, NSGA-style
selection.

There are three kinds of searches, by what is asked. What has no node is placed with the fewest
moves: `fewest.py` asks chains of ejections (`ejection.py`) and, where it is small, an exact solver
(`exact.py`). A running cluster is improved near where it stands: `seeds.py` collects nodes that can
be emptied (`consolidate.py`) and single moves that gain most (`gains.py`). And a front of
placements by several objectives is bred by `search.py` from all of these. `choice.py` takes one of
it.

All of them end by a number of evaluations and draw from a seed, so that one seed gives one plan; a
deadline only stops them early. Kernels keep a placement allowed at every step instead of repairing
it afterwards, since a repair undoes what the search has just found; `problem.violations` is the
plain oracle that tests hold them to.
"""
