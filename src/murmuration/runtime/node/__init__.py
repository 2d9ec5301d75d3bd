"""The node agent process: executor, journal, watchdog and isolation.

`process.py` puts the parts together around the state machine (`schedulers/central/node_agent.py`).
`executor.py` has the runs, `journal.py` what must be known of them after a crash, `isolation/` the
ways to run them, `watchdog.py` the process that ends them when an agent cannot. `host.py` is all
that is asked of the machine, so that the same code runs on hosts in virtual time.

The truth about a run lies on disk beside it and not in the agent: an agent may be killed at any
moment, also by its own upgrade, and the next one must find every process, its output and its end,
and must not let any of them outlive the lease.
"""
