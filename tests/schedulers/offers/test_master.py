"""The master: what it offers to whom, and that its books always add up."""

from __future__ import annotations

import math
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from murmuration.cluster.random import generator
from murmuration.schedulers.offers.allocators import ALLOCATORS, priority
from murmuration.schedulers.offers.master import Master, Rules
from murmuration.schedulers.offers.messages import (
    Filters,
    GetGuaranteedShare,
    GuaranteedShare,
    KillTask,
    LaunchTask,
    NodeJoined,
    NodeLeft,
    NodeLost,
    OfferRescinded,
    Register,
    ReplyToOffer,
    ResourceOffer,
    SetFilters,
    SetNeedsOffers,
    Slice,
    Status,
    StatusUpdate,
    StopTask,
    Task,
    TaskReport,
    Unregister,
    Wake,
)

NODE = (4, 8)


def part(node: str, cpu: int, memory: int) -> Slice:
    return Slice(node, (cpu, memory), (cpu, memory))


class Cluster:
    """A master with some nodes and frameworks; every step checks the books."""

    def __init__(self, nodes: int = 1, frameworks: str = "ab", **rules: Any) -> None:
        self.master = Master(2, Rules(**rules), generator(1, "master"))
        for i in range(nodes):
            self.tell(NodeJoined(f"n{i}", NODE))
        for name in frameworks:
            self.tell(Register(name))

    def tell(self, event: Any, now: float = 0.0) -> list[Any]:
        out = self.master.handle(event, now)
        self.master.check()
        return out

    def needs(self, framework: str, now: float = 0.0) -> list[Any]:
        return self.tell(SetNeedsOffers(framework, True), now)

    def reply(self, framework: str, offer: int, *tasks: Task, now: float = 0.0, refuse_s: float = 5.0) -> list[Any]:
        return self.tell(ReplyToOffer(framework, offer, tasks, refuse_s), now)

    def launch(self, framework: str, *tasks: Task, now: float = 0.0) -> list[Any]:
        """Have the framework ask for an offer and launch tasks on it, and ask no more."""
        (offer,) = (m for m in self.needs(framework, now) if isinstance(m, ResourceOffer))
        self.tell(SetNeedsOffers(framework, False), now)
        return self.reply(framework, offer.offer, *tasks, now=now)


def offers(messages: list[Any]) -> list[ResourceOffer]:
    return [message for message in messages if isinstance(message, ResourceOffer)]


def test_the_example_of_figure_5_2() -> None:
    """4 CPU and 4 GB are offered to framework 1, which uses 3 and 3; the rest goes to framework 2."""
    master = Master(2, Rules(), generator(1, "master"))
    master.handle(NodeJoined("slave", (4, 4)), 0.0)
    master.handle(SetNeedsOffers("one", True), 0.0)
    (offer,) = master.offers.values()
    assert offer == ResourceOffer("one", offer.offer, (part("slave", 4, 4),))
    assert master.handle(SetNeedsOffers("two", True), 0.0) == []
    first, second = Task("1", "slave", (2, 1)), Task("2", "slave", (1, 2))
    answer = master.handle(ReplyToOffer("one", offer.offer, (first, second)), 0.0)
    assert answer[:2] == [LaunchTask("one", first), LaunchTask("one", second)]
    assert offers(answer) == [ResourceOffer("two", answer[-1].offer, (part("slave", 1, 1),))]


def test_a_round_gives_nodes_in_turn_to_those_furthest_below_their_share() -> None:
    cluster = Cluster(nodes=0)
    cluster.needs("a")
    cluster.needs("b")
    given = [offers(cluster.tell(NodeJoined(f"n{i}", NODE)))[0].framework for i in range(4)]
    assert given == ["a", "b", "a", "b"]


def test_a_rejected_node_is_not_offered_again_before_its_time_unless_more_is_free() -> None:
    cluster = Cluster(frameworks="a")
    (offer,) = offers(cluster.needs("a"))
    assert cluster.reply("a", offer.offer, Task("t", "n0", (3, 2)), refuse_s=7.0) == [
        LaunchTask("a", Task("t", "n0", (3, 2)))
    ]
    assert cluster.master.due == 7.0
    assert cluster.tell(Wake(), 6.9) == []
    (again,) = offers(cluster.tell(Wake(), 7.0))
    assert again.slices == (part("n0", 1, 6),)
    cluster.reply("a", again.offer, now=7.0)
    assert offers(cluster.tell(TaskReport("a", "t", Status.FINISHED), 8.0))[0].slices == (part("n0", 4, 8),)


def test_asking_again_forgets_refusals() -> None:
    cluster = Cluster(frameworks="a")
    (offer,) = offers(cluster.needs("a"))
    assert cluster.reply("a", offer.offer) == []
    assert len(offers(cluster.needs("a"))) == 1


def test_filters_are_rejections_that_need_no_message() -> None:
    cluster = Cluster(nodes=3)
    cluster.tell(SetFilters("a", Filters(frozenset({"n1"}))))
    cluster.tell(SetFilters("b", Filters(at_least=(5,))))
    assert [o.slices for o in offers(cluster.needs("a"))] == [(part("n1", 4, 8),)]
    assert cluster.needs("b") == []
    assert len(offers(cluster.tell(SetFilters("b", Filters(at_least=(4,)))))[0].slices) == 2


def test_an_offer_is_rescinded_in_time_and_can_no_longer_launch() -> None:
    cluster = Cluster(timeout_s=10.0)
    (offer,) = offers(cluster.needs("a"))
    cluster.needs("b", now=1.0)
    assert cluster.master.due == 10.0
    out = cluster.tell(Wake(), 10.0)
    assert out[0] == OfferRescinded("a", offer.offer)
    assert offers(out)[0].framework == "b"
    late = cluster.reply("a", offer.offer, Task("t", "n0", (1, 1)), now=10.5)
    assert late == [StatusUpdate("a", "t", Status.LOST, "the offer no longer stands")]


def test_an_offer_counts_toward_the_share() -> None:
    """5.2.5: a has one node on offer and b nothing, so what comes free is b's although a holds no task."""
    cluster = Cluster()
    cluster.needs("a")
    cluster.needs("b")
    assert offers(cluster.tell(NodeJoined("n1", (1, 1))))[0].framework == "b"
    assert offers(cluster.tell(NodeJoined("n2", (1, 1))))[0].framework == "b"


@pytest.mark.parametrize(
    ("task", "why"),
    [
        (Task("t", "n0", (5, 1)), "it does not fit in the offer"),
        (Task("t", "n0", (-1, 1)), "it does not fit in the offer"),
        (Task("t", "n0", (1,)), "it does not fit in the offer"),
        (Task("t", "n9", (1, 1)), "n9 is not part of the offer"),
    ],
)
def test_a_task_that_was_not_offered_its_resources_is_lost(task: Task, why: str) -> None:
    cluster = Cluster()
    (offer,) = offers(cluster.needs("a"))
    assert cluster.reply("a", offer.offer, task) == [StatusUpdate("a", "t", Status.LOST, why)]


def test_a_name_in_use_is_refused_and_another_framework_may_use_it() -> None:
    cluster = Cluster()
    task = Task("t", "n0", (1, 1))
    assert cluster.launch("a", task, task)[1].reason == "a task of this name is running"
    assert cluster.launch("b", task) == [LaunchTask("b", task)]


def test_nothing_of_a_node_is_offered_below_the_minimum() -> None:
    """4.10; a node smaller than the minimum is offered when it is empty."""
    cluster = Cluster(frameworks="ab", min_offer=(3,))
    cluster.launch("a", Task("t", "n0", (2, 1)), Task("u", "n0", (1, 1)))
    assert cluster.needs("b") == []
    assert cluster.tell(TaskReport("a", "u", Status.FINISHED)) == [StatusUpdate("a", "u", Status.FINISHED)]
    assert len(offers(cluster.tell(TaskReport("a", "t", Status.FINISHED)))) == 1
    assert len(offers(cluster.tell(NodeJoined("small", (2, 2))))) == 1


def test_what_is_reserved_for_short_tasks_is_shown_and_kept() -> None:
    cluster = Cluster(short_share=0.25, short_max_s=30.0)
    (offer,) = offers(cluster.needs("a"))
    assert (offer.slices, offer.limit_s) == ((Slice("n0", (4, 8), (3, 6)),), 30.0)
    long, short = [Task(f"l{i}", "n0", (1, 1)) for i in range(4)], Task("s", "n0", (1, 1), short=True)
    out = cluster.reply("a", offer.offer, *long, short)
    assert [m.task.task for m in out if isinstance(m, LaunchTask)] == ["l0", "l1", "l2", "s"]
    assert cluster.tell(Wake(), 30.0) == [StopTask("a", "n0", "s")]
    gone = cluster.tell(TaskReport("a", "s", Status.KILLED), 30.1)
    assert gone[0] == StatusUpdate("a", "s", Status.KILLED, "it ran past the limit of 30 s")


def test_a_round_may_wait_for_its_period() -> None:
    cluster = Cluster(period_s=2.0)
    assert cluster.needs("a", now=0.5) == []
    assert cluster.master.due == 2.0
    assert len(offers(cluster.tell(Wake(), 2.0))) == 1


def test_the_allocator_is_pluggable() -> None:
    cluster = Cluster(allocator=priority, nodes=0)
    cluster.tell(Register("b", weight=2.0))
    cluster.needs("a")
    cluster.needs("b")
    assert [offers(cluster.tell(NodeJoined(f"n{i}", NODE)))[0].framework for i in range(3)] == ["b"] * 3


def test_a_lost_node_takes_its_tasks_and_offers_with_it() -> None:
    cluster = Cluster(nodes=2, frameworks="a")
    cluster.launch("a", Task("t", "n0", (1, 1)))
    (offer,) = offers(cluster.needs("a", now=9.0))
    out = cluster.tell(NodeLeft("n0"), 10.0)
    assert out[0] == OfferRescinded("a", offer.offer)
    assert StatusUpdate("a", "t", Status.LOST, "n0 was lost") in out
    assert NodeLost("a", "n0") in out
    assert offers(out)[0].slices == (part("n1", 4, 8),)
    assert cluster.tell(NodeLeft("n0"), 11.0) == []


def test_a_new_master_learns_what_runs_from_the_nodes() -> None:
    """5.2.6: soft state. The node that joins again keeps the tasks it still runs."""
    cluster = Cluster(nodes=0, frameworks="")
    cluster.tell(NodeJoined("n0", NODE, (("a", Task("t", "n0", (3, 3))), ("a", Task("u", "n0", (1, 1))))))
    assert cluster.needs("a") == []
    out = cluster.tell(NodeJoined("n0", NODE, (("a", Task("t", "n0", (3, 3))),)))
    assert out[0] == StatusUpdate("a", "u", Status.LOST, "n0 was lost")
    assert offers(out)[0].slices == (part("n0", 1, 5),)


def test_frameworks_read_their_guarantee_kill_and_leave() -> None:
    cluster = Cluster(nodes=3)
    cluster.tell(Register("a", guaranteed=0.25))
    assert cluster.tell(GetGuaranteedShare("a")) == [GuaranteedShare("a", (3, 6))]
    cluster.launch("a", Task("t", "n0", (1, 1)), Task("u", "n0", (1, 1)))
    assert cluster.tell(KillTask("a", "t")) == [StopTask("a", "n0", "t")]
    assert cluster.tell(KillTask("b", "u")) == []
    assert cluster.tell(Unregister("a")) == [StopTask("a", "n0", "u")]


def revocation_cluster(**rules: Any) -> Cluster:
    """a holds 3 of 4 CPUs of each of two nodes (newest on n1), b and c nothing; a and b are guaranteed a quarter."""
    cluster = Cluster(nodes=0, frameworks="", revoke_after_s=10.0, **rules)
    for name, guaranteed in (("a", 0.25), ("b", 0.25), ("c", 0.0)):
        cluster.tell(Register(name, guaranteed=guaranteed))
    for n in range(2):
        cluster.tell(NodeJoined(f"n{n}", NODE))
        cluster.launch("a", *(Task(f"{n}{i}", f"n{n}", (2, 1)) for i in range(2)))
    return cluster


def test_tasks_are_revoked_for_a_framework_that_waits_below_its_guarantee() -> None:
    cluster = revocation_cluster()
    assert cluster.needs("b", now=1.0) == []
    assert cluster.needs("c", now=1.0) == []
    assert cluster.master.due == 11.0
    assert cluster.tell(Wake(), 11.0) == [StopTask("a", "n1", "11")]
    out = cluster.tell(TaskReport("a", "11", Status.KILLED), 11.5)
    assert out[0] == StatusUpdate("a", "11", Status.REVOKED, "revoked for b")
    assert [o.framework for o in offers(out)] == ["b"]


def test_a_node_is_cleared_as_far_as_the_filter_asks_and_kept_for_whom_it_is() -> None:
    cluster = revocation_cluster()
    cluster.tell(SetFilters("b", Filters(at_least=(4,))))
    cluster.needs("b", now=1.0)
    cluster.needs("c", now=1.0)
    assert cluster.tell(Wake(), 11.0) == [StopTask("a", "n1", "11"), StopTask("a", "n1", "10")]
    assert offers(cluster.tell(TaskReport("a", "11", Status.KILLED), 11.1)) == []
    (offer,) = offers(cluster.tell(TaskReport("a", "10", Status.KILLED), 11.2))
    assert (offer.framework, offer.slices) == ("b", (part("n1", 4, 8),))


def test_no_framework_is_brought_below_its_guarantee() -> None:
    """One task of a may be revoked, for it has all of the cluster; the two that b would need may not."""
    cluster = revocation_cluster()
    cluster.tell(Register("a", guaranteed=0.75))
    cluster.tell(SetFilters("b", Filters(at_least=(4,))))
    cluster.needs("b", now=1.0)
    assert cluster.tell(Wake(), 11.0) == []
    cluster.tell(SetFilters("b", Filters()), 12.0)
    assert len(cluster.master.stopping) == 1
    assert cluster.master.due == math.inf
    cluster.tell(Wake(), 50.0)
    assert len(cluster.master.stopping) == 1


def test_a_framework_without_a_guarantee_waits() -> None:
    cluster = revocation_cluster()
    cluster.needs("c", now=1.0)
    assert cluster.master.due == math.inf
    assert cluster.tell(Wake(), 100.0) == []


FRAMEWORK = st.sampled_from(["f0", "f1", "f2"])


class Faults(RuleBasedStateMachine):
    """Random frameworks and nodes against a master. The test keeps its own books and never looks into the master's."""

    @initialize(
        allocator=st.sampled_from(sorted(ALLOCATORS)),
        timeout_s=st.sampled_from([0.0, 4.0]),
        period_s=st.sampled_from([0.0, 2.0]),
        short_share=st.sampled_from([0.0, 0.25]),
        min_cpu=st.sampled_from([1, 3]),
        revoke_after_s=st.sampled_from([0.0, 3.0, math.inf]),
    )
    def begin(
        self, allocator: str, timeout_s: float, period_s: float, short_share: float, min_cpu: int, revoke_after_s: float
    ) -> None:
        rules = Rules(
            ALLOCATORS[allocator], period_s, timeout_s, (min_cpu,), short_share, 3.0, revoke_after_s=revoke_after_s
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
        out = self.master.handle(event, self.now)
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
        elif isinstance(message, StatusUpdate) and message.status is Status.LOST and "was lost" in message.reason:
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
        keeps = [t.request for key, t in self.held.items() if key[0] == framework and key not in self.stopping]
        return max(sum(q[r] for q in keeps) / sum(t[r] for t in self.total.values()) for r in range(2))

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

    @rule(framework=FRAMEWORK, listed=st.none() | st.sets(st.integers(0, 3)), least=st.integers(0, 3))
    def framework_filters(self, framework: str, listed: set[int] | None, least: int) -> None:
        names = None if listed is None else frozenset(n for i, n in enumerate(self.total) if i in listed)
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
            for request, short in data.draw(st.lists(st.tuples(requests, st.booleans()), min_size=1, max_size=4)):
                self.serial += 1
                tasks.append(Task(f"t{self.serial}", part.node, request, short))
        self.tell(ReplyToOffer(offer.framework, offer.offer, tuple(tasks), data.draw(st.sampled_from([0.5, 5.0]))))

    @rule(data=st.data())
    def reply_comes_too_late_or_from_another(self, data: st.DataObject) -> None:
        known = [*self.closed.items(), *((o.offer, "stranger") for o in self.open.values())]
        if known:
            offer, framework = data.draw(st.sampled_from(known))
            # Straight to the master: the reply of a stranger does not close an offer.
            out = self.master.handle(ReplyToOffer(framework, offer, (Task("late", "n0", (0, 0)),)), self.now)
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
        claims += [(part.node, part.amount) for offer in self.open.values() for part in offer.slices]
        for node, amount in claims:
            left[node] = [have - take for have, take in zip(left[node], amount, strict=True)]
        assert all(amount >= 0 for row in left.values() for amount in row), "a node is over-committed"
        assert set(self.master.offers) == set(self.open)
        assert {(key[0], key[1]) for key in self.master.ledger.tasks} == set(self.held)


Faults.TestCase.settings = settings(max_examples=100, stateful_step_count=50, deadline=None, derandomize=True)
TestFaults = Faults.TestCase
