"""The ledger: rows and shares change together, and what is free, offered and held adds up."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration.schedulers.offers.ledger import Ledger, fits
from murmuration.schedulers.offers.messages import Slice, Task

NODE = (8, 16)


def ledger(short_share: float = 0.0) -> Ledger:
    made = Ledger(2, short_share)
    made.add_framework("a")
    made.add_framework("b")
    made.add_node("n0", NODE)
    made.add_node("n1", NODE)
    return made


def task(
    name: str = "t", node: str = "n0", cpu: int = 3, memory: int = 4, short: bool = False
) -> Task:
    return Task(name, node, (cpu, memory), short)


def test_a_task_takes_from_its_node_and_gives_back_the_same() -> None:
    made = ledger()
    made.start("a", task())
    assert made.available("n0") == Slice("n0", (5, 12), (5, 12))
    assert made.allocated.tolist() == [[3, 4], [0, 0]]
    made.check([])
    assert made.end(("a", "t")).task == task()
    assert made.available("n0") == Slice("n0", NODE, NODE) and not made.allocated.any()


def test_what_is_on_offer_is_out_of_reach_and_counts_as_offered() -> None:
    made = ledger()
    part = made.available("n0")
    made.hold("b", part)
    assert made.available("n0").amount == (0, 0)
    assert made.offered.tolist() == [[0, 0], [8, 16]]
    made.check([("b", part)])
    with pytest.raises(AssertionError, match="do not add up"):
        made.check([])
    made.give_back("b", part)
    made.check([])


def test_a_share_of_each_node_is_for_short_tasks() -> None:
    made = ledger(short_share=0.25)
    assert made.available("n0") == Slice("n0", NODE, (6, 12))
    made.start("a", task("long", cpu=6, memory=1))
    assert made.available("n0") == Slice("n0", (2, 15), (0, 11))
    made.start("a", task("short", cpu=2, memory=1, short=True))
    assert made.available("n0").amount == (0, 14)
    made.check([])
    with pytest.raises(AssertionError, match="over-committed"):
        made.start("b", task("one too many", cpu=1))
        made.check([])


def test_a_short_task_leaves_the_others_share_alone_until_the_node_is_full() -> None:
    made = ledger(short_share=0.25)
    made.start("a", task("short", cpu=7, memory=1, short=True))
    assert made.available("n0").unlimited == (1, 12), "no more than there is"


def test_only_assignments_raise_the_sequence_number() -> None:
    made = ledger()
    made.start("a", task())
    made.end(("a", "t"))
    made.hold("a", made.available("n0"))
    assert (made.nodes["n0"].sequence, made.nodes["n1"].sequence) == (1, 0)


def test_a_dropped_node_takes_its_tasks_along() -> None:
    made = ledger()
    made.start("a", task("x"))
    made.start("b", task("y", "n1"))
    assert [held.task.task for held in made.drop_node("n0")] == ["x"]
    assert made.total.tolist() == list(NODE) and list(made.tasks) == [("b", "y")]
    made.check([])


STEPS = st.lists(
    st.tuples(
        st.sampled_from("ab"), st.sampled_from(["n0", "n1"]), st.integers(1, 4), st.booleans()
    ),
    max_size=30,
)


@given(STEPS, st.sampled_from([0.0, 0.25, 0.5]))
def test_whatever_fits_can_be_started_and_everything_adds_up(
    steps: list[tuple[str, str, int, bool]], short_share: float
) -> None:
    """Against a count by hand: long tasks share what is not reserved, all tasks share the node."""
    made, running = ledger(short_share), list[tuple[str, Task]]()
    for k, (framework, node, cpu, short) in enumerate(steps):
        new = task(f"t{k}", node, cpu, 1, short)
        here = [t for _, t in running if t.node == node]
        long_cpu = sum(t.request[0] for t in here if not t.short)
        room = sum(t.request[0] for t in here) + cpu <= NODE[0]
        if not short:
            room &= long_cpu + cpu <= int(NODE[0] * (1 - Fraction(short_share)))
        memory = len(here) + 1 <= (NODE[1] if short else int(NODE[1] * (1 - Fraction(short_share))))
        part = made.available(node)
        if room and memory:
            assert fits(new.request, part.amount if short else part.unlimited)
            made.start(framework, new)
            running.append((framework, new))
        made.check([])
    for framework, old in running:
        made.end((framework, old.task))
    assert not made.allocated.any() and made.available("n0").amount == NODE
