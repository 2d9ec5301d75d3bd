"""The plain simulator of batched offers, written from the rules of the simulator behind the paper:
a timer, offers that are whole tables, and frameworks that try their whole queue on each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.simulation.reference import IDLE_RETRY_S, Agent, Job, Reference

from murmuration.simulation.architectures.offers.settings import OfferRules
from murmuration.simulation.scenarios import scenario as sc

Choice = tuple[Job, NDArray[np.int64]]


class BatchedReference(Reference):
    """One framework per workload. `free` is what is neither running nor locked by an offer."""

    def __init__(self, tables: dict[str, Any]) -> None:
        super().__init__(tables)
        self.offers = self.rules.settings_of(OfferRules)
        self.timer_runs = False
        self.out: list[NDArray[np.int64]] = []
        self.made = 0
        #: Tasks of each job with a node in an offer that is not answered yet.
        self.chosen = [0] * len(self.jobs)

    def make_agents(self) -> list[Agent]:
        default = self.rules.decision.get("default", sc.DecisionTime())
        every = np.ones(len(self.free), dtype=np.bool_)
        return [
            self.agent(name, [name], {name: self.rules.decision.get(name, default)}, every)
            for name in self.list.workloads
        ]

    def cpu_offered(self) -> int:
        return int(sum(offer[:, 0].sum() for offer in self.out))

    def wait(self, job: Job) -> None:
        self.insert(self.owner[job.row], job)
        self.start_timer()

    def start_timer(self) -> None:
        if not self.timer_runs:
            self.timer_runs = True
            self.at(self.now + self.offers.batch_s, self.send_offer)

    def send_offer(self) -> None:
        """To the framework with the least dominant share of running tasks, if enough is free."""
        self.timer_runs = False
        waiting = [agent for agent in self.agents if agent.queue]
        enough = max(self.nodes.resources.exact("cpu", self.offers.batch_min_cpu, "min"), 1)
        if waiting and self.free[:, 0].sum() >= enough:
            self.made += 1
            agent = min(waiting, key=self.dominant_share)
            offer = self.free.copy()
            self.free[:] = 0
            self.out.append(offer)
            self.at(self.now + self.offers.offer_time_s, lambda: self.look(agent, offer))

    def dominant_share(self, agent: Agent) -> float:
        rules = self.offers.framework.get(agent.name)
        share = self.held[agent.name] / self.nodes.total.sum(axis=0)
        return float(share.max()) / (rules.weight if rules else 1.0)

    def look(self, agent: Agent, offer: NDArray[np.int64]) -> None:
        """Every job of the queue is tried on what the jobs before it left of the offer."""
        private, thinks, choices = offer.copy(), 0.0, list[Choice]()
        while agent.queue and (private.sum(axis=0) > 0).all():
            job = agent.queue.pop(0)
            job.attempts += 1
            job.first = self.now if math.isnan(job.first) else job.first
            times = agent.times[self.name(job)]
            spent = times.job_time_s + times.task_time_s * job.left
            thinks += spent
            chosen = self.choose(agent, job, private)
            np.subtract.at(private, chosen, self.list.request[job.row])
            self.events += 1
            self.count(job, len(chosen), len(chosen), spent)
            job.left -= len(chosen)
            self.chosen[job.row] += len(chosen)
            if len(chosen):
                choices.append((job, chosen))
            self.try_again(job, len(chosen))
        self.at(self.now + thinks, lambda: self.respond(offer, choices))

    def try_again(self, job: Job, placed: int) -> None:
        if job.left == 0:
            return
        rules = self.rules
        if 0 < rules.attempts_max <= job.attempts or 0 < rules.empty_attempts_max <= job.empty:
            job.status = "abandoned"
        else:
            delay = max(rules.retry_s, 0.0 if placed else IDLE_RETRY_S)
            self.at(self.now + delay, lambda: self.wait(job))

    def respond(self, offer: NDArray[np.int64], choices: list[Choice]) -> None:
        """The offer is unlocked, and all that was chosen starts."""
        self.out = [other for other in self.out if other is not offer]
        self.free += offer
        for job, chosen in choices:
            np.subtract.at(self.free, chosen, self.list.request[job.row])
            self.start(job, [int(node) for node in chosen])
            self.chosen[job.row] -= len(chosen)
            if job.left == 0 and self.chosen[job.row] == 0:
                job.full, job.status = self.now, "scheduled"
        self.start_timer()

    def tasks_end(self, job: Job, nodes: list[int]) -> None:
        super().tasks_end(job, nodes)
        self.start_timer()
