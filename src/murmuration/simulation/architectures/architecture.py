"""What an architecture is to a simulation: a value of plain functions.

The engine, the results and the checks know this type and no architecture by name. They ask the
value of the run at the points where architectures differ:

    prepare   check_inputs → change_jobs → schedulers → find_infeasible → make_arrays, set_state,
              make_state, first_act_s
    advance   advance, until it says why it stopped:
                 DECIDE  Python decides an attempt: show_rows, then claim
                 ACT     a round is due: act
                 GROW    the arrays are full: grow_state
    results   count, make_outputs, explain, check

Only `schedulers` and `advance` have no default. An architecture whose schedulers take jobs off a
queue and read the table themselves needs nothing else: `queues/` is three such values.

**State.** What changes during a run is arrays alone, so that a snapshot is those arrays saved. An
architecture keeps its own in either of two places: in a wider world (`make_world`, see
`engine/world.widen_world`), where its kernel needs them beside the others; or in a named tuple of
its own (`make_state`), which the snapshot keeps under `state_name`.

**Settings** are a table `scheduler.<name>` of a scenario. They are known without the rest of the
architecture (`SettingsTable`), so that a scenario is checked before anything is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from murmuration.base.arrays import Amounts, Column, Flags, Indices, Placement

if TYPE_CHECKING:
    from murmuration.base.jit import FirstClass
    from murmuration.cluster.reasons import Explanation, Never
    from murmuration.placement.ranking import RankIndex
    from murmuration.schedulers.architecture import Scheduler
    from murmuration.simulation.engine.run import Run
    from murmuration.simulation.engine.setup import NodeChanges, Setup
    from murmuration.simulation.engine.world import World
    from murmuration.simulation.scenarios import scenario as sc
    from murmuration.workload.jobs import JobList
    from murmuration.workload.nodes import NodeTable

#: A named tuple of arrays.
State = Any


@dataclass(frozen=True)
class SettingsTable:
    """The settings of an architecture: a table of `[scheduler]`."""

    #: The key below `scheduler`.
    name: str
    struct: type[msgspec.Struct]
    #: What makes no sense, each as a sentence that names the key.
    find_problems: Callable[[Any, sc.SchedulerSettings], Iterator[str]] = (
        lambda settings, scheduler: iter(())
    )
    #: The workloads that the settings name, by the dotted key below `scheduler`.
    name_workloads: Callable[[Any], Mapping[str, Collection[str]]] = lambda settings: {}


class Admission(NamedTuple):
    """What is known when it is decided which jobs can never run: `free` is what each node has free
    when all nodes are there and nothing runs, `mask` the row of `masks` a job must obey (−1: all
    nodes)."""

    scenario: sc.Scenario
    nodes: NodeTable
    jobs: JobList
    free: Amounts
    masks: Flags
    mask: Indices


class ShownRows(NamedTuple):
    """What a scheduler sees of the table: the nodes, what is free of each for the job, and whether
    that is the whole table in its own order."""

    rows: Placement
    free: Amounts
    whole: bool


@dataclass(frozen=True)
class Architecture:
    """How one architecture is simulated."""

    kind: str
    #: One line for people who choose one.
    summary: str
    #: The schedulers, given the scenario, the names of the workloads and the number of nodes.
    schedulers: Callable[[sc.Scenario, Sequence[str], int], list[Scheduler]]
    #: Call the kernel: `(run, ask, watch, until)` as in `engine/loop.advance`.
    advance: Callable[[Run, int, int, float], int]
    settings: SettingsTable | None = None

    # ---- What it makes of the inputs.

    #: Refuse inputs that it cannot run with.
    check_inputs: Callable[[sc.Scenario, JobList, NodeChanges], None] = lambda *_: None
    #: The jobs as it wants them.
    change_jobs: Callable[[sc.Scenario, JobList], JobList] = lambda scenario, jobs: jobs
    #: The jobs that can never run for reasons of its own.
    find_infeasible: Callable[[Admission], dict[int, Never]] = lambda admission: {}
    #: Whether all tasks of a job must fit at once, were the cluster empty, for it ever to run.
    whole_jobs: bool = False

    #: Whether it knows queue disciplines (`scheduler.queue`).
    orders_queue: bool = False

    # ---- The arrays of a run.

    #: Whether what tasks use is measured, even where a workload says nothing of usage.
    measures_usage: bool = False
    #: Whether every task has a row of its own: they move.
    has_tasks: bool = False
    #: Whether every change of a row's free amounts is logged (`placement/room.log_change`).
    logs_changes: bool = False
    #: Whether any task may have an event of its own at the same time.
    event_per_task: bool = False
    #: How many attempts a scheduler may have under way at once.
    slots: Callable[[sc.Scenario], int] = lambda scenario: 1
    #: Fields of `world.state` that it sets.
    set_state: Callable[[Setup], dict[str, Any]] = lambda setup: {}
    #: The world, given the arrays every world has.
    make_world: Callable[[Setup, World], World] = lambda setup, world: world
    #: Arrays beside the world, and the name of this part of a snapshot.
    make_state: Callable[[Setup, World], State] | None = None
    state_name: str = ""
    #: The same with room for what the grown world has room for.
    grow_state: Callable[[State, World], State] = lambda state, world: state
    #: When a round is due for the first time; None where there are no rounds.
    first_act_s: Callable[[sc.Scenario], float] | None = None

    # ---- What happens during a run.

    #: A round is due.
    act: Callable[[Run], None] | None = None
    #: What the scheduler that must decide sees (None: the whole table), its row and the job.
    show_rows: Callable[[Run, int, int], ShownRows] | None = None
    #: Make Python's choice the claim of an attempt: `(run, scheduler, rows of the view, nodes)`;
    #: returns the position of a node without room, or −1.
    claim: Callable[[Run, int, Placement, Placement], int] | None = None
    #: The compiled decision alone, for the explainer: `(world, scheduler, place, score, index)`.
    choose: Callable[[Any, int, FirstClass, FirstClass, RankIndex], None] | None = None
    #: Whether a job is still in its queue, and its attempt not counted, while it is decided.
    queued_while_deciding: bool = False

    # ---- Results.

    #: Figures of its own, for the `cluster` of a summary.
    count: Callable[[Run], dict[str, Any]] = lambda run: {}
    #: Tables of its own, by the name of their file.
    make_outputs: Callable[[Run], dict[str, dict[str, Column]]] = lambda run: {}
    #: Why one attempt at a job ended as it did: `(run, row of the job, attempt)`; None: by the
    #: decision of its scheduler, seen again.
    explain: Callable[[Run, int, int], Explanation] | None = None
    #: Assert what must hold of its arrays at any time.
    check: Callable[[Run], None] = lambda run: None

    def __post_init__(self) -> None:
        assert (self.make_state is None) == (not self.state_name), "a state has a name"
        assert (self.act is None) == (self.first_act_s is None) or self.act is None, (
            "who acts in rounds says when the first is due"
        )
