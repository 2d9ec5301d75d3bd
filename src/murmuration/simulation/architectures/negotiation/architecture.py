"""Negotiation as a value: node agents ask brokers where there might be room, and the node asked
decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from murmuration.base.arrays import Amounts, Column
from murmuration.cluster.reasons import Explanation, Never
from murmuration.schedulers.architecture import Scheduler, Timing
from murmuration.schedulers.negotiation.rules import UNMEASURED
from murmuration.schedulers.negotiation.settings import NegotiationSettings
from murmuration.simulation.architectures.architecture import Admission, Architecture
from murmuration.simulation.architectures.negotiation import loop
from murmuration.simulation.architectures.negotiation.outputs import decision_table
from murmuration.simulation.architectures.negotiation.settings import SETTINGS
from murmuration.simulation.architectures.negotiation.world import (
    NegotiationArrays,
    count_negotiation,
    grow_negotiation,
    make_negotiation,
)
from murmuration.simulation.engine import rounds
from murmuration.simulation.engine.run import Run
from murmuration.simulation.engine.setup import Setup
from murmuration.simulation.engine.world import World
from murmuration.simulation.results import snapshots
from murmuration.simulation.results.explain_rounds import Enough, RoundExplainer, explain_round
from murmuration.simulation.scenarios import scenario as sc


def make_schedulers(scenario: sc.Scenario, workloads: Sequence[str], nodes: int) -> list[Scheduler]:
    """Nobody schedules: the one queue holds what waits for the next round."""
    return [Scheduler("brokers", tuple(workloads), {name: Timing(0.0, 0.0) for name in workloads})]


def find_infeasible(admission: Admission) -> dict[int, Never]:
    """Where tasks go to their recorded nodes, those without one."""
    if admission.scenario.scheduler.settings_of(NegotiationSettings).initial != "recorded":
        return {}
    reason = Never("the trace has no node for it")
    return {int(row): reason for row in np.flatnonzero(admission.jobs.recorded < 0)}


def set_state(setup: Setup) -> dict[str, Any]:
    """Node agents count what is not measured yet as the paper does, and others than production
    tasks get what is not used."""
    return {"reclaim": True, "unmeasured": UNMEASURED}


def make_state(setup: Setup, world: World) -> NegotiationArrays:
    rules = setup.scenario.scheduler.settings_of(NegotiationSettings)
    return make_negotiation(rules, world, setup.changes.max_total, setup.jobs)


def advance(run: Run, ask: int, watch: int, until: float) -> int:
    """Call the loop of rounds."""
    rules = run.setup.scenario.scheduler.settings_of(NegotiationSettings)
    return int(rounds.advance_rounds(run.world, rules.answer_s, until))


def make_outputs(run: Run) -> dict[str, dict[str, Column]]:
    """Some of the decisions."""
    return {snapshots.DECISIONS: decision_table(run, run.state)}


def explain(run: Run, row: int, attempt: int) -> Explanation:
    """The round of an attempt at a job."""
    return explain_round(run, row, attempt, RoundExplainer(what_is_enough, describe))


def what_is_enough(run: Run, row: int, resource: int) -> Enough:
    """Which nodes have enough of a resource, by the reason for which the others are refused."""
    world, name = run.world, run.setup.resources.names[resource]
    unused = world.free[:, resource] >= _assume_use(run, row)[resource]
    enough = {f"too little {name} unused": unused}
    if world.jobs["production"][row]:
        unreserved = world.unreserved[:, resource] >= world.request[row, resource]
        enough[f"too much {name} guaranteed to others"] = unreserved
    return enough


def _assume_use(run: Run, row: int) -> Amounts:
    """What a task counts as using before it is measured, as `steps.assume_usage` has it."""
    request: Amounts = run.world.request[row]
    share = float(run.world.state["unmeasured"][0])
    if run.world.jobs["curve"][row] < 0:
        return request
    return np.minimum(request, (request * share).astype(np.int64) + 1)


def describe(run: Run, row: int) -> tuple[str, ...]:
    """How a node is found."""
    rules = run.setup.scenario.scheduler.settings_of(NegotiationSettings)
    if rules.initial == "recorded":
        return ("tasks go where the trace has them",)
    return (
        f"a broker scores up to {rules.scored_new:,} of them ({rules.initial}) as reported up to "
        f"{rules.report_s:g} s ago and returns {rules.candidates} drawn by score; the node is "
        "drawn from those that accept",
    )


NEGOTIATION = Architecture(
    kind="negotiation",
    summary="no scheduler: node agents ask brokers where there is room, and the node asked decides",
    schedulers=make_schedulers,
    advance=advance,
    settings=SETTINGS,
    find_infeasible=find_infeasible,
    measures_usage=True,
    set_state=set_state,
    make_state=make_state,
    state_name="negotiation",
    grow_state=grow_negotiation,
    first_act_s=lambda scenario: 0.0,
    act=loop.agents_act,
    count=lambda run: count_negotiation(run.state, run.horizon_s),
    make_outputs=make_outputs,
    explain=explain,
)
