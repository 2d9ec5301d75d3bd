"""The table against a plain model: whatever is committed, released and moved, both agree after each
step.

The model keeps no columns. It knows which task holds what on which node, and adds up.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.cluster.constraints import Attributes, parse_constraint
from murmuration.cluster.state import (
    Assignment,
    ClusterState,
    ConflictMode,
    Transaction,
    TransactionMode,
)

NODES = 3
REQUESTS = [(2, 1), (1, 3), (4, 0), (0, 0), (5, 5)]


def table(*totals: tuple[int, int]) -> ClusterState:
    names = tuple(f"node-{i}" for i in range(len(totals)))
    return ClusterState(
        Resources(), names, np.array(totals, dtype=np.int64), tuple({} for _ in totals)
    )


@dataclass
class Model:
    """Who holds what, and how often each node was assigned to."""

    total: list[tuple[int, int]]
    running: dict[str, Assignment] = field(default_factory=dict)
    moving: dict[str, int] = field(default_factory=dict)
    assigned: list[int] = field(default_factory=lambda: [0] * NODES)

    def held(self, node: int, production_only: bool = False) -> list[int]:
        holders = [
            *self.running.values(),
            *(replace(self.running[t], node=n) for t, n in self.moving.items()),
        ]
        mine = [
            a.request for a in holders if a.node == node and (a.production or not production_only)
        ]
        return [sum(request[r] for request in mine) for r in range(2)]

    def fits(self, node: int, request: tuple[int, ...]) -> bool:
        held, total = self.held(node), self.total[node]
        return all(held[r] + request[r] <= total[r] for r in range(2))

    def commit(self, transaction: Transaction, machine: bool, atomic: bool) -> list[Assignment]:
        """The assignments that stand, in order; the model is changed only if some do."""
        trial = replace(self, running=dict(self.running), assigned=list(self.assigned))
        stand = []
        for assignment, seen in zip(transaction.assignments, transaction.seen, strict=True):
            stale = machine and self.assigned[assignment.node] != seen
            if not stale and trial.fits(assignment.node, assignment.request):
                trial.running[assignment.task] = assignment
                trial.assigned[assignment.node] += 1
                stand.append(assignment)
        if atomic and len(stand) < len(transaction.assignments):
            return []
        self.running, self.assigned = trial.running, trial.assigned
        return stand


class ClusterMachine(RuleBasedStateMachine):
    """Schedulers draft transactions, commit them late and out of order, tasks end, and tasks
    move."""

    drafts = Bundle("drafts")

    @initialize(
        totals=st.lists(
            st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=NODES, max_size=NODES
        )
    )
    def begin(self, totals: list[tuple[int, int]]) -> None:
        self.state, self.model, self.named = table(*totals), Model(totals), 0

    @rule(
        target=drafts,
        wanted=st.lists(
            st.tuples(st.integers(0, NODES - 1), st.sampled_from(REQUESTS), st.booleans()),
            min_size=1,
            max_size=5,
        ),
    )
    def draft(self, wanted: list[tuple[int, tuple[int, int], bool]]) -> Transaction:
        chosen = [Assignment(f"task-{self.named + k}", *each) for k, each in enumerate(wanted)]
        self.named += len(chosen)
        return self.state.transaction(chosen)

    @rule(
        transaction=consumes(drafts),
        conflict=st.sampled_from(ConflictMode),
        mode=st.sampled_from(TransactionMode),
    )
    def commit(
        self, transaction: Transaction, conflict: ConflictMode, mode: TransactionMode
    ) -> None:
        before = [self.state.free.copy(), self.state.guaranteed.copy(), self.state.sequence.copy()]
        outcome = self.state.commit(transaction, conflict, mode)
        stand = self.model.commit(transaction, conflict == "machine", mode == "all-or-nothing")
        assert list(outcome.accepted) == stand
        assert list(outcome.refused) == [a for a in transaction.assignments if a not in stand]
        assert (not outcome.refused) == (len(stand) == len(transaction.assignments))
        if not stand:
            after = [self.state.free, self.state.guaranteed, self.state.sequence]
            assert all((b == a).all() for b, a in zip(before, after, strict=True))

    @precondition(lambda self: self.model.running)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        task = data.draw(st.sampled_from(sorted(self.model.running)))
        self.state.release(task)
        del self.model.running[task]
        self.model.moving.pop(task, None)

    @precondition(lambda self: self.model.running)
    @rule(data=st.data(), node=st.integers(0, NODES - 1))
    def begin_migration(self, data: st.DataObject, node: int) -> None:
        task = data.draw(st.sampled_from(sorted(self.model.running)))
        held = self.model.running[task]
        possible = (
            task not in self.model.moving
            and node != held.node
            and self.model.fits(node, held.request)
        )
        assert self.state.begin_migration(task, node) is possible
        if possible:
            self.model.moving[task] = node
            self.model.assigned[node] += 1

    @precondition(lambda self: self.model.moving)
    @rule(data=st.data(), moved=st.booleans())
    def end_migration(self, data: st.DataObject, moved: bool) -> None:
        task = data.draw(st.sampled_from(sorted(self.model.moving)))
        self.state.end_migration(task, moved)
        node = self.model.moving.pop(task)
        if moved:
            self.model.running[task] = replace(self.model.running[task], node=node)

    @invariant()
    def both_agree(self) -> None:
        self.state.check()
        assert self.state.required.tolist() == [self.model.held(node) for node in range(NODES)]
        assert self.state.guaranteed.tolist() == [
            self.model.held(node, True) for node in range(NODES)
        ]
        assert self.state.sequence.tolist() == self.model.assigned
        assert self.state.running == self.model.running
        assert {task: a.node for task, a in self.state.migrating.items()} == self.model.moving
        for column in (self.state.free, self.state.required, self.state.guaranteed):
            assert (column >= 0).all()
        assert (self.state.used == self.state.required).all()

    def teardown(self) -> None:
        """When every task has ended, each node has back exactly what it began with."""
        if hasattr(self, "state"):
            for task in list(self.state.running):
                self.state.release(task)
            assert (self.state.free == self.state.total).all()
            assert not self.state.guaranteed.any()


TestClusterState = ClusterMachine.TestCase
TestClusterState.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)

MACHINE, RESOURCE = ConflictMode.MACHINE, ConflictMode.RESOURCE
ALL, SOME = TransactionMode.ALL_OR_NOTHING, TransactionMode.INCREMENTAL


def test_two_schedulers_take_the_same_node() -> None:
    """With machine granularity the later one conflicts though there is room; with resource
    granularity it does not."""
    for conflict, stands in ((MACHINE, False), (RESOURCE, True)):
        state = table((4, 4))
        early = state.transaction([Assignment("a", 0, (1, 1))])
        late = state.transaction([Assignment("b", 0, (1, 1))])
        assert not state.commit(early, conflict).refused
        assert (not state.commit(late, conflict).refused) is stands
        assert state.sequence[0] == 1 + stands


def test_releases_do_not_conflict() -> None:
    state = table((4, 4))
    state.commit(state.transaction([Assignment("old", 0, (3, 3))]))
    waiting = state.transaction([Assignment("new", 0, (1, 1))])
    state.release("old")
    assert not state.commit(waiting, MACHINE, ALL).refused


def test_neither_does_the_end_of_a_migration_but_its_begin_does() -> None:
    state = table((4, 4), (4, 4))
    state.commit(state.transaction([Assignment("a", 0, (1, 1))]))
    before = state.transaction([Assignment("b", 1, (1, 1))])
    assert state.begin_migration("a", 1)
    during = state.transaction([Assignment("c", 0, (1, 1)), Assignment("d", 1, (1, 1))])
    state.end_migration("a", moved=True)
    assert not state.commit(before, MACHINE).accepted
    assert not state.commit(during, MACHINE).refused


def test_a_transaction_does_not_conflict_with_itself() -> None:
    """Several tasks of one job on one node, whether they ask for the same or not."""
    state = table((9, 9))
    same = [Assignment(f"same-{k}", 0, (1, 1)) for k in range(3)]
    mixed = [Assignment("x", 0, (1, 0)), Assignment("y", 0, (0, 1)), Assignment("z", 0, (1, 0))]
    assert not state.commit(state.transaction(same), MACHINE, ALL).refused
    assert not state.commit(state.transaction(mixed), MACHINE, ALL).refused
    assert state.sequence.tolist() == [6]


def test_assignments_are_looked_at_in_their_order() -> None:
    """A later task that asks for as much as the first one does not go before one that asks for
    less."""
    state = table((4, 4))
    wanted = [Assignment("a", 0, (2, 0)), Assignment("b", 0, (1, 0)), Assignment("c", 0, (2, 0))]
    outcome = state.commit(state.transaction(wanted))
    assert [a.task for a in outcome.accepted] == ["a", "b"]
    assert [a.task for a in outcome.refused] == ["c"]


def test_all_or_nothing_takes_back_what_fitted() -> None:
    state = table((4, 4), (1, 1))
    wanted = [Assignment("a", 0, (2, 2), True), Assignment("b", 1, (2, 2), True)]
    outcome = state.commit(state.transaction(wanted), RESOURCE, ALL)
    assert (outcome.accepted, outcome.refused) == ((), tuple(wanted))
    assert (state.free == state.total).all()
    assert not state.guaranteed.any() and not state.sequence.any() and not state.running


def test_a_migration_counts_on_both_nodes_until_it_ends() -> None:
    state = table((4, 4), (4, 4), (1, 1))
    state.commit(state.transaction([Assignment("web", 0, (3, 2), production=True)]))
    assert not state.begin_migration("web", 2), "it does not fit there"
    assert not state.begin_migration("web", 0), "it is there"
    assert state.begin_migration("web", 1)
    assert state.required.tolist() == state.guaranteed.tolist() == [[3, 2], [3, 2], [0, 0]]
    assert not state.begin_migration("web", 2), "one move at a time"
    state.end_migration("web", moved=True)
    assert state.required.tolist() == state.guaranteed.tolist() == [[0, 0], [3, 2], [0, 0]]
    assert state.begin_migration("web", 0)
    state.end_migration("web", moved=False)
    assert state.required.tolist() == [[0, 0], [3, 2], [0, 0]]
    assert state.begin_migration("web", 0)
    state.release("web")
    assert not state.required.any() and not state.guaranteed.any() and not state.migrating


def test_measured_use_is_told_apart_from_what_is_required() -> None:
    state = table((4, 4))
    state.commit(state.transaction([Assignment("a", 0, (3, 2))]))
    assert state.used.tolist() == [[3, 2]]
    state.measured = np.array([[1, 1]])
    assert (state.used.tolist(), state.required.tolist()) == ([[1, 1]], [[3, 2]])


def test_constraints_choose_rows() -> None:
    zones: tuple[Attributes, ...] = ({"zone": "a"}, {"zone": "b"}, {})
    state = ClusterState(Resources(), ("x", "y", "z"), np.zeros((3, 2), dtype=np.int64), zones)
    assert state.mask([parse_constraint("zone != a")]).tolist() == [False, True, True]


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ([Assignment("old", 1, (1, 1))], "task 'old' is assigned already"),
        ([Assignment("a", 0, (1, 1)), Assignment("a", 1, (1, 1))], "task 'a' is assigned already"),
        ([Assignment("a", 2, (1, 1))], "task 'a': expected a row from 0 to 1, got 2"),
        ([Assignment("a", -1, (1, 1))], "task 'a': expected a row from 0 to 1, got -1"),
        (
            [Assignment("a", 0, (-1, 1))],
            "task 'a': expected amounts of cpu, memory from zero, got (-1, 1)",
        ),
        (
            [Assignment("a", 0, (1,))],
            "task 'a': expected amounts of cpu, memory from zero, got (1,)",
        ),
    ],
)
def test_an_assignment_that_makes_no_sense_is_refused_whole(
    wanted: list[Assignment], sentence: str
) -> None:
    state = table((4, 4), (4, 4))
    state.commit(state.transaction([Assignment("old", 0, (1, 1))]))
    transaction = Transaction((Assignment("good", 0, (1, 1)), *wanted), (1,) * (len(wanted) + 1))
    with pytest.raises(InputError) as error:
        state.commit(transaction)
    assert str(error.value) == sentence
    assert list(state.running) == ["old"]
    state.check()


def test_what_holds_nothing_cannot_end_or_move() -> None:
    state = table((4, 4), (4, 4))
    state.commit(state.transaction([Assignment("a", 0, (1, 1))]))
    for act in (lambda: state.release("ghost"), lambda: state.begin_migration("ghost", 0)):
        with pytest.raises(InputError, match="task 'ghost' holds nothing"):
            act()
    with pytest.raises(InputError, match="task 'a' is not migrating"):
        state.end_migration("a", moved=True)
    with pytest.raises(InputError, match="task 'a': expected a row from 0 to 1, got -1"):
        state.begin_migration("a", -1)
    state.check()


def test_the_check_sees_a_column_that_was_tampered_with() -> None:
    for column in ("free", "guaranteed"):
        state = table((4, 4))
        state.commit(state.transaction([Assignment("a", 0, (1, 1), production=True)]))
        getattr(state, column)[0, 1] += 1
        with pytest.raises(AssertionError, match="is not the sum of"):
            state.check()


def test_a_table_needs_a_row_for_each_name() -> None:
    with pytest.raises(InputError, match="one row of totals and attributes for each node"):
        ClusterState(Resources(), ("a", "b"), np.zeros((1, 2), dtype=np.int64), ({}, {}))


def test_what_is_adopted_may_be_overfull_but_takes_nobody_in() -> None:
    state = table((4, 4), (4, 4))
    state.adopt([Assignment("a", 0, (3, 1)), Assignment("b", 0, (3, 1))])
    state.check()
    assert state.free.tolist() == [[-2, 2], [4, 4]]
    assert not state.assign(Assignment("c", 0, (1, 1)))
    assert state.assign(Assignment("d", 0, (0, 2))), "it asks for nothing that is short"
    assert state.begin_migration("a", 1)
    state.end_migration("a", moved=True)
    assert state.assign(Assignment("c", 0, (1, 0))) and not state.assign(Assignment("e", 0, (1, 0)))
    state.check()
    state.free[0, 1] = -1
    state.running["b"] = replace(state.running["b"], request=(3, 3))
    with pytest.raises(AssertionError, match="left its bounds"):
        state.check()
