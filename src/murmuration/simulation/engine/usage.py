"""What tasks use, measured periodically: each follows its curve, and its node's row follows the
task.

With usage, `free` means "not in use" instead of "not requested", and may be negative: nothing stops
tasks from using more than a node has, which is the overload that negotiation is there to relieve.
What is guaranteed to production tasks is kept apart, in `unreserved`, and never depends on usage.

A measurement is one event for the whole cluster, not one for each task. A curve is constant between
two of its points, so most tasks have not changed since the last measurement and cost one
comparison.
"""

from __future__ import annotations

import numpy as np

from murmuration.base.arrays import Amounts, Floats, Records
from murmuration.base.jit import helper, inlined
from murmuration.simulation.engine.event_queue import schedule
from murmuration.simulation.engine.world import USAGE_CHANGES, USED_NOW, World
from murmuration.simulation.results.metering import meter_change


@helper
def phase(state: Records, points: int, job: int, ordinal: int) -> float:
    """How far along its curve a task begins: where curves go round, each task at a point of its
    own."""
    if not state[0].cyclic:
        return 0.0
    # A hash of the job and the task's number in it (splitmix64's constants) instead of a draw: what
    # a task uses must not depend on how many draws others made before it. The top 53 bits make a
    # double in [0, 1).
    mixed = (np.uint64(job) * np.uint64(0x9E3779B97F4A7C15)) ^ (
        np.uint64(ordinal + 1) * np.uint64(0xBF58476D1CE4E5B9)
    )
    mixed = (mixed ^ (mixed >> np.uint64(29))) * np.uint64(0x94D049BB133111EB)
    share = float(mixed >> np.uint64(11)) * (1.0 / 9007199254740992.0)
    return float(share * points * state[0].curve_s)


@helper
def point_of(state: Records, began: float, points: int) -> int:
    """Where on its curve a task stands."""
    point = int((state[0].now - began) / state[0].curve_s)
    return point % points if state[0].cyclic else min(point, points - 1)


@helper
def follow(
    free: Amounts,
    sums: Amounts,
    outgoing: Amounts,
    node: int,
    source: int,
    use: Amounts,
    request: Amounts,
    share: Floats,
) -> None:
    """A task uses this share of its request from now on; under way it counts on both its nodes. It
    uses something of everything it asks for, so that a node with a task is never taken for an idle
    one."""
    for r in range(use.shape[0]):
        now = max(int(request[r] * share[r]), 1) if request[r] > 0 else 0
        # Only the difference is written, so that no sum over all tasks of a node is ever needed,
        # and integers make the sums exact however often that happens.
        change = now - use[r]
        use[r] = now
        free[node, r] -= change
        sums[USED_NOW, r] += change
        if source >= 0:
            free[source, r] -= change
            outgoing[source, r] += change
            sums[USED_NOW, r] += change


@inlined
def usage_changes(w: World) -> None:
    """Every task is measured, and will be again."""
    measure_usage(w)
    schedule(w.event_queue, w.state, w.state[0].now + w.state[0].usage_s, USAGE_CHANGES, 0)


@helper
def measure_usage(w: World) -> None:
    """Every task is measured."""
    points = w.curves.shape[1]
    for slot in range(w.state[0].slots_high):
        job = w.tasks[slot].job
        if job >= 0 and w.jobs[job].curve >= 0:
            point = point_of(w.state, w.tasks[slot].began, points)
            if point != w.tasks[slot].point:
                w.tasks[slot].point = point
                before = w.task_used[slot, 0]
                follow(
                    w.free,
                    w.sums,
                    w.outgoing,
                    w.slots[slot].node,
                    w.tasks[slot].source,
                    w.task_used[slot],
                    w.request[job],
                    w.curves[w.jobs[job].curve, point],
                )
                meter_use(w, slot, w.task_used[slot, 0] - before)


@helper
def meter_use(w: World, slot: int, change: int) -> None:
    """A task uses so much more CPU: on its node and, if it is under way, on the one it leaves."""
    meter_change(w.meters, w.state, w.slots[slot].node, change, 0)
    if w.tasks[slot].source >= 0:
        meter_change(w.meters, w.state, w.tasks[slot].source, change, 0)
