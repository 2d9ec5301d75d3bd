"""Whether everything still fits when any one node or zone fails."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from tests.assignment.problems import random_problem

from murmuration.assignment.packed import pack
from murmuration.assignment.problem import problem_of
from murmuration.assignment.search.fewest import fewest_moves
from murmuration.cli.plan import plan
from murmuration.planning import failures as failing
from murmuration.planning.changes import remove_nodes
from murmuration.planning.failures import describe_failures, failure_sentences, try_failures


def test_every_node_may_fail_where_the_others_have_room() -> None:
    problem = problem_of([[10, 10]] * 3, [[4, 4]] * 3, [0, 1, 2])
    failures = try_failures(problem, "node", seed=1)
    assert [f.displaced for f in failures] == [1, 1, 1]
    assert describe_failures(failures, "node")["everything_fits"]
    assert "everything else still fits" in failure_sentences(failures, "node")[0]


def test_the_node_whose_task_fits_nowhere_else_comes_first() -> None:
    problem = problem_of([[10, 10], [10, 10], [20, 20]], [[2, 2], [2, 2], [12, 12]], [0, 1, 2])
    failures = try_failures(problem, "node", seed=1)
    assert failures[0].failed == "node-2" and failures[0].unplaced == ["task-2"]
    assert [f.unplaced for f in failures[1:]] == [[], []]
    assert failure_sentences(failures, "node")[0].startswith("1 of 3 nodes may not fail")


def test_a_zone_fails_as_a_whole() -> None:
    zones = np.array([0, 0, 1])
    problem = problem_of([[10, 10]] * 3, [[6, 6]] * 3, [0, 1, 2], zone_of=zones)
    assert all(not f.unplaced for f in try_failures(problem, "node", 1)) is False
    by_size = {f.nodes: f for f in try_failures(problem, "zone", 1)}
    assert len(by_size[2].unplaced) == 2 and by_size[2].displaced == 2


def test_the_command_answers_in_json(tmp_path: Path) -> None:
    snapshot = tmp_path / "cluster.toml"
    snapshot.write_text(
        '[[node]]\nname = "n"\ncount = 3\ncpu = 4\nmemory = "8Gi"\n'
        '[[service]]\nname = "web"\nreplicas = 3\ncpu = 1\nmemory = "1Gi"\n'
        'on = ["n-1", "n-2", "n-3"]\n'
    )
    result = CliRunner().invoke(plan, [str(snapshot), "--any", "node", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["everything_fits"] is True


@pytest.mark.parametrize("seed", range(8))
def test_what_is_survived_at_once_is_survived_by_trying(seed: int) -> None:
    """Nodes that the quick look calls harmless are harmless when they are taken out for good."""
    problem = random_problem(seed)
    problem = problem.subset(problem.node_of >= 0)
    for name, displaced in failing._survived_at_once(problem).items():
        removed = remove_nodes(problem, [name], failed=True)
        assert len(removed.displaced) == displaced and not removed.stranded
        placed = fewest_moves(pack(removed.problem), seed, exact_effort=0.0)
        assert all(placed.node_of[t] >= 0 for t in removed.displaced)


def test_what_there_was_no_time_for_is_not_called_harmless() -> None:
    problem = problem_of([[10, 10]] * 2, [[6, 1]] * 2, [0, 1])
    told = try_failures(problem, "node", 1, lambda: 0.0)
    assert [failure.tried for failure in told] == [False, False]
    assert not describe_failures(told, "node")["everything_fits"]
    assert "2 of 2 were not tried" in failure_sentences(told, "node")[0]
    assert try_failures(problem, "node", 1)[0].unplaced
