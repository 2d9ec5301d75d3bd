"""The cheapest mix of node types: against CP-SAT on small clusters, and by hand."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from ortools.sat.python import cp_model
from tests.kubernetes.made import Made, apart, app_is, term

from murmuration.assignment.problem import APART, Problem, Rule, problem_of
from murmuration.assignment.snapshots.additions import Addition, TypeEntry
from murmuration.base.errors import InputError
from murmuration.cli.plan import plan
from murmuration.planning.mix import cheapest_mix
from murmuration.planning.snapshots.types import read_types

TYPES = [(4, 16, 10), (8, 32, 18), (16, 32, 25), (8, 64, 26)]


def random_case(seed: int) -> tuple[Problem, Problem, list[Addition]]:
    """Eight to twelve tasks, a few of which must lie apart, and four types to choose from."""
    rng = random.Random(seed)
    request = [(rng.randint(1, 6), rng.randint(1, 20)) for _ in range(rng.randint(8, 12))]
    members = np.arange(rng.randint(2, 4))
    additions = [
        Addition(TypeEntry(f"t{k}", {"cpu": c, "memory": m}, p), 6)
        for k, (c, m, p) in enumerate(TYPES)
    ]
    new = [(c, m) for c, m, _ in TYPES for _ in range(6)]
    old = [(100, 1000)]

    def made(total: list[tuple[int, int]]) -> Problem:
        rule = Rule(APART, "apart", members, members, np.arange(len(total)))
        return problem_of(total, request, [0] * len(request), rules=(rule,))

    return made(old), made(old + new), additions


def cheapest_by_solver(problem: Problem, price: list[int]) -> float:
    """The lowest price of nodes that hold all tasks, with the first tasks apart; node 0 is old."""
    model, nodes = cp_model.CpModel(), range(1, len(problem.nodes))
    tasks = range(len(problem.tasks))
    lies = {(t, n): model.new_bool_var("") for t in tasks for n in nodes}
    bought = {n: model.new_bool_var("") for n in nodes}
    for t in tasks:
        model.add_exactly_one(lies[t, n] for n in nodes)
    for n in nodes:
        for r in range(2):
            asked = sum(int(problem.request[t, r]) * lies[t, n] for t in tasks)
            model.add(asked <= int(problem.total[n, r]) * bought[n])
        model.add_at_most_one(lies[t, n] for t in problem.rules[0].members.tolist())
    model.minimize(sum(price[n - 1] * bought[n] for n in nodes))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    assert solver.solve(model) == cp_model.OPTIMAL
    return solver.objective_value


@pytest.mark.parametrize("seed", range(4))
def test_the_mix_costs_what_the_solver_proves(seed: int) -> None:
    present, extended, additions = random_case(seed)
    mix = cheapest_mix(present, extended, additions, 1)
    price = [p for _, _, p in TYPES for _ in range(6)]
    best = cheapest_by_solver(extended, price)
    assert not mix.unplaced and mix.bound <= best + 1e-9
    assert mix.price == pytest.approx(sum(b.nodes * b.price for b in mix.bought))
    assert mix.price == pytest.approx(best)


CATALOGUE = """
[[type]]
name = "m5.large"

[[type]]
name = "rack"
cpu = 8
memory = "32Gi"
price = 0.3
labels = { pool = "own" }
most = 2
"""


def test_a_catalogue_is_read_and_used(tmp_path: Path) -> None:
    """Three pods of 3 CPUs keep apart: there are two of the user's racks, and no m5.large is large
    enough for the third."""
    made = Made()
    made.node("n0", cpu="64", memory="256Gi")
    for _ in range(3):
        made.pod("web", "n0", "3", affinity=apart(term(app_is("web"))))
    cluster = json.dumps({"kind": "List", "items": made.items})
    (tmp_path / "cluster.json").write_text(cluster)
    (tmp_path / "types.toml").write_text(CATALOGUE)
    words = [str(tmp_path / "cluster.json"), "--types", str(tmp_path / "types.toml"), "--json"]

    def ask(words: list[str], piped: str = "") -> dict[str, Any]:
        result = CliRunner().invoke(plan, words, input=piped, catch_exceptions=False)
        return {**json.loads(result.stdout), "snapshot": None}

    answer = ask(words)
    # Either file may come by standard input, which can be read only once.
    assert ask(["-", *words[1:]], cluster) == answer
    assert ask([words[0], "--types", "-", "--json"], CATALOGUE) == answer
    with pytest.raises(InputError, match="standard input can be read only once"):
        ask(["-", "--types", "-"])
    assert answer["types"] == [{"type": "rack", "zone": "a", "nodes": 2, "price": 0.3}]
    assert answer["price"] == pytest.approx(0.6)
    assert len(answer["unplaced"]) == 1 and "smaller than" in answer["unplaced"][0]["reason"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("type = 1", "expected a catalogue"),
        ("type = []", "at least one"),
        ("[[type]]\nname = 'a'", "expected cpu, memory and price"),
        ("[[type]]\nname = 'm5.large'\nmost = 0", "expected at least 1"),
        ("[[type]]\nname = 'a'\ncpu = 1\nmemory = '1X'\nprice = 1", "memory"),
        ("[[type]]\nname = 'm5.large'\ncolour = 1", "colour"),
    ],
)
def test_a_wrong_catalogue_is_refused(text: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "types.toml").write_text(text)
    with pytest.raises(InputError, match=sentence):
        read_types(tmp_path / "types.toml")
