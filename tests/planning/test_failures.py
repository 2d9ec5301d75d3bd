"""Whether everything still fits when any one node or zone fails."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from murmuration.assignment.problem import problem_of
from murmuration.cli.plan import plan
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
