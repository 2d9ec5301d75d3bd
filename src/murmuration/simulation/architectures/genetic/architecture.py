"""Batches as a value: what has arrived is searched as a whole, and running tasks may be moved."""

from __future__ import annotations

from typing import Any

from murmuration.base.arrays import Amounts
from murmuration.base.errors import InputError
from murmuration.cluster.reasons import Explanation
from murmuration.schedulers.genetic.settings import GeneticSettings
from murmuration.schedulers.genetic.steps import room_table
from murmuration.simulation.architectures.architecture import Architecture
from murmuration.simulation.architectures.genetic import batches
from murmuration.simulation.architectures.genetic.batches import Batches
from murmuration.simulation.architectures.genetic.settings import SETTINGS
from murmuration.simulation.architectures.queues.architecture import make_one
from murmuration.simulation.engine import rounds
from murmuration.simulation.engine.run import Run
from murmuration.simulation.engine.setup import Setup
from murmuration.simulation.engine.world import World
from murmuration.simulation.results.explain_rounds import Enough, RoundExplainer, explain_round

#: Figures of a summary, and the columns they stand in.
COUNTED = {
    "batches": "batches",
    "evaluations": "evaluations",
    "plans": "plans",
    "steps_dropped": "dropped",
}


def rules_of(setup: Setup) -> GeneticSettings:
    return setup.scenario.scheduler.settings_of(GeneticSettings)


def make_state(setup: Setup, world: World) -> Batches:
    """No batch yet. A batch starts from a placement that can be called for many jobs at once."""
    if not setup.placement.fast:
        raise InputError(
            f"{setup.placement.name}: scheduler.kind genetic starts from a compiled placement; "
            f"use one of ours or mark a score with murmuration.kernel"
        )
    return batches.batches(world)


def advance(run: Run, ask: int, watch: int, until: float) -> int:
    """Call the loop of rounds."""
    return int(rounds.advance_rounds(run.world, rules_of(run.setup).batch_s, until))


def act(run: Run) -> None:
    """A batch begins or ends."""
    run.world = batches.act(run.setup, run.world, run.state)


def count(run: Run) -> dict[str, Any]:
    """The figures only batches have."""
    record = run.state.settings[0]
    return {name: int(record[column]) for name, column in COUNTED.items()}


def explain(run: Run, row: int, attempt: int) -> Explanation:
    """The batch of an attempt at a job."""
    return explain_round(run, row, attempt, RoundExplainer(what_is_enough, describe))


def what_is_enough(run: Run, row: int, resource: int) -> Enough:
    """Which nodes have enough of a resource, by the reason for which the others are refused."""
    name, asked = run.setup.resources.names[resource], run.world.request[row, resource]
    room: Amounts = room_table(batches.table_of(run.world))[:, resource]
    return {f"too little {name} free": room >= asked}


def describe(run: Run, row: int) -> tuple[str, ...]:
    """How batches are placed, and what is being done for a job that still waits."""
    rules = rules_of(run.setup)
    how = (
        f"every {rules.batch_s:g} s what waits is placed as one batch, then searched by "
        f"{', '.join(rules.objectives)}"
    )
    steps = run.state.steps[: run.state.settings["steps"][0]]
    mine = steps["node"][(steps["job"] == row) & (steps["slot"] < 0)]
    promised = sorted({run.setup.nodes.names[node] for node in mine})
    if promised:
        return (
            how,
            f"room is being made for it on {', '.join(promised)}: it starts there when "
            "migrations have ended",
        )
    moved = (
        "no moves of running tasks were found that make room"
        if rules.move
        else "running tasks are not moved"
    )
    return (how, moved) if run.world.jobs["left"][row] else (how,)


GENETIC = Architecture(
    kind="genetic",
    summary="one scheduler, all rows: what has arrived is searched as a batch, and tasks may move",
    schedulers=make_one,
    advance=advance,
    settings=SETTINGS,
    has_tasks=True,
    event_per_task=True,
    make_state=make_state,
    state_name="batches",
    first_act_s=lambda scenario: 0.0,
    act=act,
    count=count,
    explain=explain,
)
