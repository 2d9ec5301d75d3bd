"""The objectives: the paper's worked examples (with its errata), and the compiled evaluation
against the plain one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from tests.assignment.problems import SEEDS, random_problem

from murmuration.assignment import objectives as of
from murmuration.assignment.evaluate import evaluate
from murmuration.assignment.objectives import parse_limit, parse_objective, values
from murmuration.assignment.packed import pack
from murmuration.assignment.problem import Problem, problem_of
from murmuration.assignment.search.search import Search, Settings
from murmuration.base.errors import InputError
from murmuration.planning.plan import user_objectives, values_of


def letters(*columns: str) -> tuple[Problem, np.ndarray]:
    """Nodes as the paper draws them: a letter is a service, and each one of its replicas."""
    group = [ord(letter) for column in columns for letter in column]
    node_of = np.array([n for n, column in enumerate(columns) for _ in column])
    problem = problem_of(
        np.full((len(columns), 2), 100), np.ones((len(group), 2)), node_of, np.array(group)
    )
    return problem, node_of


@pytest.mark.parametrize(
    ("columns", "value"), [(("abcd", "", "ef", "g"), 14), (("ab", "c", "de", "fg"), 10)]
)
def test_figure_4_counts_tasks_on_a_node(columns: tuple[str, ...], value: float) -> None:
    assert values(*letters(*columns))[of.CROWDING] == value


@pytest.mark.parametrize(
    ("columns", "value"), [(("aaa", "cbb", "dddd", "cba"), 23), (("dcba", "dba", "dca", "dba"), 13)]
)
def test_figure_5_counts_replicas_on_a_node(columns: tuple[str, ...], value: float) -> None:
    assert values(*letters(*columns))[of.REPLICAS] == value


def loaded(memory: list[int], cpu: list[int]) -> tuple[Problem, np.ndarray]:
    """One task on each of four nodes that asks for these percentages of it."""
    idle, peak = np.array([80.0, 90.0, 100.0, 110.0]), np.array([140.0, 160.0, 180.0, 200.0])
    request = np.stack([cpu, memory], axis=1)
    node_of = np.arange(4)
    return problem_of(
        np.full((4, 2), 100), request, node_of, idle_watts=idle, peak_watts=peak
    ), node_of


def test_figure_6_is_linear_power() -> None:
    assert values(*loaded([80, 25, 75, 95], [50, 65, 35, 15]))[of.POWER] == pytest.approx(544)
    assert values(*loaded([85, 95, 55, 40], [90, 35, 25, 15]))[of.POWER] == pytest.approx(534.75)


def test_figure_7_is_the_gap_of_free_shares() -> None:
    """The paper prints 31.25 for the first; the mean of 30, 50, 30 and 55 is 41.25."""
    assert values(*loaded([80, 25, 75, 95], [50, 75, 45, 40]))[of.IMBALANCE] == pytest.approx(41.25)
    assert values(*loaded([65, 75, 45, 90], [55, 60, 35, 60]))[of.IMBALANCE] == pytest.approx(16.25)


def test_figures_9_to_11_count_what_moved() -> None:
    """The paper prints 6 for the second; seven of twelve letters stay where they were."""
    before, _ = letters("abc", "abc", "acd", "acd")
    after = before.node_of.copy()
    after[4] = 3
    assert values(before, after)[of.MOVES] == 1
    after = before.node_of.copy()
    after[[9, 11, 1, 7, 4]] = [0, 1, 2, 3, 3]
    assert values(before, after)[of.MOVES] == 5


def test_an_empty_node_draws_its_idle_power_unless_it_is_switched_off() -> None:
    problem = problem_of([[10, 10], [10, 10]], [[5, 5]], [0], idle_watts=np.array([50.0, 70.0]))
    assert values(problem, problem.node_of)[of.POWER] == pytest.approx(50 + 150 / 2 + 70)
    assert values(problem, problem.node_of, power_off=True)[of.POWER] == pytest.approx(50 + 150 / 2)


@settings(max_examples=60, deadline=None)
@given(SEEDS)
def test_the_compiled_evaluation_agrees_with_the_plain_one(seed: int) -> None:
    problem = random_problem(seed, tasks=30)
    for power_off in (False, True):
        work = pack(problem, power_off)
        rng = np.random.default_rng(seed)
        rows = rng.integers(-1, len(problem.nodes), (3, len(problem.tasks)))
        found, overloaded = evaluate(work.packed, np.array([work.placement(row) for row in rows]))
        for k, row in enumerate(rows):
            np.testing.assert_allclose(found[k], values(problem, row, power_off))
            use = np.zeros_like(problem.total)
            np.add.at(use, row[row >= 0], problem.request[row >= 0])
            assert overloaded[k] == ((use > problem.total).any(axis=1)).sum()


def test_large_groups_are_counted_too() -> None:
    problem = problem_of(np.full((3, 2), 1000), np.ones((40, 2)), np.arange(40) % 3, np.zeros(40))
    work = pack(problem)
    found, _ = evaluate(work.packed, work.placement(problem.node_of)[None])
    assert (
        found[0, of.REPLICAS]
        == values(problem, problem.node_of)[of.REPLICAS]
        == 14 * 15 / 2 + 2 * 13 * 14 / 2
    )


def test_objectives_are_read_as_written() -> None:
    assert parse_objective("power=2").weight == 2
    assert parse_limit("moves=20") == (of.MOVES, 20.0)
    own = parse_objective("math:fsum")
    assert own.function is not None and own.index == -1


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("pover", "did you mean 'power'"),
        ("power=-1", "above 0"),
        ("power=x", "above 0"),
        ("nothing_here:f", "cannot be imported"),
        ("math:pi", "expected a function"),
    ],
)
def test_a_wrong_objective_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_objective(text)


@pytest.mark.parametrize("text", ["moves", "moves=", "moves=-1", "mooves=2"])
def test_a_wrong_limit_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--limit"):
        parse_limit(text)


def test_a_column_is_numbered_by_the_list() -> None:
    for place, name in enumerate(of.NAMES):
        assert getattr(of, name.upper()) == place
    assert len(set(of.NAMES)) == of.COUNT == len(of.BUILT_IN)


def test_a_new_objective_is_one_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a kernel it is measured by its plain function, where a search compares placements,
    and a plan has one value of it."""

    def busiest(m: of.MeasuredPlacement) -> float:
        return float(m.counts.max())

    added = (*of.BUILT_IN, of.BuiltIn("busiest", "tasks on the node that has most", busiest))
    monkeypatch.setattr(of, "BUILT_IN", added)
    monkeypatch.setattr(of, "NAMES", tuple(entry.name for entry in added))
    wanted = (parse_objective("busiest=2"), parse_objective("nodes"))
    assert wanted[0].index == -1 and wanted[0].weight == 2.0
    problem = problem_of([[100, 100]] * 3, [[10, 10]] * 6, [0] * 6)
    work = pack(problem)
    placements = np.array([[0] * 6, [0, 1, 2, 0, 1, 2], [0, 0, 0, 0, 1, 1]])
    measured, _ = Search(work, wanted, Settings()).measure(placements.astype(np.int32))
    assert measured.tolist() == [[6, 1], [2, 3], [4, 2]]
    assert user_objectives(wanted) == []
    assert values_of(work, placements[2], wanted)[of.NAMES.index("busiest")] == 4
    with pytest.raises(InputError, match="unknown objective 'busiest'"):
        parse_limit("busiest=3")
