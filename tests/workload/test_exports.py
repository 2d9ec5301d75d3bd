"""Exports of clusters that run elsewhere, in the formats that the documentation of their tools
shows, as nodes and jobs of a simulation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from murmuration.base.errors import InputError
from murmuration.experiments.specs import read_study
from murmuration.workload.detect import open_trace
from murmuration.workload.exports.rows import ENDLESS_S
from murmuration.workload.jobs import JobList
from murmuration.workload.nodes import NodeTable
from murmuration.workload.reshape import bootstrap
from murmuration.workload.trace import Trace

MIB, GIB = 2**20, 2**30
NODES = """\
NodeName=c001 Arch=x86_64 CoresPerSocket=16
   CPUAlloc=8 CPUEfctv=32 CPUTot=32 CPULoad=7.95
   AvailableFeatures=skylake,ib
   ActiveFeatures=skylake,ib
   Gres=(null)
   NodeAddr=c001 NodeHostName=c001 Version=23.02.6
   OS=Linux 5.14.0-362.el9.x86_64 #1 SMP PREEMPT_DYNAMIC Tue Oct 3 2023
   RealMemory=192000 AllocMem=16384 FreeMem=151200 Sockets=2 Boards=1
   State=MIXED ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=batch,debug
   BootTime=2026-01-05T08:00:00 SlurmdStartTime=2026-01-05T08:02:11
   CfgTRES=cpu=32,mem=187.50G,billing=32

NodeName=g001 Arch=x86_64 CoresPerSocket=32
   CPUAlloc=0 CPUEfctv=62 CPUTot=64 CPULoad=0.01
   ActiveFeatures=icelake
   Gres=gpu:a100:4(S:0-1),shard:8
   RealMemory=512000 AllocMem=0 FreeMem=500000 Sockets=2 Boards=1
   State=IDLE ThreadsPerCore=1 TmpDisk=0 Weight=1
   Partitions=gpu

NodeName=c002 Arch=x86_64 CoresPerSocket=16
   CPUAlloc=0 CPUEfctv=32 CPUTot=32 CPULoad=N/A
   RealMemory=192000 AllocMem=0 FreeMem=N/A Sockets=2 Boards=1
   State=DOWN*+DRAIN ThreadsPerCore=1
   Partitions=batch
   Reason=disk failure [root@2026-01-06T10:00:00]
"""
JOBS = """\
JobID|User|Partition|Submit|Start|End|Elapsed|Timelimit|State|NNodes|NCPUS|ReqMem|AllocTRES|Constraints
100|ann|batch|2026-01-05T10:00:00|2026-01-05T10:00:10|2026-01-05T11:00:10|01:00:00|02:00:00|COMPLETED|2|32|16Gn|cpu=32,mem=32G,node=2,billing=32|skylake&ib
100.batch|||2026-01-05T10:00:10|2026-01-05T10:00:10|2026-01-05T11:00:10|01:00:00||COMPLETED|1|16|||
101_1|bob|gpu|2026-01-05T10:00:30|2026-01-05T10:01:00|2026-01-06T12:01:01|1-02:00:01|2-00:00:00|TIMEOUT|1|8|64G|cpu=8,gres/gpu:a100=2,gres/gpu=2,mem=64G,node=1|
102|ann|batch|2026-01-05T10:05:00|Unknown|Unknown|00:00:00|01:00:00|CANCELLED by 1000|1|4|4000Mc||
103|bob|batch|2026-01-05T11:00:00|2026-01-05T11:00:00|Unknown|00:10:00|01:00:00|RUNNING|1|4|4000Mc||
"""


def read(folder: Path, **files: str) -> Trace:
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return open_trace(folder)


def jobs_of(trace: Trace) -> JobList:
    assert trace.jobs is not None
    return trace.jobs


def nodes_of(trace: Trace) -> NodeTable:
    assert trace.nodes is not None
    return trace.nodes


def row(jobs: JobList, name: str) -> dict[str, Any]:
    j = jobs.job_row(name)
    return {
        "submit": float(jobs.submit_s[j]),
        "tasks": int(jobs.tasks[j]),
        "duration": float(jobs.duration_s[j]),
        "request": dict(zip(jobs.resources.names, jobs.request[j].tolist(), strict=True)),
        "workload": jobs.workloads[jobs.workload[j]],
        "gang": bool(jobs.gang[j]),
        "constraints": {str(test) for test in jobs.constraint_sets[jobs.constraint[j]]},
        "requested": float(jobs.requested_s[j]),
        "user": jobs.users[jobs.user[j]] if jobs.user[j] >= 0 else "",
    }


def test_slurm_nodes(tmp_path: Path) -> None:
    """The effective CPUs, mebibytes, generic resources of any type added up; what is down is left
    out and counted."""
    (tmp_path / "nodes.txt").write_text(NODES)
    trace = open_trace(tmp_path / "nodes.txt")
    nodes = nodes_of(trace)
    assert nodes.names == ("c001", "g001")
    assert nodes.resources.names == ("cpu", "memory", "gpu", "shard")
    expected = [[32e6, 192000 * MIB, 0, 0], [62e6, 512000 * MIB, 4e6, 8e6]]
    assert nodes.total.tolist() == expected
    assert nodes.attributes[0] == {
        "skylake": "true",
        "ib": "true",
        "partition.batch": "true",
        "partition.debug": "true",
    }
    assert trace.skipped == ("1 nodes that are DOWN*+DRAIN",)


def test_slurm_jobs(tmp_path: Path) -> None:
    """A job of two nodes is a gang of two tasks with half of what it was given; steps are no jobs;
    one that still runs has its time limit."""
    (tmp_path / "jobs.txt").write_text(JOBS)
    trace = open_trace(tmp_path / "jobs.txt")
    jobs = jobs_of(trace)
    assert list(jobs.job_id) == ["100", "101_1", "103"]
    first = row(jobs, "100")
    assert (first["submit"], first["tasks"], first["duration"]) == (0.0, 2, 3600.0)
    assert first["request"] == {"cpu": 16_000_000, "memory": 16 * GIB, "gpu": 0} and first["gang"]
    assert first["constraints"] == {"skylake exists", "ib exists"}
    assert (first["user"], first["requested"], first["workload"]) == ("ann", 7200.0, "batch")
    second = row(jobs, "101_1")
    assert (second["submit"], second["duration"]) == (30.0, 26 * 3600.0 + 1)
    assert second["request"] == {"cpu": 8_000_000, "memory": 64 * GIB, "gpu": 2_000_000}
    third = row(jobs, "103")
    assert third["duration"] == 3600.0 and third["request"]["memory"] == 4 * 4000 * MIB
    assert trace.skipped == ("1 jobs that never ran",)


def test_a_folder_of_slurm_is_a_cluster_with_its_workload(tmp_path: Path) -> None:
    """Jobs of a partition that only some nodes are in are bound to those."""
    trace = read(tmp_path, nodes_txt=NODES, jobs_txt=JOBS)
    assert len(nodes_of(trace)) == 2
    assert row(jobs_of(trace), "101_1")["constraints"] == {"partition.gpu exists"}
    tables = read_study(str(tmp_path), {}).base
    # The job submitted at second 30 runs for 26 hours and a second.
    assert tables.scenario.days * 86_400 == pytest.approx(30 + 26 * 3600 + 1)


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("|Submit|", "|Sent|", "expected the column Submit"),
        ("01:00:00|02:00:00", "an hour|02:00:00", "line 2: expected a duration such as"),
        ("2026-01-05T10:00:00|", "today|", "line 2: expected a time such as"),
        ("|4000Mc||\n103", "|lots||\n103", ""),
    ],
)
def test_slurm_that_makes_no_sense(old: str, new: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "jobs.txt").write_text(JOBS.replace(old, new, 1))
    if not sentence:
        assert len(jobs_of(open_trace(tmp_path / "jobs.txt"))) == 3
        return
    with pytest.raises(InputError, match=sentence):
        open_trace(tmp_path / "jobs.txt")


SACCT = {
    "JobID": "7",
    "User": "ann",
    "Partition": "batch",
    "Submit": "2026-01-05T10:00:00",
    "Start": "2026-01-05T10:00:00",
    "End": "2026-01-05T10:01:00",
    "Elapsed": "00:01:00",
    "Timelimit": "UNLIMITED",
    "State": "COMPLETED",
    "NNodes": "2",
    "NCPUS": "4",
    "ReqMem": "4G",
}


def sacct(*rows: dict[str, str], end: str = "") -> str:
    """What sacct prints of jobs that differ from the usual one in these fields."""
    lines = [list(SACCT), *([(SACCT | row)[name] for name in SACCT] for row in rows)]
    return "".join("|".join(line) + end + "\n" for line in lines)


def open_text(folder: Path, text: str) -> Trace:
    (folder / "export").write_text(text)
    return open_trace(folder / "export")


@pytest.mark.parametrize(
    ("memory", "bytes_per_node"),
    # Of two nodes with two CPUs each: for the job, for each node, for each CPU.
    [("4G", 2 * GIB), ("4Gn", 4 * GIB), ("4Gc", 8 * GIB), ("4000M", 2000 * MIB), ("0n", 0)],
)
def test_slurm_memory_of_a_job_a_node_or_a_cpu(
    memory: str, bytes_per_node: int, tmp_path: Path
) -> None:
    job = row(jobs_of(open_text(tmp_path, sacct({"ReqMem": memory}))), "7")
    assert (job["tasks"], job["request"]["memory"]) == (2, bytes_per_node)


def test_slurm_steps_arrays_and_limits(tmp_path: Path) -> None:
    """Steps belong to their job, an array that waits is no job yet, and where there is no limit a
    job that runs is known to run for as long as it has."""
    never = {"State": "PENDING", "Elapsed": "00:00:00", "Start": "Unknown", "End": "Unknown"}
    rows = (
        {"JobID": "123_[1-5]", **never},
        {"JobID": "123_6"},
        {"JobID": "123_6.batch"},
        {"JobID": "8+0", "State": "RUNNING", "End": "Unknown"},
        {"JobID": "9", "State": " ", "Timelimit": "Partition_Limit"},
    )
    trace = open_text(tmp_path, sacct(*rows))
    assert jobs_of(trace).job_id.tolist() == ["123_6", "8+0", "9"]
    assert jobs_of(trace).duration_s.tolist() == [60.0, 60.0, 60.0]
    assert trace.skipped == ("1 jobs that never ran",)
    assert "or for as long as they had run" in trace.assumptions[-1]


@pytest.mark.parametrize(
    "text",
    [
        sacct({}, end="|"),
        "\ufeff" + sacct({}),
        "\n" + sacct({}).replace("\n", "\n\n"),
        sacct({}).replace("\n", "\r\n"),
    ],
    ids=["-p", "byte order mark", "blank lines", "carriage returns"],
)
def test_slurm_however_it_was_kept(text: str, tmp_path: Path) -> None:
    jobs = jobs_of(open_text(tmp_path, text))
    expected = {"cpu": 2_000_000, "memory": 2 * GIB}
    assert len(jobs) == 1 and row(jobs, "7")["request"] == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (sacct({"User": "a|b"}), r"line 2: expected 12 fields, got 13; is \| part of a name"),
        (sacct({"ReqMem": "1.2.3G"}), "line 2: ReqMem: expected something such as 16G"),
        (sacct({"NNodes": "1e30"}), "job 7: expected 1 to 1,000,000 tasks"),
        (sacct({"Elapsed": "", "End": "2025-01-05T10:00:00"}), "job 7: it ended before it started"),
        ("JobID|Submit|State\n7|2026-01-05T10:00:00|COMPLETED\n", "expected the column Elapsed"),
        ("JobID    JobName\n-------- ---------\n7        etl\n", r"separated by \|, as from sacct"),
    ],
)
def test_odd_slurm_is_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence):
        open_text(tmp_path, text)


def test_slurm_nodes_in_one_line_each(tmp_path: Path) -> None:
    """`scontrol show nodes -o` says the same as without `-o`."""
    folded = "\n".join(" ".join(node.split()) for node in NODES.split("\n\n")) + "\n"
    one, many = nodes_of(open_text(tmp_path, folded)), nodes_of(open_text(tmp_path, NODES))
    assert one.names == many.names and one.attributes == many.attributes
    assert one.total.tolist() == many.total.tolist()


NOMAD_NODES: list[dict[str, Any]] = [
    {
        "ID": "7c3e",
        "Name": "client-1",
        "Datacenter": "dc1",
        "NodeClass": "large",
        "Status": "ready",
        "Drain": False,
        "SchedulingEligibility": "eligible",
        "Attributes": {"kernel.name": "linux"},
        "NodeResources": {
            "Cpu": {"CpuShares": 24000, "TotalCpuCores": 8},
            "Memory": {"MemoryMB": 32768},
            "Devices": [{"Type": "gpu", "Instances": [{"ID": "a"}, {"ID": "b"}]}],
        },
        "ReservedResources": {"Cpu": {"CpuShares": 500}, "Memory": {"MemoryMB": 768}},
    },
    {"ID": "9f", "Name": "client-2", "Datacenter": "dc1", "NodeClass": "", "Status": "down"},
]
NOMAD_ALLOCATIONS: list[dict[str, Any]] = [
    {
        "ID": "a1",
        "Name": "web.front[0]",
        "JobID": "web",
        "JobType": "service",
        "Namespace": "default",
        "TaskGroup": "front",
        "ClientStatus": "running",
        "CreateTime": 1_760_000_000_000_000_000,
        "AllocatedResources": {
            "Tasks": {
                "app": {"Cpu": {"CpuShares": 1500}, "Memory": {"MemoryMB": 512}},
                "proxy": {"Cpu": {"CpuShares": 500}, "Memory": {"MemoryMB": 256}},
            }
        },
        "TaskStates": {
            "app": {"StartedAt": "2026-01-05T10:00:00.123456789Z", "FinishedAt": None},
            "proxy": {"StartedAt": "2026-01-05T10:00:00Z", "FinishedAt": "0001-01-01T00:00:00Z"},
        },
    },
    {
        "ID": "b1",
        "Name": "etl.load[0]",
        "JobID": "etl",
        "JobType": "batch",
        "TaskGroup": "load",
        "ClientStatus": "complete",
        "CreateTime": 1_760_000_060_000_000_000,
        "AllocatedResources": {
            "Tasks": {
                "run": {
                    "Cpu": {"CpuShares": 2000},
                    "Memory": {"MemoryMB": 1024},
                    "Devices": [{"Type": "gpu", "DeviceIDs": ["a"]}],
                }
            }
        },
        "TaskStates": {
            "run": {"StartedAt": "2026-01-05T10:01:02Z", "FinishedAt": "2026-01-05T10:06:02Z"}
        },
    },
    {"ID": "c1", "TaskGroup": "g", "ClientStatus": "pending", "TaskStates": None},
]


def test_nomad(tmp_path: Path) -> None:
    """A thousand MHz are one CPU on both sides, what is reserved is not room, and what still runs
    runs on."""
    trace = read(
        tmp_path, nodes_json=json.dumps(NOMAD_NODES), allocs_json=json.dumps(NOMAD_ALLOCATIONS)
    )
    nodes, jobs = nodes_of(trace), jobs_of(trace)
    assert nodes.names == ("client-1",) and nodes.total.tolist() == [
        [23_500_000, 32_000 * MIB, 2_000_000]
    ]
    assert nodes.attributes[0]["class"] == "large"
    web, load = row(jobs, "web.front[0]"), row(jobs, "etl.load[0]")
    assert web["request"] == {"cpu": 2_000_000, "memory": 768 * MIB, "gpu": 0}
    assert (web["duration"], web["submit"]) == (ENDLESS_S, 0.0)
    assert load["request"] == {"cpu": 2_000_000, "memory": 1024 * MIB, "gpu": 1_000_000}
    assert (load["duration"], load["submit"], load["workload"]) == (300.0, 60.0, "batch")
    assert "1 allocations that never started" in trace.skipped


def test_nomad_nodes_without_resources_say_how_to_get_them(tmp_path: Path) -> None:
    (tmp_path / "nodes.json").write_text(
        json.dumps([{key: v for key, v in NOMAD_NODES[0].items() if key != "NodeResources"}])
    )
    with pytest.raises(InputError, match="resources=true"):
        open_trace(tmp_path / "nodes.json")


def test_nomad_jobs_where_nothing_else_is_known(tmp_path: Path) -> None:
    group = {"Name": "g", "Count": 3, "Tasks": [{"Resources": {"CPU": 250, "MemoryMB": 128}}]}
    spec = {"Job": {"ID": "api", "Type": "service", "Priority": 70, "TaskGroups": [group]}}
    (tmp_path / "job.json").write_text(json.dumps(spec))
    job = row(jobs_of(open_trace(tmp_path / "job.json")), "api.g")
    assert (job["tasks"], job["request"]) == (3, {"cpu": 250_000, "memory": 128 * MIB})


def test_a_nomad_group_of_none_is_no_job(tmp_path: Path) -> None:
    groups = [{"Name": "off", "Count": 0}, {"Name": "one"}]
    jobs = jobs_of(open_text(tmp_path, json.dumps({"ID": "api", "TaskGroups": groups})))
    assert jobs.job_id.tolist() == ["api.one"] and jobs.tasks.tolist() == [1]


def changed(thing: dict[str, Any], path: str, value: object) -> str:
    """A list of one document with one value replaced."""
    copy = json.loads(json.dumps(thing))
    *outer, last = path.split(".")
    inner = copy
    for key in outer:
        inner = inner[key]
    inner[last] = value
    return json.dumps([copy])


NOMAD_JOB = {"ID": "api", "TaskGroups": [{"Name": "g", "Count": 1, "Tasks": []}]}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            changed(NOMAD_NODES[0], "NodeResources.Cpu", 4),
            "entry 1: NodeResources.Cpu: expected a table or nothing, got a whole number",
        ),
        (
            changed(NOMAD_NODES[0], "NodeResources.Cpu.CpuShares", "fast"),
            "NodeResources.Cpu.CpuShares: expected a number or nothing, got text",
        ),
        (changed(NOMAD_NODES[0], "NodeResources.Devices", ["gpu"]), r"Devices\[0\]: expected a t"),
        (changed(NOMAD_NODES[0], "Attributes", []), "Attributes: expected a table or nothing"),
        (changed(NOMAD_ALLOCATIONS[1], "TaskStates", ["run"]), "TaskStates: expected a table"),
        (changed(NOMAD_ALLOCATIONS[1], "CreateTime", "noon"), "CreateTime: expected a whole"),
        (
            changed(NOMAD_ALLOCATIONS[1], "TaskStates.run.FinishedAt", "2025-01-05T10:00:00Z"),
            "it ended before it started",
        ),
        (changed(NOMAD_JOB, "TaskGroups", "g"), "TaskGroups: expected a list or nothing, got text"),
        (changed(NOMAD_JOB, "TaskGroups", [{"Count": "two"}]), r"TaskGroups\[0\].Count: expected"),
        (
            changed(NOMAD_JOB, "TaskGroups", [{"Tasks": [{"Resources": {"CPU": -1}}]}]),
            "cpu: expected a number from 0, got -0.001",
        ),
    ],
)
def test_odd_nomad_is_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=sentence):
        open_text(tmp_path, text)


def pod(name: str, owner: tuple[str, str] | None, **more: Any) -> dict[str, Any]:
    references = [] if owner is None else [{"kind": owner[0], "name": owner[1], "controller": True}]
    made = more.pop("made", "2026-01-05T09:00:00Z")
    status = more.pop("status", {"phase": "Running"})
    container = {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "ownerReferences": references,
            "creationTimestamp": made,
        },
        "spec": {"containers": [container], "nodeName": "n1", **more},
        "status": status,
    }


def ended(start: str, end: str) -> dict[str, Any]:
    state = {"terminated": {"startedAt": start, "finishedAt": end}}
    return {"phase": "Succeeded", "containerStatuses": [{"state": state}]}


def kubernetes_node(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"zone": "a"}},
        "spec": spec,
        "status": {"allocatable": {"cpu": "3920m", "memory": "8Gi", "pods": "110"}},
    }


def test_kubernetes(tmp_path: Path) -> None:
    """What nodes can allocate less their daemons; replicas are one job that runs on; a finished pod
    is a job that came when it was made and ran as long as its containers."""
    things = [
        kubernetes_node("n1"),
        kubernetes_node("n2", unschedulable=True),
        pod("web-1", ("ReplicaSet", "web"), nodeSelector={"zone": "a"}),
        pod("web-2", ("ReplicaSet", "web"), nodeSelector={"zone": "a"}),
        pod("log-1", ("DaemonSet", "log")),
        pod(
            "etl-1",
            ("Job", "etl"),
            made="2026-01-05T10:00:00Z",
            restartPolicy="Never",
            status=ended("2026-01-05T10:00:05Z", "2026-01-05T10:02:05Z"),
        ),
        pod(
            "etl-2",
            ("Job", "etl"),
            made="2026-01-05T10:10:00Z",
            restartPolicy="Never",
            status=ended("2026-01-05T10:10:05Z", "2026-01-05T10:10:35Z"),
        ),
    ]
    path = tmp_path / "c.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": things}))
    trace = open_trace(path)
    nodes, jobs = nodes_of(trace), jobs_of(trace)
    assert nodes.names == ("n1",) and nodes.total.tolist() == [[3_420_000, 7 * GIB]]
    assert "1 nodes that are cordoned" in trace.skipped
    web = row(jobs, "shop/web")
    assert (web["tasks"], web["duration"], web["submit"]) == (2, ENDLESS_S, 0.0)
    assert web["constraints"] == {"zone = a"} and web["workload"] == "service"
    second = row(jobs, "shop/etl-2")
    assert (second["submit"], second["duration"], second["workload"]) == (600.0, 30.0, "batch")
    study = read_study(str(path), {})
    assert study.name == "c" and study.base.tables["cluster"] == {"trace": str(path)}


def arrivals(times: list[float]) -> JobList:
    from murmuration.base.resources import Resources
    from murmuration.workload.jobs import job_list

    count = len(times)
    return job_list(
        Resources(),
        ["w"],
        workload=np.zeros(count, dtype=np.int64),
        submit_s=np.array(times),
        tasks=np.arange(1, count + 1),
        duration_s=np.full(count, 5.0),
        request=np.ones((count, 2), dtype=np.int64),
    )


def test_a_bootstrap_draws_the_same_jobs_again_by_the_same_clock() -> None:
    """Counts are Poisson with the factor as mean, a copy comes before the next arrival after its
    original, bursts stay, and what was there at time 0 stays."""
    times = [0.0, 0.0, *np.repeat(np.arange(1.0, 2001.0), 2).tolist()]
    jobs = arrivals(times)
    drawn = bootstrap(jobs, 1.2, np.random.default_rng(7))
    assert (drawn.submit_s == 0.0).sum() == 2
    # Both of a burst come at once, so the gap behind the first is 0: half of all copies.
    later = drawn.select(drawn.submit_s > 0.0)
    original = {int(tasks): time for tasks, time in zip(jobs.tasks, jobs.submit_s, strict=True)}
    shift = later.submit_s - np.array([original[int(tasks)] for tasks in later.tasks])
    assert (shift >= 0.0).all() and (shift < 1.0).all() and 0.4 < (shift == 0.0).mean() < 0.6
    counts = np.bincount(later.tasks, minlength=len(jobs) + 1)[3:]
    # 4,000 draws of a Poisson number: the mean within five standard errors, the variance too.
    assert abs(counts.mean() - 1.2) < 5 * np.sqrt(1.2 / 4000)
    assert abs(counts.var() - 1.2) < 0.2
    assert len(set(drawn.job_id)) == len(drawn) and (np.diff(drawn.submit_s) >= 0.0).all()


def test_a_trace_runs_to_its_end_unless_days_say_otherwise(tmp_path: Path) -> None:
    header = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task\n"
    path = tmp_path / "jobs.csv"
    path.write_text(f"{header}a,w,0,1,100,1,1\nb,w,200000,1,50,1,1\n")
    study = read_study(str(path), {"cluster.nodes": 2})
    assert study.base.scenario.days * 86_400 == pytest.approx(200_050)
    shorter = read_study(str(path), {"cluster.nodes": 2, "days": 1.0})
    assert shorter.base.scenario.days == 1.0
    from murmuration.simulation.engine.run import prepare

    notes = prepare(shorter.base.scenario).setup.jobs.notes
    assert notes == ("left out: 1 of 2 jobs, which come after the 1 days of the run",)


def test_generators_have_no_recorded_arrivals() -> None:
    with pytest.raises(InputError, match="expected a scenario with a trace"):
        read_study("omega-a", {"workload.arrivals": "bootstrap"})


@pytest.mark.parametrize("name", ["gone/scenario", "gone.json"])
def test_a_path_that_is_not_there_is_no_preset(name: str) -> None:
    with pytest.raises(InputError, match="no such file; presets are"):
        read_study(name, {})


def test_a_file_of_another_shape_is_told_what_is_expected(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text("id;start;end\n1;2;3\n")
    with pytest.raises(InputError, match=r"separated by semicolons, expected commas; a job list"):
        open_trace(tmp_path / "jobs.csv")
