"""Transactions on the ledger, against the rule of the paper read one task at a time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from murmuration.schedulers.offers.ledger import Ledger
from murmuration.schedulers.offers.messages import CommitTasks, Task
from murmuration.schedulers.offers.transactions import accept_tasks

NODES = ("a", "b", "c")
amounts = st.tuples(st.integers(0, 4), st.integers(0, 4))


def make_ledger(totals: list[tuple[int, int]], short_share: float = 0.0) -> Ledger:
    ledger = Ledger(2, short_share)
    ledger.add_framework("f")
    for node, total in zip(NODES, totals, strict=True):
        ledger.add_node(node, total)
    return ledger


def accept_one_by_one(ledger: Ledger, event: CommitTasks) -> list[str]:
    """Every task in its turn: its row is as it was read (where whole rows conflict), and what those
    before it have left is enough."""
    left = {node: list(row.available) for node, row in ledger.nodes.items()}
    accepted = []
    for task, seen in zip(event.tasks, event.seen, strict=True):
        is_stale = event.machine and ledger.nodes[task.node].sequence != seen
        if is_stale or any(
            need > have for need, have in zip(task.request, left[task.node], strict=True)
        ):
            continue
        left[task.node] = [
            have - need for need, have in zip(task.request, left[task.node], strict=True)
        ]
        accepted.append(task.task)
    return [] if event.atomic and len(accepted) < len(event.tasks) else accepted


@given(
    st.lists(amounts, min_size=3, max_size=3),
    st.lists(st.tuples(st.sampled_from(NODES), amounts, st.booleans()), max_size=8),
    st.lists(st.sampled_from(NODES), max_size=2),
    st.booleans(),
    st.booleans(),
)
def test_what_is_accepted_is_what_fits_in_turn(
    totals: list[tuple[int, int]],
    wanted: list[tuple[str, tuple[int, int], bool]],
    taken_since: list[str],
    machine: bool,
    atomic: bool,
) -> None:
    ledger = make_ledger(totals)
    for k, node in enumerate(taken_since):
        ledger.start("f", Task(f"before-{k}", node, (0, 0)))
    tasks = tuple(Task(f"t{k}", node, request) for k, (node, request, _) in enumerate(wanted))
    seen = tuple(ledger.nodes[node].sequence - is_old for node, _, is_old in wanted)
    event = CommitTasks("f", 1, tasks, seen, machine, atomic)
    before = {node: list(row.available) for node, row in ledger.nodes.items()}
    names = [task.task for task in accept_tasks(ledger, event)]
    assert names == accept_one_by_one(ledger, event)
    # It is an answer and no deed: the ledger is as it was.
    assert {node: list(row.available) for node, row in ledger.nodes.items()} == before


def test_what_cannot_be_is_refused_without_a_word() -> None:
    ledger = make_ledger([(4, 4)] * 3)
    ledger.start("f", Task("runs", "a", (1, 1)))
    ledger.nodes["b"].open = False
    tasks = (
        Task("runs", "a", (1, 1)),  # it runs already
        Task("closed", "b", (1, 1)),
        Task("nowhere", "d", (1, 1)),
        Task("short", "c", (1,)),
        Task("negative", "c", (-1, 0)),
        Task("twice", "c", (1, 1)),
        Task("twice", "c", (1, 1)),
        Task("unseen", "c", (1, 1)),
    )
    event = CommitTasks("f", 1, tasks, seen=(0,) * 7)
    assert [task.task for task in accept_tasks(ledger, event)] == ["twice"]


def test_room_kept_for_short_tasks_is_for_them_alone() -> None:
    """Half of a node is kept: a task without a limit may use two of four, a short one all."""
    ledger = make_ledger([(4, 4)] * 3, short_share=0.5)
    for is_short, accepted in ((False, 2), (True, 4)):
        tasks = tuple(Task(f"t{k}", "a", (1, 1), short=is_short) for k in range(5))
        event = CommitTasks("f", 1, tasks, seen=(0,) * 5)
        assert len(accept_tasks(ledger, event)) == accepted
