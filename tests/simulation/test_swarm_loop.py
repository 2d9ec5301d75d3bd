"""A swarm in the table of a running cluster: it packs, spreads, gathers and adapts, and resources
add up all along."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from murmuration.base.errors import InputError
from murmuration.base.random import load
from murmuration.experiments.runs import execute, simulate
from murmuration.experiments.specs import make_study, variant_specs
from murmuration.schedulers.swarm import destinations, pheromone
from murmuration.simulation.architectures.swarm.world import SwarmWorld
from murmuration.simulation.engine import run as engine
from murmuration.simulation.engine import world as wd
from murmuration.simulation.results import invariants, snapshots
from murmuration.simulation.results import summary as results
from murmuration.simulation.scenarios import scenario as sc

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
HEADER = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task\n"
Tables = dict[str, Any]


def swarm_of(run: engine.Run) -> SwarmWorld:
    return cast(SwarmWorld, run.world)


def replay(folder: Path, jobs: list[str], nodes: int = 20, **swarm: Any) -> Tables:
    """Nodes of 4 CPU and 8 GB under a job list, for an hour and a half."""
    path = folder / "jobs.csv"
    path.write_text(HEADER + "".join(f"{job}\n" for job in jobs))
    return {
        "name": "swarm-test",
        "days": 0.0625,
        "cluster": {"nodes": nodes, "cpu": 4, "memory": "8G"},
        "workload": {"trace": str(path)},
        "scheduler": {"kind": "swarm", "swarm": swarm},
    }


def mixed(**swarm: Any) -> Tables:
    """Unequal nodes, tasks of two sizes that come and go, one kind production and one picky."""
    return {
        "name": "mixed",
        "days": 0.02,
        "seed": 5,
        "cluster": {
            "group": [
                {"count": 15, "cpu": 8, "memory": "32G"},
                {"count": 5, "cpu": 16, "memory": "24G"},
            ]
        },
        "workload": {
            "web": {
                "arrivals_per_s": 0.05,
                "tasks_per_job": 3,
                "task_duration_s": 400,
                "task_cpu": 1,
                "task_memory": "2G",
                "production": True,
            },
            "batch": {
                "arrivals_per_s": 0.2,
                "tasks_per_job": 4,
                "task_duration_s": 60,
                "task_cpu": "500m",
                "task_memory": "3G",
                "picky": 0.3,
            },
        },
        "scheduler": {"kind": "swarm", "swarm": swarm},
    }


def finished(tables: Tables) -> engine.Run:
    run = engine.prepare(sc.check(tables))
    engine.finish(run, lambda share: invariants.check(run))
    return run


def shares(run: engine.Run) -> np.ndarray:
    """The largest share taken of each node; 0 where it has nothing."""
    taken: np.ndarray = (1.0 - run.world.free / np.maximum(run.world.total, 1)).max(axis=1)
    return np.where(run.world.total[:, 0] > 0, taken, 0.0)


VARIANTS: list[Tables] = [
    {},
    {"search": "chord"},
    {"strategy": "spread", "overload": 0.5, "underload": 0.5},
    {"size_weighted": True},
    {"overload": 0.8, "underload": 0.7},
    {"pheromone": "linear", "migration_s": 0.0},
    {"search": "chord", "candidates": 0, "migration_s": 90.0},
    {"affinity": ["web"]},
    {"affinity": ["web", "batch"], "search": "chord", "size_weighted": True},
    {"switch_s": 600.0, "overload": 0.6, "underload": 0.6},
]


@pytest.mark.parametrize(
    "swarm", VARIANTS, ids=lambda swarm: ", ".join(map(str, swarm.values())) or "default"
)
def test_resources_add_up_all_along(swarm: Tables) -> None:
    run = finished(mixed(**swarm))
    summary = results.summary(run, "swarm")
    cluster = summary["cluster"]
    assert cluster["migrations"] > 0 and cluster["migrations_per_min"] > 0
    # Tasks of 2 and 3 GB: each migration moves 100 MB and that.
    mb = cluster["migrated_mb_per_min"] / cluster["migrations_per_min"]
    assert 100 + 2e9 / 2**20 <= mb <= 100 + 3e9 / 2**20
    assert (
        run.world.outgoing.sum()
        == run.world.request[run.world.tasks["job"][run.world.tasks["source"] >= 0]].sum()
    )
    placed = summary["workloads"]
    assert all(
        placed[name]["jobs_scheduled"] > 0.7 * placed[name]["jobs_submitted"] for name in placed
    )


def test_a_homogeneous_cluster_packs_onto_the_fewest_nodes(tmp_path: Path) -> None:
    # 40 tasks of 1 CPU on 20 nodes of 4: ten nodes hold them.
    for search in ("ring", "chord"):
        run = finished(replay(tmp_path, ["a,web,0,40,99999,1,2"], search=search))
        assert sorted(shares(run)) == [0.0] * 10 + [1.0] * 10
        cluster = results.summary(run, "swarm")["cluster"]
        assert cluster["migrations"] >= 10 and cluster["allocation_types"]["idle"] > 9


def test_the_swarm_spreads_what_is_above_the_threshold(tmp_path: Path) -> None:
    tables = replay(
        tmp_path, ["a,web,0,30,99999,1,2"], strategy="spread", overload=0.5, underload=0.5
    )
    tables["scheduler"]["placement"] = "best-fit"
    run = finished(tables)
    assert shares(run).max() <= 0.5 and results.summary(run, "swarm")["cluster"]["migrations"] >= 14


def test_one_parameter_switches_the_strategy_at_run_time(tmp_path: Path) -> None:
    tables = replay(
        tmp_path, ["a,web,0,20,99999,1,2"], switch_s=2700.0, switch_to="bin-pack", strategy="spread"
    )
    run = engine.prepare(sc.check(tables))
    engine.advance(run, 2690.0)
    before, moves = shares(run), int(run.world.state["migrations"][0])
    engine.finish(run)
    assert moves == 0 and (before > 0).sum() > 5
    assert (shares(run) > 0).sum() == 5 and run.world.state["migrations"][0] > 0


def test_bursts_deaths_and_new_nodes(tmp_path: Path) -> None:
    """A burst is packed; part of it dies and the rest packs again; nodes that join take what is
    above a threshold."""
    jobs = ["a,web,0,20,2000,1,2", "b,web,10,36,99999,1,2"]
    run = engine.prepare(sc.check(replay(tmp_path, jobs, step_s=2)))
    joined = np.arange(15, 20)
    run.world.free[joined] = run.world.total[joined] = 0
    engine.advance(run, 1900.0)
    assert (shares(run) > 0).sum() == 14
    engine.advance(run, 3500.0)
    assert (shares(run) > 0).sum() == 9
    run.world.total[joined] = run.world.free[joined] = run.world.total[0]
    rules = swarm_of(run).swarm
    rules["overload"] = rules["underload"] = 0.5
    engine.finish(run)
    assert shares(run).max() <= 0.5 and (shares(run)[joined] > 0).sum() >= 3


def test_a_migration_counts_on_both_nodes_until_it_ends_and_a_node_sends_one_at_a_time(
    tmp_path: Path,
) -> None:
    run = engine.prepare(sc.check(replay(tmp_path, ["a,web,0,20,99999,1,2"], migration_s=100.0)))
    engine.advance(run, 9.0)
    moving = run.world.tasks["source"] >= 0
    assert moving.sum() >= 3
    taken = (run.world.total - run.world.free).sum(axis=0)
    assert (taken == run.world.request[0] * (20 + moving.sum())).all()
    ends: dict[int, list[float]] = {}
    for note in run.world.event_queue[: run.world.state["scheduled"][0]]:
        if note["what"] & wd.KIND_MASK == wd.MIGRATION_ENDS:
            slot = int(note["what"] >> wd.KIND_BITS) & (2**32 - 1)
            ends.setdefault(int(run.world.tasks["source"][slot]), []).append(float(note["time"]))
    for times in ends.values():
        assert sorted(times) == [5.0 + 100.0 * (k + 1) for k in range(len(times))]
    engine.advance(run, 5000.0)
    invariants.check(run)
    assert (run.world.tasks["source"] < 0).all()


def test_a_task_that_ends_on_the_way_leaves_both_nodes() -> None:
    run = finished(mixed(migration_s=300.0))
    assert swarm_of(run).swarm["cut_short"][0] > 0


def predicted(run: engine.Run) -> np.ndarray:
    """One step of all agents in plain Python: the node of each slot afterwards."""
    world = run.world
    bits = np.random.SFC64(0)
    load(bits, world.rng[-1])
    draw = np.random.Generator(bits)
    total, free, node = world.total, world.free.copy(), world.slots["node"].copy()
    used, counted = total - free - world.outgoing, np.ones(2, np.int64)
    slots = np.flatnonzero(world.tasks["job"] >= 0)
    sizes = world.request[world.tasks["job"]]
    least = [pheromone.least_dominant(used[i], total[i], counted) for i in range(len(total))]
    smallest = [
        min((sizes[s][least[i]] / total[i][least[i]] for s in slots if node[s] == i), default=1.0)
        for i in range(len(total))
    ]
    for slot in slots[world.tasks["source"][slots] < 0]:
        i, size = node[slot], sizes[slot]
        fullness = (used[i] / total[i]).min()
        p = pheromone.bin_pack(fullness, 1.0, smallest[i], pheromone.QUADRATIC)
        if p <= 0.0 or draw.random() >= p:
            continue
        for away in range(1, len(total)):
            j = (i + away) % len(total)
            room = (size <= free[j]).all() and destinations.has_room(used[j], total[j], size, 1.0)
            if room and destinations.is_fuller(used[j], total[j], size, counted, fullness):
                used[i], used[j], free[j], node[slot] = (
                    used[i] - size,
                    used[j] + size,
                    free[j] - size,
                    j,
                )
                break
    return node


def test_a_step_of_the_kernel_is_the_step_of_a_plain_simulator() -> None:
    tables = mixed(migration_s=12.7, step_s=10.0)
    tables["workload"]["batch"].pop("picky")
    run = engine.prepare(sc.check(tables))
    moved = 0
    for step in range(1, 40):
        # Nothing else happens within a thousandth of a second around a step, or the next one is
        # taken.
        engine.advance(run, 10.0 * step - 1e-3)
        expected, events = predicted(run), int(run.world.state["events"][0])
        before = run.world.slots["node"].copy()
        engine.advance(run, 10.0 * step)
        if run.world.state["events"][0] == events:
            assert (run.world.slots["node"] == expected).all()
            moved += int((before != expected).sum())
    assert moved > 50


def test_a_chord_search_without_a_limit_finds_whatever_the_ring_finds() -> None:
    """At rest under one search means at rest under the other: no task has a destination left."""
    tables = mixed(search="chord", candidates=0)
    tables["workload"] = {
        "web": {**tables["workload"]["web"], "task_duration_s": 1e9, "arrivals_per_s": 0.002}
    }
    tables["days"] = 0.1
    run = finished(tables)
    world = run.world
    count = int(world.state["migrations"][0])
    swarm_of(run).swarm["search"] = 0
    world.state["horizon"] *= 1.01
    engine.finish(run)
    assert world.state["migrations"][0] - count <= 2


def test_groups_gather_on_one_node() -> None:
    tables = mixed(affinity=["web"], step_s=5)
    run = finished(tables)
    together = results.summary(run, "swarm")["cluster"]["groups_together"]
    assert together is not None and together > 0.9
    assert results.summary(finished(mixed()), "swarm")["cluster"]["groups_together"] is None


def test_a_group_that_fits_nowhere_is_told_so(tmp_path: Path) -> None:
    jobs = ["a,web,0,5,100,1,1", "b,web,0,4,100,1,1"]
    run = engine.prepare(sc.check(replay(tmp_path, jobs, affinity=["web"])))
    assert [reason.reason for reason in run.setup.infeasible.values()] == [
        "its 5 tasks must share a node and no node holds more than 4 of them"
    ]
    with pytest.raises(
        InputError, match="no job can ever run; job a: its 5 tasks must share a node"
    ):
        engine.prepare(sc.check(replay(tmp_path, jobs[:1], affinity=["web"])))


def assert_same(a: np.ndarray, b: np.ndarray, name: str) -> None:
    """Equal field by field: a time that has not come yet is no number, and what lies between the
    fields of a record counts for nothing."""
    for field in a.dtype.names or [None]:
        left, right = (a, b) if field is None else (a[field], b[field])
        assert np.array_equal(left, right, equal_nan=left.dtype.kind == "f"), (name, field)


def test_a_snapshot_goes_on_where_it_stopped(tmp_path: Path) -> None:
    whole = finished(mixed())
    part = engine.prepare(sc.check(mixed()))
    engine.advance(part, 800.0)
    snapshots.save_run(tmp_path / "snapshot.npz", part, "mixed")
    again = engine.prepare(sc.check(mixed()))
    snapshots.load_run(tmp_path / "snapshot.npz", again, "mixed")
    engine.finish(again)
    for name, array in whole.world._asdict().items():
        assert_same(array, getattr(again.world, name), name)


def test_compared_beside_kubernetes_scores() -> None:
    tables = mixed()
    tables["variant"] = {
        "kubernetes": {"scheduler.kind": "monolithic", "scheduler.placement": "least-allocated"}
    }
    specs = variant_specs(make_study(tables), ["swarm", "kubernetes"])
    swarm, kubernetes = (execute(spec) for spec in specs)
    assert swarm["workloads"].keys() == kubernetes["workloads"].keys()
    assert (
        swarm["cluster"]["allocation_types"]["idle"]
        > kubernetes["cluster"]["allocation_types"]["idle"] + 1
    )
    assert kubernetes["cluster"]["migrations_per_min"] == 0.0
    assert math.isclose(
        swarm["cluster"]["required"]["cpu"], kubernetes["cluster"]["required"]["cpu"], rel_tol=0.01
    )


def test_pods_of_a_real_cluster_need_fewer_nodes_than_kubernetes_scores_give_them() -> None:
    openb = DATA / "alibaba-openb-2023"
    if not openb.is_dir():
        pytest.skip("the published traces are not here")
    tables: Tables = {
        "name": "openb",
        "days": 30.0,
        "cluster": {"trace": str(openb / "openb_node_list_all_node.csv")},
        "workload": {"trace": str(openb / "openb_pod_list_default.csv.gz")},
        "scheduler": {
            "kind": "swarm",
            "swarm": {"step_s": 600.0, "migration_s": 30.0, "search": "chord"},
        },
    }
    most = sc.override(
        tables, {"scheduler.kind": "monolithic", "scheduler.placement": "most-allocated"}
    )
    swarm, packed = (
        simulate(each)["cluster"]["allocation_types"]["idle"] for each in (tables, most)
    )
    assert swarm >= packed


def test_a_python_placement_may_place_what_arrives(tmp_path: Path) -> None:
    tables = replay(tmp_path, ["a,web,0,20,99999,1,2", "b,web,60,10,300,1,2"])
    tables["scheduler"]["placement"] = "tests.simulation.policies:InOrder"
    run = finished(tables)
    assert run.path == "python" and (shares(run) > 0).sum() == 5


BAD: dict[str, Tables] = {
    "scheduler.swarm.strategy: unknown word 'bin-pak'; did you mean 'bin-pack'?": {
        "strategy": "bin-pak"
    },
    "scheduler.swarm.pheromone: unknown word 'cubic'": {"pheromone": "cubic"},
    "scheduler.swarm.search: unknown word 'cord'; did you mean 'chord'?": {"search": "cord"},
    "scheduler.swarm.overload: expected a number above 0 up to 1, got 1.2": {"overload": 1.2},
    "scheduler.swarm.underload: expected a number above 0 up to 1, got 0": {"underload": 0.0},
    "scheduler.swarm.underload: expected at most overload (0.7), got 0.8": {
        "overload": 0.7,
        "underload": 0.8,
    },
    "scheduler.swarm.step_s: expected a number above 0, got 0": {"step_s": 0.0},
    "scheduler.swarm.migration_s: expected a number from 0, got -1": {"migration_s": -1.0},
    "unknown key 'scheduler.swarm.stepp_s'; did you mean 'step_s'?": {"stepp_s": 5.0},
    "scheduler.swarm.affinity.webb: there is no workload 'webb'; did you mean 'web'?": {
        "affinity": ["webb"]
    },
}


@pytest.mark.parametrize("sentence", BAD)
def test_bad_settings_get_one_sentence(sentence: str) -> None:
    with pytest.raises(InputError) as error:
        sc.check(mixed(**BAD[sentence]))
    assert sentence in str(error.value)


def test_a_misspelt_group_of_a_job_list(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no workload 'webb'; did you mean 'web'"):
        engine.prepare(sc.check(replay(tmp_path, ["a,web,0,1,1,1,1"], affinity=["webb"])))
