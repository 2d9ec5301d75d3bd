"""A cluster as its scheduler keeps it: what is free, who may go where, and how pods get there.

`cluster.py` keeps what was told, `table.py` makes rows of it, `between.py` counts pods for rules,
`hands.py` carries out what was decided, `serving.py` is the process around them.

**The API is right, only late.** What it shows of a pod replaces what was believed of it, whatever
that was, but for one case: a pod that was given a node and is shown without one is no news, for
what is shown may be older than the decision. One that is shown on another node lies there.

**One change, one row.** Ten thousand pods a minute pass through here, so no change may look at the
whole cluster. A pod that comes or goes changes the row of its node and the counts of the rules that
speak of it; a node changes its own row. Only what makes the columns themselves different (a
resource nobody had before, a namespace, attach limits) throws the table away, and it is rebuilt
when it is next asked for, once for all changes until then.

**What pods read of others.** A pod's claims, volumes and classes decide where it may go, and can
change after the pod was read. Such pods are remembered (`_reading_others`) and read again, when
needed, after any of these objects has changed; all others are read once.
"""
