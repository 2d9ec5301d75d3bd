"""The table of decisions that a run of negotiation sampled."""

from __future__ import annotations

import numpy as np

from murmuration.base.arrays import Column
from murmuration.simulation.architectures.negotiation.world import NegotiationArrays
from murmuration.simulation.engine.run import Run
from murmuration.simulation.results.outputs import shorten

#: In the order in which the bulk round numbers them.
DECISIONS = ("selection", "candidates", "target")


def decision_table(run: Run, state: NegotiationArrays) -> dict[str, Column]:
    """The decisions that were sampled. A selection weighs the tasks of a node; candidates are drawn
    from the nodes that a broker scored; a target is the node that takes the task. A task from
    outside has no node yet."""
    rows = state.decisions[: state.progress["logged"][0]]
    names = np.array([*run.setup.nodes.names, ""], dtype=np.str_)
    jobs = np.append(run.setup.jobs.job_id, "")
    is_target = rows["kind"] == DECISIONS.index("target")
    return {
        "time_s": shorten(rows["time"]),
        "decision": np.array(DECISIONS, dtype=np.str_)[rows["kind"]],
        "node": names[rows["node"]],
        "job_id": jobs[rows["job"]],
        "considered": rows["count"].astype(np.int64),
        "drawn": np.where(is_target, 0, rows["chosen"]).astype(np.int64),
        "target": names[np.where(is_target, rows["chosen"], -1)],
        "forced": rows["forced"].astype(np.int64),
        "value": shorten(rows["value"]),
    }
