"""The master: what it offers to whom, when, and what it takes back."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schedulers.offers.effects import messages

from murmuration.base.random import generator
from murmuration.schedulers.agent import Wake
from murmuration.schedulers.offers.allocators import priority
from murmuration.schedulers.offers.master import Master, Rules
from murmuration.schedulers.offers.messages import (
    CommitTasks,
    Committed,
    Filters,
    FrameworkGone,
    GetGuaranteedShare,
    GuaranteedShare,
    KillTask,
    LaunchTask,
    NodeJoined,
    NodeLeft,
    NodeLost,
    OfferRescinded,
    Reconcile,
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
        out = messages(self.master.handle(event, now))
        self.master.check()
        return out

    def needs(self, framework: str, now: float = 0.0) -> list[Any]:
        return self.tell(SetNeedsOffers(framework, True), now)

    def reply(
        self, framework: str, offer: int, *tasks: Task, now: float = 0.0, refuse_s: float = 5.0
    ) -> list[Any]:
        return self.tell(ReplyToOffer(framework, offer, tasks, refuse_s), now)

    def launch(self, framework: str, *tasks: Task, now: float = 0.0) -> list[Any]:
        """Have the framework ask for an offer and launch tasks on it, and ask no more."""
        (offer,) = (m for m in self.needs(framework, now) if isinstance(m, ResourceOffer))
        self.tell(SetNeedsOffers(framework, False), now)
        return self.reply(framework, offer.offer, *tasks, now=now)


def offers(said: list[Any]) -> list[ResourceOffer]:
    return [message for message in said if isinstance(message, ResourceOffer)]


def test_the_example_of_figure_5_2() -> None:
    """4 CPU and 4 GB are offered to framework 1, which uses 3 and 3; the rest goes to framework
    2."""
    master = Master(2, Rules(), generator(1, "master"))
    master.handle(NodeJoined("node", (4, 4)), 0.0)
    master.handle(SetNeedsOffers("one", True), 0.0)
    (offer,) = master.offers.values()
    assert offer == ResourceOffer("one", offer.offer, (part("node", 4, 4),))
    assert master.handle(SetNeedsOffers("two", True), 0.0) == []
    first, second = Task("1", "node", (2, 1)), Task("2", "node", (1, 2))
    answer = messages(master.handle(ReplyToOffer("one", offer.offer, (first, second)), 0.0))
    assert answer[:2] == [LaunchTask("one", first), LaunchTask("one", second)]
    (rest,) = offers(answer)
    assert rest == ResourceOffer("two", rest.offer, (part("node", 1, 1),))


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
    assert offers(cluster.tell(TaskReport("a", "t", Status.FINISHED), 8.0))[0].slices == (
        part("n0", 4, 8),
    )


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


def test_a_reply_that_a_busy_master_hears_late_still_counts() -> None:
    cluster = Cluster(frameworks="a", timeout_s=5)
    (offer,) = offers(cluster.needs("a"))
    # It has arrived in time; the master was busy and has not been woken since.
    said = cluster.reply("a", offer.offer, Task("t", "n0", (1, 1)), now=60.0)
    assert LaunchTask("a", Task("t", "n0", (1, 1))) in said
    assert not any(isinstance(m, OfferRescinded) for m in said)


@settings(deadline=None, max_examples=60)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["reply", "need", "filter", "leave", "wake"]),
            st.sampled_from("abcd"),
            st.integers(0, 2),
        ),
        max_size=40,
    )
)
def test_who_is_asked_about_a_node_is_who_would_look_at_it(steps: list[Any]) -> None:
    cluster = Cluster(nodes=3, frameworks="abcd", timeout_s=5)
    master = cluster.master
    for at, (what, name, size) in enumerate(steps):
        now = 1.5 * at
        match what:
            case "reply":
                for offer in [o for o in master.offers.values() if o.framework == name]:
                    tasks = [Task(f"t{at}", offer.slices[0].node, (size, 1))] if size else []
                    cluster.reply(name, offer.offer, *tasks, now=now, refuse_s=4.0 * size)
            case "need":
                cluster.tell(SetNeedsOffers(name, size > 0), now)
            case "filter":
                cluster.tell(SetFilters(name, Filters(at_least=(size, 0))), now)
            case "leave":
                cluster.tell(Unregister(name), now)
            case "wake":
                cluster.tell(Wake(), now)
        for node in master.ledger.nodes:
            free = master.ledger.available(node)
            looking = [c.looks_at(free, master._now) for c in master.clients.values()]
            assert master._demand.find(free, master._now).tolist() == looking


def test_an_offer_counts_toward_the_share() -> None:
    """5.2.5: a has one node on offer and b nothing, so what comes free is b's although a holds no
    task."""
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
    assert cluster.tell(TaskReport("a", "u", Status.FINISHED)) == [
        StatusUpdate("a", "u", Status.FINISHED)
    ]
    assert len(offers(cluster.tell(TaskReport("a", "t", Status.FINISHED)))) == 1
    assert len(offers(cluster.tell(NodeJoined("small", (2, 2))))) == 1


def test_what_is_reserved_for_short_tasks_is_shown_and_kept() -> None:
    cluster = Cluster(short_share=0.25, short_max_s=30.0)
    (offer,) = offers(cluster.needs("a"))
    assert (offer.slices, offer.limit_s) == ((Slice("n0", (4, 8), (3, 6)),), 30.0)
    long, short = (
        [Task(f"l{i}", "n0", (1, 1)) for i in range(4)],
        Task("s", "n0", (1, 1), short=True),
    )
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
    assert [offers(cluster.tell(NodeJoined(f"n{i}", NODE)))[0].framework for i in range(3)] == [
        "b"
    ] * 3


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
    cluster.tell(
        NodeJoined("n0", NODE, (("a", Task("t", "n0", (3, 3))), ("a", Task("u", "n0", (1, 1)))))
    )
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
    """a holds 3 of 4 CPUs of each of two nodes (newest on n1), b and c nothing; a and b are
    guaranteed a quarter."""
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
    """One task of a may be revoked, for it has all of the cluster; the two that b would need may
    not."""
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


def launched(cluster: Cluster, name: str = "t") -> ResourceOffer:
    """A task of framework a runs on the only node, by the offer that is returned."""
    offer = next(m for m in cluster.tell(SetNeedsOffers("a", True)) if isinstance(m, ResourceOffer))
    reply = ReplyToOffer("a", offer.offer, (Task(name, "n0", (1, 1)),))
    assert LaunchTask("a", reply.tasks[0]) in cluster.tell(reply)
    return offer


def test_a_framework_that_was_away_hears_how_its_tasks_ended() -> None:
    cluster = Cluster()
    launched(cluster)
    assert cluster.tell(Reconcile("a", ("t",))) == []  # it runs
    cluster.tell(TaskReport("a", "t", Status.FINISHED))
    assert cluster.tell(Reconcile("a", ("t",))) == [StatusUpdate("a", "t", Status.FINISHED)]


def test_a_task_that_nobody_has_is_lost_only_when_all_nodes_are_known() -> None:
    cluster = Cluster()
    cluster.master.knows_all_s = 10.0
    assert cluster.tell(Reconcile("a", ("t",)), 9.9) == []
    (update,) = cluster.tell(Reconcile("a", ("t",)), 10.0)
    assert update == StatusUpdate("a", "t", Status.LOST, "no node has it")


def test_a_reply_and_a_transaction_that_come_twice_are_carried_out_once() -> None:
    cluster = Cluster()
    offer = launched(cluster)
    again = ReplyToOffer("a", offer.offer, (Task("t", "n0", (1, 1)),))
    assert not [m for m in cluster.tell(again) if isinstance(m, StatusUpdate | LaunchTask)]
    commit = CommitTasks("b", 1, (Task("u", "n0", (1, 1)),), (10,))
    cluster.tell(SetNeedsOffers("a", False))
    cluster.tell(FrameworkGone("a"))
    assert [type(m) for m in cluster.tell(commit)] == [Committed, LaunchTask]
    assert cluster.tell(commit) == []
    # What ended may be run again under its name, by another transaction.
    cluster.tell(TaskReport("b", "u", Status.FINISHED))
    later = CommitTasks("b", 2, commit.tasks, (10,))
    assert [type(m) for m in cluster.tell(later)] == [Committed, LaunchTask]


def test_offers_go_back_when_a_framework_goes_or_comes_back() -> None:
    for event in (FrameworkGone("a"), Register("a")):
        cluster = Cluster()
        (offer,) = cluster.tell(SetNeedsOffers("a", True))
        assert OfferRescinded("a", offer.offer) in cluster.tell(event)
