"""Batches and the moves that make room: against exhaustive search, invariants at every turn, the
same bytes again."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.scenarios import HORIZON_S, ROOMY, Tables, random_tables
from tests.simulation.test_invariants import check_counts
from tests.simulation.test_resume import in_pieces, left_behind, whole

from murmuration.base.errors import InputError
from murmuration.experiments import runs
from murmuration.experiments.specs import make_study, variant_specs
from murmuration.simulation.engine import loop
from murmuration.simulation.engine import run as engine
from murmuration.simulation.results import explain, invariants
from murmuration.simulation.results import summary as results
from murmuration.simulation.scenarios import scenario as sc

GENETIC: list[Tables] = [
    {
        "kind": "genetic",
        "genetic": {"batch_s": batch_s, "evaluations": evaluations, "population": 8, **more},
    }
    for batch_s, evaluations in ((2.0, 30), (0.5, 0))
    for more in ({}, {"mb_per_s": 1000.0}, {"mb_per_s": 10_000.0}, {"move": False})
]
HEADER = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task,gang,constraints"


def tables_of(folder: Path, jobs: list[str], sizes: list[int], **rules: Any) -> Tables:
    """One group of nodes for each size in CPUs; decisions take no time."""
    path = folder / "jobs.csv"
    path.write_text("\n".join([HEADER, *(job.replace(",", ",all,", 1) for job in jobs)]) + "\n")
    groups = [
        {"count": 1, "cpu": cpu, "memory": "64G", "attributes": {"n": float(k)}}
        for k, cpu in enumerate(sizes)
    ]
    return {
        "name": "small",
        "seed": 3,
        "days": 400 / 86_400,
        "cluster": {"group": groups},
        "workload": {"trace": str(path)},
        "scheduler": {
            "kind": "genetic",
            "decision": {"default": {"job_time_s": 0.0, "task_time_s": 0.0}},
            "genetic": {"population": 8, "evaluations": 20, "mb_per_s": 1000.0, **rules},
        },
    }


def with_one_each(folder: Path, *jobs: str, **rules: Any) -> engine.Run:
    """Two nodes of 4 CPUs with a task of 1 CPU on each, a moment before 20 s; whatever comes may
    use both."""
    small = [f"s{k},0,1,1000,1,1,false,n = {k}" for k in range(2)]
    run = engine.prepare(sc.check(tables_of(folder, [*small, *jobs], [4, 4], **rules)))
    engine.advance(run, 19.0)
    run.world.jobs["mask"][:] = -1
    return run


def left(run: engine.Run) -> int:
    return int(run.world.jobs["left"].sum())


def nodes_of(run: engine.Run, job: int) -> list[int]:
    tasks = run.world.tasks
    return sorted(run.world.slots["node"][np.flatnonzero(tasks["job"] == job)].tolist())


def reachable(sizes: list[int], running: list[tuple[int, int]], new: int) -> bool:
    """Whether moving running tasks one by one, each to a node with room, can make room for a new
    one: all states."""
    start = tuple(node for _, node in running)
    seen, queue = {start}, [start]
    while queue:
        state = queue.pop()
        free = list(sizes)
        for (cpu, _), node in zip(running, state, strict=True):
            free[node] -= cpu
        if max(free) >= new:
            return True
        for task, node in product(range(len(running)), range(len(sizes))):
            if node != state[task] and running[task][0] <= free[node]:
                then = (*state[:task], node, *state[task + 1 :])
                if then not in seen:
                    seen.add(then)
                    queue.append(then)
    return False


def filled(rng: np.random.Generator) -> tuple[list[int], list[tuple[int, int]], int]:
    """Nodes, tasks on them that leave less than half free, and a task that fits on none as they
    are."""
    sizes = rng.integers(3, 9, size=3).tolist()
    free, running = list(sizes), []
    for _ in range(6):
        cpu, node = int(rng.integers(1, 5)), int(rng.integers(3))
        if cpu <= free[node]:
            running.append((cpu, node))
            free[node] -= cpu
    return sizes, running, int(rng.integers(max(free) + 1, max(max(sizes), max(free) + 1) + 1))


def test_a_task_finds_room_exactly_where_some_sequence_of_moves_makes_it(tmp_path: Path) -> None:
    made, hopeless = 0, 0
    for seed in range(60):
        sizes, running, new = filled(np.random.default_rng(seed))
        if new > max(sizes):
            continue
        # Tasks come one after another to the node that a constraint would name; then the constraint
        # is forgotten.
        jobs = [
            f"r{k},{k * 0.5},1,1000,{cpu},1,false,n = {node}"
            for k, (cpu, node) in enumerate(running)
        ]
        run = engine.prepare(
            sc.check(tables_of(tmp_path, [*jobs, f"new,20,1,1000,{new},1,false,"], sizes))
        )
        engine.advance(run, 19.0)
        assert [nodes_of(run, k) for k in range(len(running))] == [[node] for _, node in running]
        run.world.jobs["mask"][:] = -1
        engine.advance(run)
        invariants.check(run)
        possible = reachable(sizes, running, new)
        assert (left(run) == 0) == possible, f"seed {seed}: {sizes} {running} {new}"
        made, hopeless = made + possible, hopeless + (not possible)
    assert made > 10 and hopeless > 10


def packable(rng: np.random.Generator) -> tuple[list[int], list[int]]:
    """Nodes, and tasks that nearly fill them, made by filling them and shuffled."""
    sizes, tasks = rng.integers(3, 9, size=3).tolist(), []
    for size in sizes:
        free = size
        while free > 0 and rng.random() < 0.9:
            tasks.append(int(rng.integers(1, min(free, 5) + 1)))
            free -= tasks[-1]
    rng.shuffle(tasks)
    return sizes, tasks


def test_tasks_that_fit_together_are_all_placed(tmp_path: Path) -> None:
    """In one batch, and nearly always in three, where moves must mend what came before."""
    whole_batches, in_three = 0, 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        sizes, tasks = packable(rng)
        for times in (np.zeros(len(tasks)), rng.integers(0, 3, size=len(tasks)) * 10.0):
            jobs = [
                f"j{k},{at},1,1000,{cpu},1,false,"
                for k, (cpu, at) in enumerate(zip(tasks, times, strict=True))
            ]
            run = engine.simulate(tables_of(tmp_path, jobs, sizes))
            invariants.check(run)
            if times.any():
                in_three += left(run) > 0
            else:
                whole_batches += left(run) > 0
    assert whole_batches == 0 and in_three <= 2


def test_new_tasks_are_packed_together_where_one_after_the_other_would_not_fit(
    tmp_path: Path,
) -> None:
    """Whatever node the small one is given first, the batch leaves the large node to the large
    task."""
    jobs = ["a,0,1,1000,2,1,false,", "b,0,1,1000,4,1,false,"]
    run = engine.simulate(tables_of(tmp_path, jobs, [4, 2]))
    assert left(run) == 0 and nodes_of(run, 0) == [1] and nodes_of(run, 1) == [0]
    assert run.world.state["migrations"][0] == 0


def test_a_gang_starts_whole_once_moves_have_made_room_for_all_of_it(tmp_path: Path) -> None:
    jobs = [f"s{k},0,1,1000,1,1,false,n = {k}" for k in range(4)]
    tables = tables_of(tmp_path, [*jobs, "g,20,2,1000,4,1,true,"], [4, 4, 4, 4])
    run = engine.prepare(sc.check(tables))
    engine.advance(run, 19.0)
    run.world.jobs["mask"][:] = -1
    for second in np.arange(20.0, 60.0):
        engine.advance(run, float(second))
        assert run.world.jobs["left"][4] in (0, 2)
        invariants.check(run)
    assert left(run) == 0 and run.world.state["migrations"][0] == 2


def test_a_constraint_is_kept_by_moves_too(tmp_path: Path) -> None:
    """The only task that could make room may not leave."""
    tables = tables_of(
        tmp_path, ["s,0,1,1000,1,1,false,n = 0", "l,20,1,1000,4,1,false,n = 0"], [4, 4]
    )
    run = engine.simulate(tables)
    assert run.world.jobs["left"].tolist() == [0, 1] and run.world.state["migrations"][0] == 0


def test_a_small_task_does_not_take_the_room_that_is_being_made(tmp_path: Path) -> None:
    """Small ones come all the time while a slow migration makes room for a large one."""
    more = [f"m{k},{30 + 5 * k},1,1000,1,1,false," for k in range(6)]
    run = with_one_each(tmp_path, "l,20,1,1000,4,1,false,", *more, mb_per_s=20.0)
    engine.advance(run)
    assert run.world.jobs["left"][2] == 0
    # Two of the six that came later fit beside the two small ones, which now share a node.
    assert left(run) == 4


def test_without_moves_what_fits_nowhere_waits(tmp_path: Path) -> None:
    run = with_one_each(tmp_path, "l,20,1,1000,4,1,false,", move=False)
    engine.advance(run)
    assert run.world.jobs["left"].tolist() == [0, 0, 1]


@pytest.mark.parametrize("events", [False, True])
def test_what_must_hold_holds_at_every_turn(events: bool, tmp_path: Path) -> None:
    """Resources add up and no node is over its total, whatever comes, ends, moves, joins or
    leaves."""
    moved = 0
    for seed in range(16):
        tables = random_tables(seed, GENETIC, tmp_path, jobs_max=80)
        tables["cluster"]["group"].append(ROOMY)
        if events:
            tables["cluster"]["group"][0] |= {"leave_s": 20.0}
            tables["cluster"]["group"].append(
                {"count": 2, "cpu": 4, "memory": "8G", "join_s": 5.0, "leave_s": 35.0}
            )
        run = engine.prepare(sc.check(tables))
        for until in np.linspace(0.0, HORIZON_S, 40)[1:-1]:
            engine.advance(run, float(until))
            invariants.check(run)
        assert engine.advance(run) == loop.FINISHED
        invariants.check(run)
        if not events:
            check_counts(run)
        moved += int(run.world.state["migrations"][0])
    assert moved > 5


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000))
def test_nothing_is_overloaded_between_any_two_events(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    """The table is looked at after every single turn, start and end of a migration."""
    tables = random_tables(seed, GENETIC, tmp_path_factory.mktemp("jobs"), jobs_max=40)
    tables["cluster"]["group"].append(ROOMY)
    run = engine.prepare(sc.check(tables))
    at = 0.0
    while at < HORIZON_S:
        engine.advance(run, at)
        assert (run.world.free >= 0).all()
        notes = run.world.event_queue["time"][: run.world.state["scheduled"][0]]
        arrivals = run.world.jobs["submit"][run.world.jobs["submit"] > at]
        at = float(min(notes.min(), arrivals.min(initial=np.inf)))


def test_the_same_seed_leaves_the_same_bytes_also_after_stops(tmp_path: Path) -> None:
    for seed in range(6):
        tables = random_tables(seed, GENETIC, tmp_path)
        tables["cluster"]["group"].append(ROOMY)
        once = whole(tables, tmp_path)
        assert whole(tables, tmp_path) == once, "the same seed again"
        assert in_pieces(tables, tmp_path, [0.0, 7.25, 17.3, HORIZON_S / 2]) == once


def test_a_world_that_must_grow_is_the_same_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = random_tables(5, GENETIC, tmp_path)
    tables["cluster"]["group"].append({**ROOMY, "count": 20})
    once = whole(tables, tmp_path)
    monkeypatch.setattr("murmuration.simulation.engine.build.ROWS_START", 16)
    monkeypatch.setattr("murmuration.simulation.engine.build.SLOTS_START", 8)
    run = engine.prepare(sc.check(tables))
    start = len(run.world.slots)
    engine.finish(run)
    assert len(run.world.slots) > start, "it must grow for this to show anything"
    assert left_behind(run, tmp_path) == once


def usage_tables(folder: Path) -> Tables:
    service = {
        "initial": 20,
        "arrivals_per_s": 0.05,
        "task_duration_s": 60,
        "task_cpu": 1,
        "task_memory": "1G",
        "spread": 0.5,
        "usage": {"cpu": 0.5, "memory": 0.6, "noise": 0.1, "step_s": 10.0},
    }
    large = {"arrivals_per_s": 0.02, "task_duration_s": 60, "task_cpu": 4, "task_memory": "4G"}
    return {
        "name": "usage",
        "seed": 2,
        "days": 0.005,
        "cluster": {"nodes": 10, "cpu": 4, "memory": "8G"},
        "workload": {"service": service, "large": large},
        "scheduler": {
            "kind": "genetic",
            "usage_s": 10.0,
            "genetic": {"evaluations": 20, "population": 8},
        },
    }


def test_where_usage_is_measured_requests_are_what_counts(tmp_path: Path) -> None:
    run = engine.prepare(sc.check(usage_tables(tmp_path)))
    for until in np.linspace(0.0, 400.0, 30):
        engine.advance(run, float(until))
        invariants.check(run)
        assert (run.world.unreserved >= 0).all()
    assert run.world.state["migrations"][0] > 0


def test_a_waiting_job_is_told_why(tmp_path: Path) -> None:
    jobs = [f"s{k},0,1,1000,3,1,false,n = {k}" for k in range(2)]
    scenario = sc.check(tables_of(tmp_path, [*jobs, "l,20,1,1000,4,1,false,"], [4, 4]))
    found = explain.explain(engine.prepare(scenario), "l", 2)
    assert found.placed == 0 and found.filtered == {"too little cpu free": 2} and found.attempt == 2
    assert "no moves of running tasks were found" in found.notes[1]
    placed = explain.explain(engine.prepare(scenario), "s1", 1)
    assert placed.placed == 1 and placed.chosen == (("node-1", 1),) and placed.verdict is None


def test_a_job_is_told_that_room_is_being_made(tmp_path: Path) -> None:
    run = with_one_each(tmp_path, "l,20,1,1000,4,1,false,")
    found = explain.explain(run, "l", 1)
    assert found.placed == 0 and found.notes[1].startswith("room is being made for it on node-")
    assert explain.explain(run, "l", 2).placed == 1


def test_decisions_take_their_time(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, [f"j{k},1,2,1000,1,1,false," for k in range(3)], [8])
    tables["scheduler"]["decision"] = {"default": {"job_time_s": 1.0, "task_time_s": 0.25}}
    run = engine.simulate(tables)
    # The batch begins at 10 s and takes three times one second and two quarters.
    assert (run.world.jobs["first"] == 10.0).all() and (run.world.jobs["full"] == 14.5).all()
    assert results.summary(run, "x")["schedulers"]["all"]["busy_fraction"] == pytest.approx(
        4.5 / 400
    )


def test_fragmentation_leaves_nothing_waiting_that_moves_can_help() -> None:
    """The example: large tasks after small ones."""
    tables = sc.load(str(Path(__file__).parents[2] / "examples" / "fragmented.toml"))
    specs = variant_specs(
        make_study(sc.override(tables, {"days": 0.03})), ["monolithic", "genetic", "genetic-stays"]
    )
    waiting = {}
    for spec in specs:
        summary = runs.execute(spec)
        waiting[spec.label] = summary["workloads"]["large"]["jobs_queued"]
        assert summary["workloads"]["small"]["jobs_queued"] <= 2
    assert waiting["genetic"] <= 1 < waiting["monolithic"] <= waiting["genetic-stays"]


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("genetic.batch_s", 0, "scheduler.genetic.batch_s: expected a number from 0.001"),
        ("genetic.evaluations", -1, "scheduler.genetic.evaluations: expected a number from 0"),
        ("genetic.population", 1, "scheduler.genetic.population: expected a number from 4"),
        ("genetic.objectives", [], "scheduler.genetic.objectives: expected at least one"),
        (
            "genetic.objectives",
            ["imbalanc"],
            "scheduler.genetic.objectives: unknown objective 'imbalanc'",
        ),
        (
            "genetic.objectives",
            ["power=0"],
            "scheduler.genetic.objectives power: expected a number above 0",
        ),
        ("genetic.mb_per_s", 0, "scheduler.genetic.mb_per_s: expected a number above 0"),
        ("genetic.bach_s", 1, "unknown key 'scheduler.genetic.bach_s'"),
        ("reclaim", True, "scheduler.reclaim: expected false with genetic"),
    ],
)
def test_bad_input_gets_one_sentence(key: str, value: Any, words: str) -> None:
    tables = sc.override(
        sc.load("omega-a"), {"scheduler.kind": "genetic", f"scheduler.{key}": value}
    )
    with pytest.raises(InputError) as error:
        sc.check(tables)
    assert words in str(error.value)


def test_a_placement_in_plain_python_is_refused() -> None:
    slow = {"scheduler.placement": "tests.simulation.policies:SlowFirstFit", "cluster.nodes": 5}
    tables = sc.override(sc.load("omega-a"), {"scheduler.kind": "genetic", **slow})
    with pytest.raises(InputError, match="genetic starts from a compiled placement"):
        engine.prepare(sc.check(tables))
