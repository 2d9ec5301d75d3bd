"""Random fault schedules for the offers protocol: a small cluster whose nodes crash, come back and
die while frameworks work off their jobs.

The protocol of the paper rests on streams (TCP): what is sent arrives in order, late, unless an end
crashes. So messages are delayed here and lost only with a node; parties are suspended for a while.
At every step the ledger must add up and no node may run more than it has; in the end every job has
finished, once, and nothing is held or offered.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from murmuration.base.random import generator
from murmuration.schedulers.agent import Effect, Message
from murmuration.schedulers.offers.allocators import ALLOCATORS
from murmuration.schedulers.offers.frameworks import ElasticFramework, Framework, Job, TaskSpec
from murmuration.schedulers.offers.master import Master, Rules
from murmuration.schedulers.offers.messages import (
    MASTER,
    JobFinished,
    NodeJoined,
    NodeLeft,
    Register,
    Submit,
    Vector,
)
from murmuration.simulation.messages.drive import BrokenError, Checker, VirtualDriver
from murmuration.simulation.messages.network import Crash, FaultSettings, Pause, Streams
from murmuration.simulation.messages.offers import EmulatedSlave, OffersCluster

#: Faults until the first; looked at in the second.
FAULTS_S, END_S = 200.0, 2000.0
#: Everything a small node has, in CPU and memory.
NODE: Vector = (8, 16)


class OffersLedgerAddsUp(Checker):
    """The master's amounts add up, and no node really runs more than it has."""

    def __init__(self, nodes: dict[str, Vector]) -> None:
        self._nodes = nodes

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        if name == MASTER:
            driver.agent(MASTER).check()
        elif name in self._nodes and driver.is_up(name):
            agent: EmulatedSlave = driver.agent(name)
            for r, total in enumerate(self._nodes[name]):
                used = sum(launch.task.request[r] for launch in agent.running.values())
                if used > total:
                    raise BrokenError(f"{name} runs tasks that ask for {used} of its {total}")


class OffersSchedule:
    """A cluster and what goes wrong in it, all from one seed."""

    def __init__(self, seed: int) -> None:
        rng = generator(seed, "faults")
        self.nodes = {f"node-{k}": NODE for k in range(int(rng.integers(2, 6)))}
        names = [f"framework-{k}" for k in range(int(rng.integers(1, 4)))]
        self.faults = _draw_faults(rng, list(self.nodes), names)
        self.network = Streams(self.faults, generator(seed, "network"))
        self.finished: Counter[str] = Counter()
        frameworks: list[Framework] = [
            ElasticFramework(name, delay_s=float(rng.choice([0.0, 5.0]))) for name in names
        ]
        self.cluster = OffersCluster(
            Master(len(NODE), _draw_rules(rng), generator(seed, "master")),
            frameworks,
            network=self.network,
            watch={JobFinished: self._on_finished},
            checkers=[OffersLedgerAddsUp(self.nodes)],
        )
        self._post(rng, names)

    def _on_finished(self, finished: JobFinished, now: float) -> None:
        self.finished[finished.job] += 1

    def _post(self, rng: np.random.Generator, names: list[str]) -> None:
        """Nodes join, frameworks register and get their jobs; then the faults."""
        for node, total in self.nodes.items():
            self.cluster.post(NodeJoined(node, total), 0.0)
        for name in names:
            guaranteed = float(rng.choice([0.0, 0.3]))
            self.cluster.post(Register(name, float(rng.integers(1, 4)), guaranteed), 0.0)
        self.jobs = {f"job-{k}" for k in range(int(rng.integers(2, 8)))}
        for job in sorted(self.jobs):
            submit = Submit(str(rng.choice(names)), _draw_job(rng, job, list(self.nodes)))
            self.cluster.post(submit, float(rng.uniform(0, FAULTS_S)))
        self.cluster.driver.inflict(FaultSettings(pauses=self.faults.pauses))
        for crash in self.faults.crashes:
            self.cluster.driver.at(crash.at_s, self._crash, crash)

    def _crash(self, crash: Crash) -> None:
        """A node's tasks end with it. The master hears of a dead node a little later, and of one
        that comes back when its new connection stands."""
        driver = self.cluster.driver
        if not driver.is_up(crash.name):
            return
        driver.crash(crash.name, math.inf if crash.down_s == math.inf else None)
        if crash.down_s == math.inf:
            self.cluster.post(NodeLeft(crash.name), driver.now + 10.0)
        else:
            driver.at(driver.now + crash.down_s, self._rejoin, crash.name)

    def _rejoin(self, name: str) -> None:
        driver = self.cluster.driver
        if not driver.is_up(name) and not driver.is_gone(name):
            driver.start(name)
            driver.tell(MASTER, NodeJoined(name, self.nodes[name]))

    def check_end(self) -> None:
        """Every job has finished once, and nothing is held, offered or being stopped."""
        if self.finished != Counter(self.jobs):
            raise BrokenError(f"jobs finished {dict(self.finished)} of {sorted(self.jobs)}")
        master = self.cluster.master
        if master.ledger.tasks or master.stopping:
            raise BrokenError(f"the master still holds {list(master.ledger.tasks)}")


def _draw_faults(
    rng: np.random.Generator, nodes: list[str], frameworks: list[str]
) -> FaultSettings:
    """The first node never dies, so that all jobs can end."""
    crashes = [
        Crash(float(rng.uniform(0, FAULTS_S)), str(rng.choice(nodes)), float(rng.exponential(20.0)))
        for _ in range(int(rng.integers(0, 6)))
    ]
    if rng.random() < 0.5:
        crashes.append(Crash(float(rng.uniform(0, FAULTS_S)), nodes[-1], math.inf))
    names = [*nodes, *frameworks, MASTER]
    pauses = tuple(
        Pause(float(rng.uniform(0, FAULTS_S)), str(rng.choice(names)), float(rng.exponential(10.0)))
        for _ in range(int(rng.integers(0, 5)))
    )
    jitter_s = float(rng.choice([0.0, 0.1, 2.0]))
    return FaultSettings(jitter_s=jitter_s, crashes=tuple(crashes), pauses=pauses, end_s=FAULTS_S)


def _draw_rules(rng: np.random.Generator) -> Rules:
    return Rules(
        ALLOCATORS[str(rng.choice(sorted(ALLOCATORS)))],
        period_s=float(rng.choice([0.0, 2.0])),
        timeout_s=float(rng.choice([0.0, 5.0])),
        min_offer=(int(rng.choice([1, 2])),),
        short_share=float(rng.choice([0.0, 0.25])),
        short_max_s=15.0,
        revoke_after_s=float(rng.choice([10.0, math.inf])),
    )


def _draw_job(rng: np.random.Generator, name: str, nodes: list[str]) -> Job:
    """One or two stages of tasks, some short, some with data on a node."""
    stages = tuple(
        tuple(_draw_task(rng, nodes) for _ in range(int(rng.integers(1, 8))))
        for _ in range(int(rng.integers(1, 3)))
    )
    return Job(name, stages)


def _draw_task(rng: np.random.Generator, nodes: list[str]) -> TaskSpec:
    local = frozenset({str(rng.choice(nodes))}) if rng.random() < 0.3 else frozenset()
    request = (int(rng.integers(1, 4)), int(rng.integers(1, 6)))
    return TaskSpec(request, float(rng.uniform(1, 30)), local, short=bool(rng.random() < 0.3))


def run_schedule(seed: int) -> dict[str, Any]:
    """One schedule; `BrokenError` says what went wrong and which command repeats it."""
    schedule = OffersSchedule(seed)
    driver = schedule.cluster.driver
    try:
        driver.run(END_S)
        driver.finish()
        schedule.check_end()
    except AssertionError as error:
        command = f"murmur faults --protocol offers --schedules 1 --seed {seed}"
        raise BrokenError(f"{error} (at {driver.now:.3f} s; repeat with: {command})") from error
    return {
        "seed": seed,
        "nodes": len(schedule.nodes),
        "jobs_finished": len(schedule.jobs),
        "crashes": len(schedule.faults.crashes),
        "pauses": len(schedule.faults.pauses),
        "messages": schedule.network.sent,
        "messages_lost": schedule.network.lost,
    }
