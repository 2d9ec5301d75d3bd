"""Virtual time for whole clusters: the world, its event queue, the steps of a job, and the loop.

`run.py` makes and advances a run, `world.py` has its arrays, `event_queue.py` its time. `loop.py`
and `rounds.py` are the two loops most architectures use, made of the `steps.py` that all of them
share; an architecture is a value (`simulation/architectures/`) that chooses among them.

Speed comes from one decision: a run is arrays, and advancing it is one compiled function that calls
Python only where Python must decide. What that costs is kept in few places. A kernel cannot make an
array, so it stops *before* an event that might need more room (`needs_room`) and is called again;
it cannot draw from NumPy's generators, so it has its own, one for each purpose, seeded by name; and
it must leave no trace of where it stopped, so that a run in pieces, a snapshot and a whole run end
in the same bytes.
"""
