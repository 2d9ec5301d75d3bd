"""The search: what it keeps against the judge, its best against all assignments there are, and
repetition."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.planning.reassignment.instances import Array, drawn, integers, small, written

from murmuration.base import random
from murmuration.base.errors import InputError
from murmuration.planning import reassignment
from murmuration.planning.reassignment import search as search_module
from murmuration.planning.reassignment.anneal import Best, Prices, anneal, make_draws
from murmuration.planning.reassignment.cost import cost, usage, violations
from murmuration.planning.reassignment.model import (
    Model,
    read_assignment,
    read_model,
    write_assignment,
)
from murmuration.planning.reassignment.search import make_chain, search
from murmuration.planning.reassignment.state import (
    BREACHES,
    COST,
    EXCESS,
    HELD,
    MOVED,
    ReassignmentProblem,
    ReassignmentState,
    make_problem,
    make_state,
)

INSTANCES = st.builds(
    drawn,
    st.integers(0, 2**32),
    st.integers(2, 6),
    st.integers(1, 20),
    st.integers(1, 6),
    st.integers(1, 4),
)


def walked(
    model: Model, initial: Array, seed: int, steps: int, prices: Prices
) -> tuple[ReassignmentProblem, ReassignmentState, Best]:
    """A state after thousands of random steps, almost all of them taken."""
    p = make_problem(model, initial)
    s = make_state(p, initial)
    best = Best(initial.copy(), s.totals[:1].copy())
    draws = make_draws(np.arange(len(initial)), random.state(seed))
    # Piece by piece: the best is noted at the end of each.
    for _ in range(10):
        anneal(p, s, best, draws, steps // 10, 1e4, prices)
    return p, s, best


@settings(max_examples=60, deadline=None)
@given(INSTANCES, st.integers(0, 2**32), st.sampled_from([0.0, 10.0, 1e6]))
def test_what_is_kept_is_what_the_judge_finds(
    drawn: tuple[Model, Array], seed: int, price: float
) -> None:
    model, initial = drawn
    p, s, best = walked(model, initial, seed, 3000, Prices(price, price, price / 10, price / 5))
    assert s.totals[COST] == cost(model, initial, s.node_of).total
    fresh = make_state(p, s.node_of)
    for name, kept in s._asdict().items():
        assert np.array_equal(kept, getattr(fresh, name)), name
    broken = violations(model, initial, s.node_of)
    assert (s.totals[BREACHES] == 0 and s.totals[EXCESS] == 0) == (not broken)
    assert best.cost[0] == cost(model, initial, best.node_of).total
    assert not violations(model, initial, best.node_of)


@settings(max_examples=30, deadline=None)
@given(INSTANCES, st.integers(0, 2**32))
def test_excess_and_what_is_held_by_their_definitions(
    drawn: tuple[Model, Array], seed: int
) -> None:
    model, initial = drawn
    p, s, _ = walked(model, initial, seed, 500, Prices(0.0, 0.0, 0.0, 0.0))
    moved = s.node_of != initial
    held = usage(model, s.node_of)
    np.add.at(held, initial[moved], model.request[moved] * model.transient)
    assert s.totals[EXCESS] == np.maximum(held - model.capacity, 0).sum()
    assert s.totals[HELD] == p.left_behind[moved].sum()
    assert s.totals[MOVED] == moved.sum()


def test_room_weighs_more_where_it_is_needed() -> None:
    """A node at its safety capacity counts what is left behind by load weight; one that is to take
    in half of what is free, or to give as much away, e to the power of ±1.5 times that."""
    model, initial = drawn(3, nodes=3, tasks=30, services=30, resources=2)
    used = usage(model, initial)
    needed = np.array([[0.0], [0.5], [-0.5]])
    model = model._replace(
        transient=np.array([1, 0]),
        capacity=used + 1_000_000,
        safety=used + (needed * 1_000_000).astype(np.int64),
    )
    plain = model.request[:, 0] * model.load_weight[0]
    weight = np.array([1.0, math.e**1.5, math.e**-1.5])[initial]
    assert make_problem(model, initial).left_behind == pytest.approx(plain * weight, abs=1.0)


@settings(max_examples=20, deadline=None)
@given(INSTANCES, st.integers(0, 2**32))
def test_who_is_away_pays_for_it(drawn: tuple[Model, Array], seed: int) -> None:
    """At a price that nobody can save elsewhere all stay at home, or all that hold something."""
    model, initial = drawn
    _, s, _ = walked(model, initial, seed, 500, Prices(1e9, 1e9, 0.0, 1e12))
    assert s.totals[MOVED] == 0
    _, s, _ = walked(model, initial, seed, 500, Prices(1e9, 1e9, 1e12, 0.0))
    assert s.totals[HELD] == 0


@settings(max_examples=30, deadline=None)
@given(INSTANCES, st.integers(0, 2**32))
def test_one_chain_never_breaks_a_rule_between_services(
    drawn: tuple[Model, Array], seed: int
) -> None:
    """So there is always something to go back to."""
    chain = make_chain(*drawn, seed, 1)
    for spent in (0.0, 0.1, 0.3, 0.5, 0.7, 1.0):
        chain.advance(spent, 300)
        assert chain.state.totals[BREACHES] == 0


class Clocks:
    """Clocks that go on by a second whenever they are read, or stand still."""

    def __init__(self, wall: bool, cpu: bool) -> None:
        self.speeds = {"monotonic": wall, "thread_time": cpu}
        self.times = dict.fromkeys(self.speeds, 0.0)

    def read(self, name: str) -> float:
        self.times[name] += self.speeds[name]
        return self.times[name]


@pytest.mark.parametrize(("wall", "cpu"), [(True, False), (False, True)])
def test_whichever_time_is_over_first_ends_the_search(
    monkeypatch: pytest.MonkeyPatch, wall: bool, cpu: bool
) -> None:
    """A clock that stands still ends nothing; the other does, after as many pieces as seconds."""
    clocks, temperatures = Clocks(wall, cpu), []
    for name in clocks.speeds:
        monkeypatch.setattr(f"{search.__module__}.time.{name}", lambda name=name: clocks.read(name))
    monkeypatch.setattr(search_module, "SLICE", 100)
    monkeypatch.setattr(search_module, "SCHEDULES", search_module.SCHEDULES[:1] * 2)
    advance = search_module.AnnealingChain.advance

    def note(chain: search_module.AnnealingChain, spent: float, steps: int) -> None:
        temperatures.append(spent)
        advance(chain, spent, steps)

    monkeypatch.setattr(search_module.AnnealingChain, "advance", note)
    model, initial = drawn(2, nodes=60, tasks=100, services=40, resources=2)
    found = search(model, initial, 1, seconds=1_000.0, cpu_seconds=1_000.0)
    assert not violations(model, initial, found)
    assert 500 < len(temperatures) < 4_000
    assert max(temperatures) <= 1.0


def cheapest(model: Model, initial: Array) -> int:
    """The least cost of all assignments that break no rule."""
    nodes, _, tasks, _ = model.sizes
    every = (integers(choice) for choice in itertools.product(range(nodes), repeat=tasks))
    return min(cost(model, initial, a).total for a in every if not violations(model, initial, a))


@pytest.mark.parametrize("seed", range(6))
def test_the_best_of_all_assignments_is_found(seed: int) -> None:
    model, initial = drawn(seed, nodes=3, tasks=5, services=3, resources=2)
    found = search(model, initial, seed, evaluations=20_000)
    assert cost(model, initial, found).total == cheapest(model, initial)


def instance(tmp_path: Path, seed: int = 1) -> tuple[Path, Path]:
    model, initial = drawn(seed, nodes=8, tasks=40, services=10, resources=3)
    (tmp_path / "model.txt").write_text(written(model))
    write_assignment(tmp_path / "first.txt", initial)
    return tmp_path / "model.txt", tmp_path / "first.txt"


def test_one_seed_one_result(tmp_path: Path) -> None:
    files = instance(tmp_path)
    runs = [(3, "a"), (3, "b"), (4, "c")]
    results = [
        reassignment.plan(*files, seed=seed, evaluations=30_000, out=tmp_path / name)
        for seed, name in runs
    ]
    written = [(tmp_path / name / "assignment.txt").read_bytes() for _, name in runs]
    assert results[0] == results[1] and written[0] == written[1]
    assert written[0] != written[2]


def test_a_plan_is_what_the_judge_says_of_the_file_it_wrote(tmp_path: Path) -> None:
    files = instance(tmp_path, seed=5)
    result = reassignment.plan(*files, seconds=0.3, seed=1, out=tmp_path / "out")
    model = read_model(files[0])
    first, last = (
        read_assignment(files[1], model),
        read_assignment(tmp_path / "out" / "assignment.txt", model),
    )
    assert result.cost_before == cost(model, first, first).total
    assert result.cost_after == cost(model, first, last).total < result.cost_before
    assert result.moves == (first != last).sum()
    assert not violations(model, first, last)
    told = reassignment.document(result)
    assert sum(told["cost_parts_after"].values()) == told["cost_after"]


def test_no_budget_changes_nothing(tmp_path: Path) -> None:
    result = reassignment.plan(*instance(tmp_path), evaluations=0)
    assert (result.cost_after, result.moves) == (result.cost_before, 0)


def test_a_start_that_breaks_a_rule_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.txt").write_text(written(small()))
    (tmp_path / "bad.txt").write_text("0 0 0 2")
    with pytest.raises(
        InputError, match=r"bad.txt: .* must break no rule, but service 0 has 2 tasks on node 0"
    ):
        reassignment.plan(
            tmp_path / "model.txt", tmp_path / "bad.txt", evaluations=10, out=tmp_path / "out"
        )
    assert not (tmp_path / "out").exists()
