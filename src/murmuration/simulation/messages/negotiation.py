"""A small cell of node agents, brokers and an entry agent in virtual time, message by message. It
decides nothing.

The loop delivers messages over a network that may be faulty, measures what tasks use, lets
transfers take their time and tasks end, and crashes agents. It keeps books of its own about what
really runs where, so that it can say when an agent's order would make a task run twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from murmuration.base.random import generator
from murmuration.cluster.allocation_types import NAMES, allocation_type
from murmuration.schedulers.negotiation.books import Books, Held, Status, assumed_use
from murmuration.schedulers.negotiation.broker import Broker
from murmuration.schedulers.negotiation.candidates import rate_nodes
from murmuration.schedulers.negotiation.entry_agent import EntryAgent
from murmuration.schedulers.negotiation.messages import (
    Measured,
    MigrationFinished,
    NodeGone,
    RunTask,
    StandStill,
    StartTransfer,
    StopTask,
    Submit,
    Task,
    TaskEnded,
    Vector,
    Wake,
)
from murmuration.schedulers.negotiation.node_agent import NodeAgent, Searches
from murmuration.schedulers.negotiation.settings import NegotiationSettings
from murmuration.simulation.messages.network import Crash, Faults, Network, Timeline

ENTRY = "entry"


class BrokenError(AssertionError):
    """Something that must never happen did."""


@dataclass(frozen=True)
class Arrival:
    """A task: when it comes, how long it runs, and what share of its request it uses, point by
    point.

    `shares` has one row per `step_s`, entered at `offset_s` when the task starts; it is gone round
    if `cyclic`, otherwise the last row stays. With `node` the task already runs there when the cell
    starts.
    """

    task: Task
    at_s: float
    duration_s: float = math.inf
    shares: NDArray[Any] | None = None
    step_s: float = 60.0
    offset_s: float = 0.0
    cyclic: bool = False
    node: str | None = None

    def use(self, age_s: float) -> Vector:
        if self.shares is None:
            return self.task.request
        point = int((self.offset_s + age_s) / self.step_s)
        point = point % len(self.shares) if self.cyclic else min(point, len(self.shares) - 1)
        return tuple(
            int(amount * share)
            for amount, share in zip(self.task.request, self.shares[point].tolist(), strict=True)
        )


@dataclass
class Compiled:
    """The decision functions agents and brokers call: plain, or compiled for long runs. Both choose
    the same."""

    searches: Searches = field(default_factory=Searches)
    rate: Any = rate_nodes

    @classmethod
    def make(cls) -> Compiled:
        """Compiled functions."""
        from murmuration.simulation.architectures.negotiation.kernels import (
            run_rate,
            run_select,
            run_tabu,
        )

        return cls(Searches(run_select, run_tabu), run_rate)


class Cell:
    """Nodes, brokers, an entry agent, and the network between them."""

    def __init__(
        self,
        nodes: Mapping[str, Vector],
        arrivals: Sequence[Arrival],
        settings: NegotiationSettings | None = None,
        brokers: int = 1,
        seed: int = 1,
        faults: Faults | None = None,
        attributes: Mapping[str, dict[str, str | float]] | None = None,
        monitor_s: float = 60.0,
        functions: Compiled | None = None,
        checked: bool = False,
    ) -> None:
        self.settings = settings or NegotiationSettings()
        self.nodes, self.attributes, self.seed = dict(nodes), attributes or {}, seed
        self.arrivals = {arrival.task.name: arrival for arrival in arrivals}
        self.brokers = [f"broker-{k}" for k in range(brokers)]
        self.timeline, self.network = (
            Timeline(),
            Network(faults or Faults(), generator(seed, "network")),
        )
        self.books = {name: Books() for name in (*nodes, ENTRY)}
        #: Agents that are up; nodes that are down for good.
        self.agents: dict[str, Any] = {}
        self.dead: set[str] = set()
        #: What really runs where, since when, and what has ended or was lost with its node.
        self.runs: dict[str, str] = {}
        self.started: dict[str, float] = {}
        self.ended: set[str] = set()
        self.lost: set[str] = set()
        #: Tasks that stand still since when, and for how long they did; they end that much later.
        self.still: dict[str, float] = {}
        self.delayed: dict[str, float] = {}
        self.measuring = True
        self._monitor_s, self._functions, self._checked = (
            monitor_s,
            functions or Compiled(),
            checked,
        )
        self._resources = len(next(iter(nodes.values())))
        self._wakes: dict[str, float] = {}
        self._lives: dict[str, int] = {}
        self._counts: dict[str, float] = {}
        self.series: dict[str, list[float]] = {
            name: [] for name in (*NAMES, *COUNTED, "running", "waiting")
        }
        self._begin()

    def _begin(self) -> None:
        """Everything that is known before the start."""
        rng = generator(self.seed, "phases")
        for arrival in self.arrivals.values():
            if arrival.node is not None:
                self.books[arrival.node].tasks[arrival.task.name] = Held(
                    arrival.task, assumed_use(arrival.task), Status.RUNNING
                )
                self._run_task(arrival.node, arrival.task)
            else:
                self.timeline.post(arrival.at_s, self._submit, arrival.task)
        for name in (*self.brokers, *self.nodes, ENTRY):
            self._start(name)
        for name in self.nodes:
            self.timeline.post(float(rng.uniform(0, self._monitor_s)), self._measure, name)
        for crash in self.network.faults.crashes:
            self.timeline.post(crash.at_s, self._crash, crash)
        self.timeline.post(60.0, self._sample)

    def run(self, until_s: float) -> dict[str, NDArray[np.float64]]:
        """Go on to a time; returns one row per simulated minute so far."""
        self.timeline.run(until_s)
        return {name: np.array(values, dtype=float) for name, values in self.series.items()}

    # Agents.

    def _start(self, name: str) -> None:
        """An agent begins, from its books if it has some."""
        life = self._lives[name] = self._lives.get(name, 0) + 1
        rng = generator(self.seed, name, str(life))
        if name in self.brokers:
            rate = self._functions.rate
            self.agents[name] = Broker(
                name, self.brokers, self._resources, self.settings, rng, rate
            )
        else:
            home = sum(map(ord, name)) % len(self.brokers)
            brokers = self.brokers[home:] + self.brokers[:home]
            self.agents[name] = (
                EntryAgent(name, brokers, self._resources, self.settings, rng, self.books[name])
                if name == ENTRY
                else NodeAgent(
                    name,
                    brokers,
                    self.nodes[name],
                    self.settings,
                    rng,
                    self.books[name],
                    self.attributes.get(name, {}),
                    self._functions.searches,
                )
            )
        self._wakes[name] = math.inf
        for gone in sorted(self.dead):
            self._tell(name, NodeGone(gone))
        self._plan_wake(name)

    def _tell(self, name: str, message: Any) -> None:
        """Hand a message to an agent, if it is up, and do what it wants."""
        agent = self.agents.get(name)
        if agent is None:
            return
        for to, answer in agent.handle(message, self.timeline.now):
            if to is None:
                self._act(name, answer)
            else:
                for at in self.network.arrivals(name, to, self.timeline.now):
                    self.timeline.post(at, self._tell, to, answer)
        self._plan_wake(name)
        if self._checked and name in self.nodes:
            self.check_node(name)

    def _plan_wake(self, name: str) -> None:
        due = self.agents[name].due
        if due < self._wakes[name]:
            self._wakes[name] = due
            self.timeline.post(max(due, self.timeline.now), self._wake, name, due)

    def _wake(self, name: str, due: float) -> None:
        # A wake that was since brought forward, or of an agent that has crashed since, is no longer
        # planned.
        if self._wakes.get(name) == due:
            self._wakes[name] = math.inf
            self._tell(name, Wake())

    def _act(self, name: str, command: Any) -> None:
        """What an agent wants of its node."""
        if isinstance(command, RunTask):
            self._run_task(name, command.task)
            if self._checked:
                self.check_owners()
        elif isinstance(command, StopTask):
            self._go_on(command.task)
            if self.runs.pop(command.task, None) != name:
                raise BrokenError(f"{name} stops {command.task}, which it does not run")
            if self._checked:
                self.check_owners()
        elif isinstance(command, StandStill):
            self._stand_still(name, command.tasks)
        elif isinstance(command, StartTransfer):
            seconds = command.megabytes / self.settings.mb_per_s
            done = MigrationFinished(command.migration)
            self.timeline.post(self.timeline.now + seconds, self._tell, name, done)

    def _stand_still(self, name: str, tasks: Sequence[str]) -> None:
        for task in [
            task for task in self.still if self.runs.get(task) == name and task not in tasks
        ]:
            self._go_on(task)
        for task in tasks:
            self.still.setdefault(task, self.timeline.now)

    def _go_on(self, task: str) -> None:
        if task in self.still:
            self.delayed[task] = (
                self.delayed.get(task, 0.0) + self.timeline.now - self.still.pop(task)
            )

    def _run_task(self, name: str, task: Task) -> None:
        if task.name in self.runs:
            raise BrokenError(f"{task.name} would run on {self.runs[task.name]} and on {name}")
        self._go_on(task.name)
        self.runs[task.name] = name
        if task.name in self.lost:
            self.lost.remove(task.name)
            ends = self.started[task.name] + self.arrivals[task.name].duration_s
            self.timeline.post(max(ends, self.timeline.now), self._end_task, task.name)
        if task.name not in self.started:
            self.started[task.name] = self.timeline.now
            lasts = self.arrivals[task.name].duration_s
            if lasts < math.inf:
                self.timeline.post(self.timeline.now + lasts, self._end_task, task.name)

    # Tasks.

    def _submit(self, task: Task) -> None:
        if self.agents.get(ENTRY) is None:
            self.timeline.post(self.timeline.now + 1.0, self._submit, task)
        else:
            self._tell(ENTRY, Submit(task))

    def _end_task(self, name: str) -> None:
        """A task ends where it runs; while it is stopped, or its agent is down, it ends a little
        later."""
        node = self.runs.get(name)
        if name in self.lost:
            return
        if node is None or self.agents.get(node) is None or name in self.still:
            self.timeline.post(self.timeline.now + 1.0, self._end_task, name)
            return
        if name in self.delayed:
            self.timeline.post(self.timeline.now + self.delayed.pop(name), self._end_task, name)
            return
        del self.runs[name]
        self.ended.add(name)
        self._tell(node, TaskEnded(name))

    def _measure(self, name: str) -> None:
        if name in self.dead:
            return
        self.timeline.post(self.timeline.now + self._monitor_s, self._measure, name)
        if self.measuring and self.agents.get(name) is not None:
            now = self.timeline.now
            use = {
                task: self.arrivals[task].use(now - self.started[task])
                for task in self.books[name].tasks
                if self.runs.get(task) == name and task not in self.still
            }
            self._tell(name, Measured(use))

    # Faults.

    def _crash(self, crash: Crash) -> None:
        name = crash.name
        if name in self.dead or self.agents.get(name) is None:
            return
        self._keep_counts(name)
        self.agents[name] = None
        if crash.down_s < math.inf:
            self.timeline.post(self.timeline.now + crash.down_s, self._restart, name)
            return
        self.dead.add(name)
        for task in [task for task, node in self.runs.items() if node == name]:
            del self.runs[task]
        self._lose(name)
        # The others hear of it a little later, each at its own time.
        rng = generator(self.seed, "gone", name)
        for other in (*self.brokers, *self.nodes, ENTRY):
            self.timeline.post(
                self.timeline.now + float(rng.uniform(10, 120)), self._tell, other, NodeGone(name)
            )

    def _lose(self, name: str) -> None:
        """What a dead node owned is lost, unless its source has not heard of the hand-over: then it
        goes on there."""
        self.lost |= {
            task for task, held in self.books[name].tasks.items() if self.owns(name, held)
        }
        # What had ended there may go on at its source too, and end again: the news of its end went
        # down with the node.
        again = self.ended & set(self.books[name].taken.values())
        self.ended -= again
        self.lost |= again

    def _restart(self, name: str) -> None:
        if name not in self.dead:
            self._start(name)

    def owns(self, name: str, held: Held) -> bool:
        """Whether the task is this agent's: not if it was handed over and the target has it, heard
        of or not."""
        if held.status is not Status.STOPPED:
            return True
        assert held.migration is not None
        return held.target in self.dead or held.migration not in self.books[held.target].taken

    def calm(self) -> None:
        """Nothing is measured and nothing offloaded any more: what is under way comes to its
        end."""
        self.measuring = False
        self.settings = msgspec.structs.replace(self.settings, proactive=0.0)
        for agent in self.agents.values():
            if agent is not None:
                agent.settings = self.settings

    # Figures.

    def _keep_counts(self, name: str) -> None:
        """What an agent counted outlives it here."""
        if name not in self.brokers:
            for key, value in self.agents[name].counts.items():
                self._counts[key] = self._counts.get(key, 0) + value

    def counts(self) -> dict[str, float]:
        """What all agents counted so far."""
        total = dict(self._counts)
        for name, agent in self.agents.items():
            if agent is not None and name not in self.brokers:
                for key, value in agent.counts.items():
                    total[key] = total.get(key, 0) + value
        return total

    def _sample(self) -> None:
        self.timeline.post(self.timeline.now + 60.0, self._sample)
        kinds = [0] * len(NAMES)
        for name in self.nodes:
            agent = self.agents.get(name)
            if agent is not None:
                total, sums = np.array(agent.total), agent.sums
                kinds[
                    allocation_type(total, total - sums.used, sums.guaranteed, sums.tasks == 0)
                ] += 1
        counts = self.counts()
        for kind, name in enumerate(NAMES):
            self.series[name].append(kinds[kind])
        for name in COUNTED:
            self.series[name].append(counts.get(name, 0) - sum(self.series[name]))
        self.series["running"].append(len(self.runs))
        self.series["waiting"].append(len(self.books[ENTRY].tasks))

    # What must hold.

    def check_node(self, name: str) -> None:
        """The node's sums add up, and what its books say runs is what runs."""
        agent = self.agents.get(name)
        if agent is not None:
            agent.check()
        running = {
            task for task, held in self.books[name].tasks.items() if held.status is Status.RUNNING
        }
        really = {task for task, node in self.runs.items() if node == name}
        if running != really:
            raise BrokenError(
                f"{name}: its books differ from what it runs in "
                f"{', '.join(sorted(running ^ really))}"
            )

    def check_owners(self) -> None:
        """Every task that came in and has not ended has exactly one owner."""
        owners: dict[str, list[str]] = {}
        for name, books in self.books.items():
            if name not in self.dead:
                for task, held in books.tasks.items():
                    if self.owns(name, held):
                        owners.setdefault(task, []).append(name)
        for task in self.arrivals:
            have, most = owners.get(task, []), 0 if task in self.ended else 1
            if len(have) > most:
                raise BrokenError(f"{task} has {len(have)} owners: {', '.join(have) or 'none'}")
            if not have and task in self.started and task not in self.ended | self.lost:
                raise BrokenError(f"{task} is owned by nobody")

    def check_settled(self) -> None:
        """In the end every task that neither ended nor went down with its node runs on exactly one,
        and nothing is left over: no hand-over under way, no room set aside, no task waiting."""
        self.check_owners()
        for name in self.nodes:
            if name not in self.dead:
                self.check_node(name)
                if self.agents[name].coming:
                    raise BrokenError(
                        f"{name} still keeps room for {len(self.agents[name].coming)} tasks"
                    )
                if self.books[name].taken:
                    raise BrokenError(
                        f"{name} still waits for {len(self.books[name].taken)} sources to forget "
                        "a task"
                    )
        for task in self.arrivals:
            there = [
                n for n, books in self.books.items() if task in books.tasks and n not in self.dead
            ]
            runs = task in self.runs
            if task in self.ended and (there or runs):
                raise BrokenError(f"{task} has ended and is still at {', '.join(there)}")
            if task not in self.ended | self.lost and (not runs or there != [self.runs[task]]):
                raise BrokenError(
                    f"{task} runs on {self.runs.get(task)} and stands in the books of "
                    f"{', '.join(there)}"
                )


COUNTED = (
    "migrations",
    "forced",
    "megabytes",
    "attempts",
    "collisions",
    "requests",
    "rejections",
    "placed",
    "given_up",
)
