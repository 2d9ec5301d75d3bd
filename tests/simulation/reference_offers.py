"""The plain simulator of offers: each outstanding offer is a whole table of amounts, each framework
a list of jobs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tests.simulation.reference import Agent, Job, Reference

from murmuration.base.random import generator
from murmuration.cluster.constraints import node_mask, parse_constraint
from murmuration.schedulers.offers.allocators import ALLOCATORS
from murmuration.simulation.architectures.offers.settings import FrameworkRules, OfferRules
from murmuration.simulation.scenarios import scenario as sc

#: A framework looks at this many jobs of its queue at most before something must change.
LOOKS_MAX = 16
SLOTS = 32


@dataclass(eq=False)
class Offer:
    """What one framework may use: taken out of what is available, until it answers or is too
    late."""

    amounts: NDArray[np.int64]
    rescinded: bool = False


@dataclass
class Framework(Agent):
    rules: FrameworkRules = field(default_factory=FrameworkRules)
    refusals: int = 0
    #: Offers it has not answered; one, or several where it takes offers while it is still deciding.
    offers: list[Offer] = field(default_factory=list)


class OffersReference(Reference):
    """One framework per workload; an allocator offers all that is available to the one its policy
    chooses."""

    def __init__(self, tables: dict[str, Any]) -> None:
        super().__init__(tables)
        offers = self.rules.settings_of(OfferRules)
        self.total = self.nodes.total.sum(axis=0)
        self.draws = generator(self.scenario.seed, "scheduler", "/allocator")
        self.long_free = np.floor(self.nodes.total * (1.0 - offers.short_share)).astype(np.int64)
        self.offering = False
        self.made = self.rejected = self.rescinded = self.killed = 0

    def make_agents(self) -> list[Agent]:
        default = self.rules.decision.get("default", sc.DecisionTime())
        every = np.ones(len(self.free), dtype=np.bool_)
        return [
            Framework(
                name,
                [name],
                {name: self.rules.decision.get(name, default)},
                every,
                np.random.default_rng(0),
                rules=self.rules.settings_of(OfferRules).framework.get(name, FrameworkRules()),
            )
            for name in self.list.workloads
        ]

    def frameworks(self) -> list[Framework]:
        return [agent for agent in self.agents if isinstance(agent, Framework)]

    def wants(self, framework: Framework) -> bool:
        most = SLOTS if self.rules.settings_of(OfferRules).double_booked else 1
        looks = min(len(framework.queue), LOOKS_MAX)
        return framework.refusals < looks and len(framework.offers) < most

    def next(self, agent: Agent) -> None:
        """A job came back: an offer is made if someone wants one and none is in the making."""
        if not self.offering and any(map(self.wants, self.frameworks())):
            rules, at = self.rules.settings_of(OfferRules), self.now
            if rules.period_s > 0.0:
                at = max(math.ceil(at / rules.period_s) * rules.period_s, at)
            self.offering = True
            self.at(at + rules.offer_time_s, self.offer)

    def changed(self) -> None:
        for framework in self.frameworks():
            framework.refusals = 0
        self.next(self.agents[0])

    def arrive(self, job: Job) -> None:
        for framework in self.frameworks():
            if framework is self.owner[job.row] and self.can_ever_run(job):
                framework.refusals = 0
        super().arrive(job)

    def offer(self) -> None:
        self.offering = False
        frameworks, draw = self.frameworks(), self.draws.random()
        held = np.stack([self.held[f.name] for f in frameworks])
        offered = np.stack([self.offered(f) for f in frameworks])
        weight = np.array([f.rules.weight for f in frameworks])
        wants = np.array([self.wants(f) for f in frameworks])
        chosen = ALLOCATORS[self.rules.settings_of(OfferRules).allocator](
            held, offered, self.total, weight, wants, draw
        )
        if chosen >= 0:
            self.open(frameworks[chosen])
            self.next(self.agents[0])

    def offered(self, framework: Framework) -> NDArray[np.int64]:
        """What it has been offered counts toward its share, whatever it is going to use of it."""
        if self.rules.settings_of(OfferRules).optimistic:
            return np.zeros(len(self.total), dtype=np.int64)
        amount = np.zeros(len(self.total), dtype=np.int64)
        for offer in framework.offers:
            amount += 0 if offer.rescinded else offer.amounts.sum(axis=0)
        return amount

    def cpu_offered(self) -> int:
        return int(sum(self.offered(framework)[0] for framework in self.frameworks()))

    def open(self, framework: Framework) -> None:
        """An offer of nothing is none; one in which nothing fits is rejected at once, and the next
        job is tried."""
        amounts = np.where(self.passing(framework)[:, None], self.free, 0)
        if not amounts.any():
            framework.refusals = LOOKS_MAX
            return
        self.made += 1
        job = framework.queue[framework.refusals]
        chosen = self.choose(framework, job, self.usable(job, amounts))
        if len(chosen) == 0:
            self.rejected += 1
            framework.refusals += 1
        else:
            self.consider(framework, job, Offer(amounts), chosen)

    def passing(self, framework: Framework) -> NDArray[np.bool_]:
        rules, least = framework.rules, self.nodes.resources
        cpu = max(
            least.exact("cpu", self.rules.settings_of(OfferRules).min_cpu),
            least.exact("cpu", rules.filter_cpu),
        )
        mask = node_mask([parse_constraint(text) for text in rules.filter], self.nodes.attributes)
        return mask & (self.free[:, 0] >= cpu)

    def is_short(self, job: Job) -> bool:
        rules = self.rules.settings_of(OfferRules)
        declared = rules.framework.get(self.name(job), FrameworkRules()).short
        return bool(declared or self.list.duration_s[job.row] <= rules.short_max_s)

    def usable(self, job: Job, amounts: NDArray[np.int64]) -> NDArray[np.int64]:
        if self.rules.settings_of(OfferRules).short_share == 0.0 or self.is_short(job):
            return amounts
        left: NDArray[np.int64] = np.minimum(amounts, np.maximum(self.long_free, 0))
        return left

    def consider(
        self, framework: Framework, job: Job, offer: Offer, chosen: NDArray[np.int64]
    ) -> None:
        """The framework decides, and holds the offer until it answers or is too late."""
        framework.queue.remove(job)
        framework.offers.append(offer)
        if not self.rules.settings_of(OfferRules).optimistic:
            self.free -= offer.amounts
        job.attempts += 1
        job.first = self.now if math.isnan(job.first) else job.first
        times, timeout, began = (
            framework.times[self.name(job)],
            self.rules.settings_of(OfferRules).timeout_s,
            self.now,
        )
        lasts = times.job_time_s + times.task_time_s * job.left
        self.at(self.now + lasts, lambda: self.answer(framework, job, offer, chosen, began))
        if 0.0 < timeout < lasts:
            self.at(self.now + timeout, lambda: self.rescind(offer))

    def rescind(self, offer: Offer) -> None:
        self.rescinded += 1
        offer.rescinded = True
        if not self.rules.settings_of(OfferRules).optimistic:
            self.free += offer.amounts
        self.changed()

    def answer(
        self, framework: Framework, job: Job, offer: Offer, chosen: NDArray[np.int64], began: float
    ) -> None:
        self.events += 1
        framework.offers.remove(offer)
        accepted: list[int] = []
        if offer.rescinded:
            self.busy[self.name(job)] += self.now - began
        elif self.rules.settings_of(OfferRules).optimistic:
            accepted = self.commit(job, chosen, self.sequence[chosen])
            self.count(job, len(chosen), len(accepted), self.now - began)
        else:
            accepted = [int(node) for node in chosen]
            self.free += offer.amounts
            np.subtract.at(self.free, chosen, self.list.request[job.row])
            self.count(job, len(chosen), len(accepted), self.now - began)
        if accepted:
            self.start(job, accepted)
        self.finish(job, len(accepted), self.now - began)
        self.changed()

    def start(self, job: Job, nodes: list[int]) -> None:
        """Long tasks count against their part of the node; tasks declared short end at the
        limit."""
        rules, lasts = self.rules.settings_of(OfferRules), float(self.list.duration_s[job.row])
        if rules.short_share > 0.0:
            if not self.is_short(job):
                np.subtract.at(self.long_free, nodes, self.list.request[job.row])
            elif lasts > rules.short_max_s:
                lasts = rules.short_max_s
                self.killed += len(nodes)
        self.placed += len(nodes)
        self.running += len(nodes)
        self.held[self.name(job)] += len(nodes) * self.list.request[job.row]
        self.at(self.now + lasts, lambda: self.tasks_end(job, nodes))

    def tasks_end(self, job: Job, nodes: list[int]) -> None:
        super().tasks_end(job, nodes)
        if self.rules.settings_of(OfferRules).short_share > 0.0 and not self.is_short(job):
            np.add.at(self.long_free, nodes, self.list.request[job.row])
        self.changed()
