"""Whatever frameworks and nodes do, the master's books add up."""

from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.schedulers.offers.effects import messages

from murmuration.base.random import generator
from murmuration.schedulers.agent import Wake
from murmuration.schedulers.offers.allocators import ALLOCATORS
from murmuration.schedulers.offers.master import Master, Rules
from murmuration.schedulers.offers.messages import (
    Filters,
    KillTask,
    LaunchTask,
    NodeJoined,
    NodeLeft,
    OfferRescinded,
    Register,
    ReplyToOffer,
    ResourceOffer,
    SetFilters,
    SetNeedsOffers,
    Status,
    StatusUpdate,
    StopTask,
    Task,
    TaskReport,
    Unregister,
)

FRAMEWORK = st.sampled_from(["f0", "f1", "f2"])


class Faults(RuleBasedStateMachine):
    """Random frameworks and nodes against a master. The test keeps books of its own and
    compares."""

    @initialize(
        allocator=st.sampled_from(sorted(ALLOCATORS)),
        timeout_s=st.sampled_from([0.0, 4.0]),
        period_s=st.sampled_from([0.0, 2.0]),
        short_share=st.sampled_from([0.0, 0.25]),
        min_cpu=st.sampled_from([1, 3]),
        revoke_after_s=st.sampled_from([0.0, 3.0, math.inf]),
    )
    def begin(
        self,
        allocator: str,
        timeout_s: float,
        period_s: float,
        short_share: float,
        min_cpu: int,
        revoke_after_s: float,
    ) -> None:
        rules = Rules(
            ALLOCATORS[allocator],
            period_s,
            timeout_s,
            (min_cpu,),
            short_share,
            3.0,
            revoke_after_s=revoke_after_s,
        )
        self.master = Master(2, rules, generator(3, "faults"))
        self.now = 0.0
        self.serial = 0
        self.guaranteed = {"f0": 0.5, "f1": 0.3, "f2": 0.0}
        self.total: dict[str, tuple[int, ...]] = {}
        self.held: dict[tuple[str, str], Task] = {}
        self.stopping: set[tuple[str, str]] = set()
        self.open: dict[int, ResourceOffer] = {}
        self.closed: dict[int, str] = {}
        for _ in range(3):
            self.node_joins(4, 6)
        for weight, (name, guaranteed) in enumerate(self.guaranteed.items(), start=1):
            self.tell(Register(name, weight, guaranteed))
            self.tell(SetNeedsOffers(name, True))

    def tell(self, event: Any) -> list[Any]:
        if isinstance(event, ReplyToOffer):
            self.close(event.offer)
        out = messages(self.master.handle(event, self.now))
        for message in out:
            self.note(message)
        return out

    def note(self, message: Any) -> None:
        if isinstance(message, ResourceOffer):
            assert message.offer not in self.open and message.offer not in self.closed
            self.open[message.offer] = message
        elif isinstance(message, OfferRescinded):
            assert self.open[message.offer].framework == message.framework
            self.close(message.offer)
        elif isinstance(message, LaunchTask):
            self.held[message.framework, message.task.task] = message.task
        elif (
            isinstance(message, StatusUpdate)
            and message.status is Status.LOST
            and "was lost" in message.reason
        ):
            self.end((message.framework, message.task))
        elif isinstance(message, StopTask):
            key = (message.framework, message.task)
            if self.master.stopping[key][0] is Status.REVOKED:
                assert self.share(message.framework) > self.guaranteed[message.framework]
            self.stopping.add(key)

    def close(self, offer: int) -> None:
        if offer in self.open:
            self.closed[offer] = self.open.pop(offer).framework

    def end(self, key: tuple[str, str]) -> None:
        del self.held[key]
        self.stopping.discard(key)

    def share(self, framework: str) -> float:
        """The dominant share of what a framework will keep."""
        keeps = [
            t.request
            for key, t in self.held.items()
            if key[0] == framework and key not in self.stopping
        ]
        return max(
            sum(q[r] for q in keeps) / sum(t[r] for t in self.total.values()) for r in range(2)
        )

    @rule(cpu=st.integers(1, 8), memory=st.integers(1, 8))
    def node_joins(self, cpu: int, memory: int) -> None:
        self.serial += 1
        self.total[f"n{self.serial}"] = (cpu, memory)
        self.tell(NodeJoined(f"n{self.serial}", (cpu, memory)))

    @rule(data=st.data())
    def node_leaves(self, data: st.DataObject) -> None:
        if len(self.total) > 2:
            node = data.draw(st.sampled_from(sorted(self.total)))
            del self.total[node]
            self.tell(NodeLeft(node))
            assert all(task.node != node for task in self.held.values())

    @rule(framework=FRAMEWORK, needs=st.booleans())
    def framework_needs(self, framework: str, needs: bool) -> None:
        self.tell(SetNeedsOffers(framework, needs))

    @rule(
        framework=FRAMEWORK, listed=st.none() | st.sets(st.integers(0, 3)), least=st.integers(0, 3)
    )
    def framework_filters(self, framework: str, listed: set[int] | None, least: int) -> None:
        names = (
            None
            if listed is None
            else frozenset(n for i, n in enumerate(self.total) if i in listed)
        )
        self.tell(SetFilters(framework, Filters(names, (least,))))
        for message in self.tell(SetNeedsOffers(framework, True)):
            if isinstance(message, ResourceOffer) and message.framework == framework:
                assert all(names is None or part.node in names for part in message.slices)
                assert all(part.amount[0] >= least for part in message.slices)

    @rule(data=st.data())
    def framework_replies(self, data: st.DataObject) -> None:
        if not self.open:
            return
        offer = self.open[data.draw(st.sampled_from(sorted(self.open)))]
        requests = st.tuples(st.integers(0, 3), st.integers(0, 3))
        tasks = []
        for part in offer.slices:
            for request, short in data.draw(
                st.lists(st.tuples(requests, st.booleans()), min_size=1, max_size=4)
            ):
                self.serial += 1
                tasks.append(Task(f"t{self.serial}", part.node, request, short))
        self.tell(
            ReplyToOffer(
                offer.framework, offer.offer, tuple(tasks), data.draw(st.sampled_from([0.5, 5.0]))
            )
        )

    @rule(data=st.data())
    def reply_comes_too_late_or_from_another(self, data: st.DataObject) -> None:
        known = [*self.closed.items(), *((o.offer, "stranger") for o in self.open.values())]
        if known:
            offer, framework = data.draw(st.sampled_from(known))
            # Straight to the master: the reply of a stranger does not close an offer.
            late = ReplyToOffer(framework, offer, (Task("late", "n0", (0, 0)),))
            out = messages(self.master.handle(late, self.now))
            assert not any(isinstance(message, LaunchTask) for message in out)
            for message in out:
                self.note(message)

    @rule(data=st.data(), status=st.sampled_from([Status.FINISHED, Status.FAILED]))
    def task_ends(self, data: st.DataObject, status: Status) -> None:
        if self.held:
            key = data.draw(st.sampled_from(sorted(self.held)))
            self.end(key)
            self.tell(TaskReport(*key, status))

    @rule()
    def stopped_tasks_end(self) -> None:
        for key in sorted(self.stopping):
            if key in self.held:
                self.end(key)
                self.tell(TaskReport(*key, Status.KILLED))

    @rule(data=st.data())
    def framework_kills(self, data: st.DataObject) -> None:
        if self.held:
            self.tell(KillTask(*data.draw(st.sampled_from(sorted(self.held)))))

    @rule(framework=FRAMEWORK)
    def framework_leaves(self, framework: str) -> None:
        self.tell(Unregister(framework))

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0]))
    def time_passes(self, seconds: float) -> None:
        until = self.now + seconds
        while self.master.due <= until:
            self.now = max(self.now, self.master.due)
            self.tell(Wake())
            assert self.master.due > self.now, "a wake that changes nothing would repeat for ever"
        self.now = until

    @invariant()
    def the_books_add_up(self) -> None:
        if not hasattr(self, "master"):
            return
        self.master.check()
        left = {node: list(total) for node, total in self.total.items()}
        claims = [(task.node, task.request) for task in self.held.values()]
        claims += [
            (part.node, part.amount) for offer in self.open.values() for part in offer.slices
        ]
        for node, amount in claims:
            left[node] = [have - take for have, take in zip(left[node], amount, strict=True)]
        assert all(amount >= 0 for row in left.values() for amount in row), (
            "a node is over-committed"
        )
        assert set(self.master.offers) == set(self.open)
        assert {(key[0], key[1]) for key in self.master.ledger.tasks} == set(self.held)


Faults.TestCase.settings = settings(
    max_examples=70, stateful_step_count=50, deadline=None, derandomize=True
)
TestFaults = Faults.TestCase
