"""Alibaba's clusters as snapshots, against counts and sums taken straight from the published
tables."""

from __future__ import annotations

import csv
import gzip
import lzma
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from murmuration.assignment.problem import APART, Problem, new_violations, sum_requests, violations
from murmuration.base.errors import InputError
from murmuration.planning.snapshots.opening import open_snapshot

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
OPENB, CONTAINERS = DATA / "alibaba-openb-2023", DATA / "alibaba-containers-2018"
CPU, GIB, MIB = 1_000_000, 2**30, 2**20


def lines(path: Path) -> list[list[str]]:
    read: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.decompress, ".xz": lzma.decompress}
    text = read.get(path.suffix, bytes)(path.read_bytes()).decode()
    return list(csv.reader(text.splitlines()))


@pytest.mark.skipif(not OPENB.exists(), reason="no openb data")
def test_openb_is_what_its_tables_say() -> None:
    nodes = lines(OPENB / "openb_node_list_all_node.csv")
    pods = lines(OPENB / "openb_pod_list_default.csv.gz")
    problem = open_snapshot(OPENB)
    assert (
        (len(problem.nodes), len(problem.tasks)) == (len(nodes) - 1, len(pods) - 1) == (1523, 8152)
    )
    assert problem.resources[:2] == ("cpu", "memory") and (problem.node_of == -1).all()
    column = {name: [row[nodes[0].index(name)] for row in nodes[1:]] for name in nodes[0]}
    asked = {name: [row[pods[0].index(name)] for row in pods[1:]] for name in pods[0]}
    assert problem.total[:, 0].tolist() == [int(x) * 1000 for x in column["cpu_milli"]]
    assert problem.total[:, 1].tolist() == [int(x) * MIB for x in column["memory_mib"]]
    assert problem.request[:, 0].tolist() == [int(x) * 1000 for x in asked["cpu_milli"]]
    assert problem.request[:, 1].tolist() == [int(x) * MIB for x in asked["memory_mib"]]
    # A pod asks for a share of one device, or for whole ones.
    shares = [
        int(n) * int(milli) * 1000
        for n, milli in zip(asked["num_gpu"], asked["gpu_milli"], strict=True)
    ]
    gpu = problem.resources.index("gpu")
    assert problem.request[:, gpu].tolist() == shares
    assert problem.total[:, gpu].tolist() == [int(x) * CPU for x in column["gpu"]]


@pytest.mark.skipif(not OPENB.exists(), reason="no openb data")
def test_a_pod_of_openb_goes_only_to_the_models_it_names() -> None:
    nodes, chosen = (
        OPENB / "openb_node_list_all_node.csv",
        OPENB / "openb_pod_list_gpuspec10.csv.gz",
    )
    models, pods = [row[-1] for row in lines(nodes)], lines(chosen)
    problem, spec = open_snapshot(nodes, place=chosen), pods[0].index("gpu_spec")
    picky = [k for k, row in enumerate(pods[1:]) if row[spec]]
    assert picky
    for k in picky:
        wanted = pods[k + 1][spec].split("|")
        assert problem.may_use(k).tolist() == [model in wanted for model in models[1:]]


@pytest.fixture(scope="module")
def containers() -> Problem:
    if not CONTAINERS.exists():
        pytest.skip("no container data")
    return open_snapshot(CONTAINERS)


def test_containers_are_what_their_tables_say(containers: Problem) -> None:
    machines = lines(CONTAINERS / "machine_resources.csv.xz")
    apps = {row[0]: row for row in lines(CONTAINERS / "app_resources.csv.xz")}
    deploy = lines(CONTAINERS / "instance_deploy.csv.xz")
    problem = containers
    assert (len(problem.nodes), len(problem.tasks)) == (len(machines), len(deploy)) == (6000, 68224)
    assert int((problem.node_of < 0).sum()) == sum(not row[2] for row in deploy) == 6970
    assert problem.total[:, 0].sum() == sum(int(row[1]) for row in machines) * CPU
    assert problem.total[:, 1].sum() == sum(int(row[2]) for row in machines) * GIB
    assert len(set(problem.group.tolist())) == len({row[1] for row in deploy})
    per_machine = Counter(row[2] for row in deploy if row[2])
    placed = np.bincount(problem.node_of[problem.node_of >= 0], minlength=6000)
    assert placed.tolist() == [per_machine[name] for name in problem.nodes]
    # Of a day's curve the highest point counts, and the disk as it is.
    peaks = {name: max(map(float, row[1].split("|"))) for name, row in apps.items()}
    assert np.allclose(problem.request[:, 0] / CPU, [peaks[row[1]] for row in deploy], atol=1e-5)
    disk = problem.resources.index("disk")
    assert problem.request[:, disk].tolist() == [float(apps[row[1]][3]) * CPU for row in deploy]


def test_rules_of_containers_are_counted_as_the_contest_counts_them(containers: Problem) -> None:
    """Beside an instance of a at most k of b; of a itself, the k others. Tens of thousands of rules
    in seconds."""
    interference = lines(CONTAINERS / "app_interference.csv.xz")
    deploy = lines(CONTAINERS / "instance_deploy.csv.xz")
    problem = containers
    assert {rule.kind for rule in problem.rules} == {APART} and len(problem.rules) == 30687
    everywhere = np.random.default_rng(1).integers(0, 200, len(problem.tasks))
    on: dict[tuple[str, int], int] = Counter()
    holding: dict[str, set[int]] = {}
    for (_, app, _), node in zip(deploy, everywhere.tolist(), strict=True):
        on[app, node] += 1
        holding.setdefault(app, set()).add(node)
    expected = sum(
        on[b, node] - (a == b) > int(k)
        for a, b, k in interference
        for node in holding.get(a, ())
        if (b, node) in on
    )
    found = violations(problem, everywhere)
    assert sum(v.kind == APART for v in found) == expected > 0
    # What was there breaks no rule, and one move is judged without looking at the others.
    assert {v.kind for v in violations(problem, problem.node_of)} <= {"capacity"}
    moved = problem.node_of.copy()
    moved[0] = (moved[0] + 1) % 6000
    over = sum_requests(problem, moved)[moved[0]] > problem.total[moved[0]]
    kinds = {v.kind for v in new_violations(problem, moved)}
    assert kinds <= {APART, "capacity"} and ("capacity" in kinds) == over.any()


def test_a_folder_without_the_tables_and_a_container_nowhere_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="expected a snapshot, or a folder with openb's lists"):
        open_snapshot(tmp_path)
    (tmp_path / "machine_resources.csv").write_text("m1,4,8,100,7,3,7\n")
    (tmp_path / "app_resources.csv").write_text("a,1|2,1|1,10,0,0,0\n")
    (tmp_path / "app_interference.csv").write_text("a,a,0\n")
    (tmp_path / "instance_deploy.csv").write_text("i1,a,m1\ni2,a,\n")
    problem = open_snapshot(tmp_path)
    assert problem.node_of.tolist() == [0, -1] and problem.request[0, 0] == 2 * CPU
    (tmp_path / "instance_deploy.csv").write_text("i1,a,m2\n")
    with pytest.raises(
        InputError, match="container i1 names an application or a node that is not there"
    ):
        open_snapshot(tmp_path)
    (tmp_path / "instance_deploy.csv").write_text("i1,a\n")
    with pytest.raises(InputError, match="line 1: expected 3 fields, got 2"):
        open_snapshot(tmp_path)
