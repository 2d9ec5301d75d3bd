"""Why: the explainer sees what the kernel saw, chooses what it chose, and says what is in the
way."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from tests.simulation.scenarios import (
    MONOLITHIC,
    OFFERS,
    PARTITIONED,
    ROOMY,
    SHARED_STATE,
    Tables,
    random_tables,
)
from tests.simulation.test_invariants import RULES

from murmuration.base.errors import InputError
from murmuration.cluster.reasons import Explanation, Never, Wait
from murmuration.placement.registry import NAMES
from murmuration.simulation.engine import loop
from murmuration.simulation.engine import run as engine
from murmuration.simulation.engine.python_decision import kernel_choice
from murmuration.simulation.results.explain import explain, list_attempts
from murmuration.simulation.scenarios import scenario as sc

KINDS = {
    "monolithic": MONOLITHIC,
    "partitioned": PARTITIONED,
    "shared-state": SHARED_STATE,
    "offers": OFFERS,
    "offers-rules": [{"kind": "offers", "offers": rules} for rules in RULES],
}
HEADER = (
    "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task,gang,constraints\n"
)


def claims(tables: Tables, job: str) -> list[list[str]]:
    """The nodes of each decision about a job, as an ordinary run claims them (none where a gang did
    not fit whole)."""
    run = engine.prepare(sc.check(tables))
    row, found = run.setup.jobs.job_row(job), []
    while engine.advance(run, watch=row) == loop.DECIDE:
        agent = int(run.world.state["pending"][0])
        kernel_choice(run)
        nodes = run.world.claim[agent, : run.world.schedulers["claimed"][agent]].tolist()
        whole = not run.setup.jobs.gang[row] or len(nodes) == run.world.jobs["left"][row]
        found.append([run.setup.nodes.names[node] for node in nodes] if whole else [])
    return found


@pytest.mark.parametrize("placement", NAMES)
@pytest.mark.parametrize("kind", KINDS)
def test_its_choice_is_the_kernels(kind: str, placement: str, tmp_path: Path) -> None:
    """Every decision about the job that was decided most often; `explain` itself compares with the
    kernel as well."""
    tables = random_tables(40 + NAMES.index(placement), KINDS[kind], tmp_path)
    tables["cluster"]["group"].append(ROOMY)
    tables["scheduler"] = {**tables["scheduler"], "placement": placement, "attempts_max": 4}
    run = engine.simulate(tables)
    job = str(run.setup.jobs.job_id[int(run.world.jobs["attempts"].argmax())])
    expected = claims(tables, job)[:6]
    for attempt, nodes in enumerate(expected, 1):
        found = explain(engine.prepare(sc.check(tables)), job, attempt)
        assert [name for name, count in found.chosen for _ in range(count)] == sorted(
            nodes, key=nodes.index
        )
        assert found.placed == len(nodes) and found.attempt == attempt
        assert found.considered == found.feasible + sum(found.filtered.values())
        assert (found.verdict is None) is (found.placed == found.tasks)


class Asked:
    """A cluster of three nodes of four CPUs, one of them in another zone, and some jobs."""

    def __init__(self, folder: Path, kind: str, *jobs: str) -> None:
        (folder / "jobs.csv").write_text(HEADER + "\n".join(jobs) + "\n")
        size = {"cpu": 4, "memory": "8G"}
        groups = [
            {"count": 2, **size, "attributes": {"zone": "a"}},
            {"count": 1, **size, "attributes": {"zone": "b"}},
        ]
        self.tables: Tables = {
            "days": 0.001,
            "cluster": {"group": groups},
            "workload": {"trace": str(folder / "jobs.csv")},
            "scheduler": {"kind": kind, "placement": "worst-fit"},
        }

    def why(self, job: str, attempt: int = 1) -> Explanation:
        return explain(engine.prepare(sc.check(self.tables)), job, attempt)


OTHER = "other,w,0,1,5,1,1,false,"


@pytest.mark.parametrize("kind", ["monolithic", "partitioned", "offers", "shared-state"])
@pytest.mark.parametrize(
    ("job", "reason"),
    [
        ("j,w,0,1,5,9,1,false,", "a task asks for 9 CPU and no node has more than 4 CPU to give"),
        ("j,w,0,1,5,1,99,false,", "a task asks for 99 GB and no node has more than 8 GB to give"),
        ("j,w,0,1,5,1,1,false,zone = c", "no node meets its constraints"),
        (
            "j,w,0,13,5,1,1,true,",
            "it needs room for 13 tasks at once and its nodes hold 12 when nothing else runs",
        ),
        (
            "j,w,0,5,5,1,1,true,zone = b",
            "it needs room for 5 tasks at once and its nodes hold 4 when nothing else runs",
        ),
    ],
)
def test_never(kind: str, job: str, reason: str, tmp_path: Path) -> None:
    found = Asked(tmp_path, kind, job, OTHER).why("j")
    assert found.verdict == Never(reason)
    assert (found.placed, found.chosen, found.attempt) == (0, (), 0)


def test_which_constraint_no_node_meets(tmp_path: Path) -> None:
    """Two of three nodes are in zone a; zone c and the attribute ssd are nowhere."""
    job = "j,w,0,1,5,1,1,false,zone != b;zone = c;ssd exists"
    assert Asked(tmp_path, "monolithic", job, OTHER).why("j").notes == (
        "zone != b: 2 of 3 nodes",
        "zone = c: no node; nodes have zone = a, b",
        "ssd exists: no node; no node has ssd",
    )


def test_a_partition_that_is_too_small_is_never(tmp_path: Path) -> None:
    """A job of eight tasks fits the cluster but not its half of it, and is told so at once; shared,
    it would run."""
    job = "j,w,0,8,5,1,1,false,"
    asked = Asked(tmp_path, "partitioned", job, "other,x,0,1,5,1,1,false,")
    asked.tables["scheduler"]["partition"] = {"w": 0.34}
    found = asked.why("j")
    assert (
        isinstance(found.verdict, Never)
        and "8 tasks at once and its nodes hold 4" in found.verdict.reason
    )
    assert Asked(tmp_path, "shared-state", job, OTHER).why("j").placed == 8


def test_nodes_of_another_partition_are_no_matter_of_constraints(tmp_path: Path) -> None:
    """Of three nodes with room one belongs to the job's own scheduler, and it is full."""
    asked = Asked(
        tmp_path,
        "partitioned",
        "first,w,0,1,50,4,1,false,",
        "j,w,1,1,5,1,1,false,",
        "other,x,60,1,5,1,1,false,",
    )
    asked.tables["scheduler"]["partition"] = {"w": 0.34}
    found = asked.why("j")
    assert found.filtered == {"in another scheduler's partition": 2, "too little cpu free": 1}
    assert found.unblock[0] == "in other partitions 2 nodes have room"
    assert not any("constraints" in hint for hint in found.unblock)


def test_what_is_in_the_way_and_what_would_help(tmp_path: Path) -> None:
    """Zone a is taken and zone b not allowed: all three tasks wait."""
    asked = Asked(
        tmp_path, "monolithic", "first,w,0,2,50,4,1,false,zone = a", "j,w,1,3,5,2,1,false,zone = a"
    )
    found = asked.why("j")
    assert (found.tasks, found.placed, found.considered, found.feasible) == (3, 0, 3, 0)
    assert found.filtered == {"not allowed by its constraints": 1, "too little cpu free": 2}
    assert isinstance(found.verdict, Wait) and "3 of 3 tasks found no node" in found.verdict.reason
    assert "without its constraints 1 more nodes would fit" in found.unblock
    assert any(
        "asking for less cpu than 2 CPU: up to 2 more nodes" in hint for hint in found.unblock
    )


def test_the_best_nodes_with_their_scores(tmp_path: Path) -> None:
    """Worst fit: an empty node of 4 CPUs and 8 GB keeps 3/4 + 7/8 of itself, one with a task 2/4 +
    6/8."""
    asked = Asked(
        tmp_path, "monolithic", "first,w,0,1,50,1,1,false,zone = b", "j,w,1,1,5,1,1,false,"
    )
    found = asked.why("j")
    assert [candidate.score for candidate in found.best] == pytest.approx([1.625, 1.625, 1.25])
    assert found.best[-1].node == "node-2" and found.best[-1].free == "3 CPU, 7 GB"
    assert found.chosen[0][0] in {"node-0", "node-1"}


def test_the_chosen_node_with_its_score_and_rank(tmp_path: Path) -> None:
    """Of three tasks worst fit puts one on each node: two tie at 1.625, and the node with a task
    already, 1.25, is the third best."""
    asked = Asked(
        tmp_path, "monolithic", "first,w,0,1,50,1,1,false,zone = b", "j,w,1,3,5,1,1,false,"
    )
    found = asked.why("j")
    picked = {each.node: each for each in found.picked}
    assert {node: each.tasks for node, each in picked.items()} == dict(found.chosen)
    assert "highest score" in found.how
    for node in ("node-0", "node-1"):
        assert picked[node].score == pytest.approx(1.625) and picked[node].rank == 1
        assert picked[node].free == "4 CPU, 8 GB"
    # After one task each the empty ones score 1.25 as well, so the third may go anywhere.
    assert sum(each.tasks for each in found.picked) == 3


def test_first_fit_says_that_it_draws(tmp_path: Path) -> None:
    asked = Asked(tmp_path, "monolithic", "j,w,1,1,5,1,1,false,")
    asked.tables["scheduler"]["placement"] = "first-fit"
    found = asked.why("j")
    assert "drawn at random" in found.how and found.picked[0].rank is None


def test_every_attempt_of_a_job_that_waited(tmp_path: Path) -> None:
    """Two nodes are taken until second 40, the third is not allowed: attempts at the job find no
    node with room until then, and the last one does."""
    asked = Asked(
        tmp_path, "monolithic", "first,w,0,2,40,4,1,false,zone = a", "j,w,1,1,5,2,1,false,zone = a"
    )
    asked.tables["scheduler"]["retry_s"] = 7.0
    run = engine.simulate(asked.tables)
    made = int(run.world.jobs["attempts"][run.setup.jobs.job_row("j")])
    attempts = list_attempts(engine.prepare(sc.check(asked.tables)), "j", made)
    assert [each.number for each in attempts] == list(range(1, made + 1)) and made > 3
    assert [each.nodes_with_room for each in attempts] == [0] * (made - 1) + [2]
    assert all(a.at_s < b.at_s for a, b in pairwise(attempts)) and attempts[-1].at_s > 40.0
    assert attempts[0].commonest_refusal == "too little cpu free"


@pytest.mark.parametrize(
    ("kind", "behind"), [("monolithic", [0, 2, 1, 0]), ("offers", [3, 2, 1, 0])]
)
def test_the_jobs_behind_it(kind: str, behind: list[int], tmp_path: Path) -> None:
    """A monolithic scheduler turns to the first as it arrives; an offer is made when all four
    have."""
    jobs = [f"j{k},w,0,1,5,1,1,false," for k in range(4)]
    assert [Asked(tmp_path, kind, *jobs).why(f"j{k}").queued_behind for k in range(4)] == behind


def test_an_unknown_job(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no job 'nobody'; ids run from 'other' to 'other'"):
        Asked(tmp_path, "monolithic", OTHER).why("nobody")


@pytest.mark.parametrize("kind", ["monolithic", "offers"])
def test_a_job_never_tried(kind: str, tmp_path: Path) -> None:
    """The one before it takes longer than the run."""
    asked = Asked(tmp_path, kind, OTHER, "late,w,1,1,5,1,1,false,")
    asked.tables["scheduler"]["decision"] = {"default": {"job_time_s": 1e6}}
    with pytest.raises(
        InputError, match="job 'late' was still queued at the end of the run: nothing was decided"
    ):
        asked.why("late")


@pytest.mark.parametrize("kind", ["monolithic", "offers"])
def test_an_attempt_that_was_never_made(kind: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="job 'other' was decided 1 time, not 2"):
        Asked(tmp_path, kind, OTHER).why("other", 2)


def test_a_policy_of_the_users_own(tmp_path: Path) -> None:
    asked = Asked(tmp_path, "monolithic", OTHER)
    asked.tables["scheduler"]["placement"] = "tests.simulation.policies:InOrder"
    found = asked.why("other")
    assert found.chosen == (("node-0", 1),)
    assert np.isfinite(found.at_s)
