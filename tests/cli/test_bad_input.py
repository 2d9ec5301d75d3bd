"""Bad input gets one clear sentence on what was wrong and what was expected, exit code 2, and
leaves nothing behind."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from tests.cli.conftest import SMALL, Murmur

JOBS = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task\n"


def check(murmur: Murmur, tmp_path: Path, arguments: tuple[str, ...], *words: str) -> None:
    before = set(tmp_path.rglob("*"))
    answer = murmur(*arguments)
    assert answer.code == 2, (answer.code, answer.out, answer.err)
    assert answer.out == ""
    said = [line for line in answer.err.splitlines() if not line.startswith("compiling kernels")]
    assert len(said) == 1 and said[0].startswith("murmur: "), answer.err
    for word in words:
        assert word in said[0], said[0]
    assert set(tmp_path.rglob("*")) == before


SETTINGS = [
    ("scheduler.kind=shared-sate", ["shared-sate", "did you mean 'shared-state'"]),
    ("scheduler.placement=best-fitt", ["best-fitt", "did you mean 'best-fit'"]),
    ("scheduler.conflict=row", ["scheduler.conflict", "row"]),
    ("scheduler.confict=machine", ["scheduler.confict", "did you mean 'conflict'"]),
    ("cluster.memory='16Gx'", ["unit", "Gx"]),
    ("cluster.cpu=-4", ["cluster.cpu", "negative", "-4"]),
    ("workload.batch.task_cpu=-1", ["workload.batch.task_cpu", "negative"]),
    ("workload.batch.task_cpu=99", ["workload 'batch'", "99 CPU", "no node has more than 4 CPU"]),
    (
        "workload.batch.resources.gpu=1",
        ["workload.batch.resources.gpu", "unknown resource 'gpu'", "cpu"],
    ),
    ("workload.batch.constraints=['zone ~ a']", ["zone ~ a", "expected"]),
    ("workload.batch.arrivals_per_s=0", ["workload.batch.arrivals_per_s", "above 0"]),
    ("workload.batch.picky=2", ["workload.batch.picky", "up to 1"]),
    ("days=0", ["days", "above 0"]),
    ("days=nan", ["days", "nan"]),
    ("cluster.prefill=0.99", ["cluster.prefill", "can take"]),
    ("cluster.nodes=0", ["cluster.nodes", "from 1"]),
    ("cluster.nodes=two", ["cluster.nodes", "expected"]),
    ("scheduler.partition.batch=1.5", ["scheduler.partition.batch", "up to 1"]),
    ("scheduler.agents.bach=2", ["bach", "did you mean 'batch'"]),
    ("scheduler.policy.batch.quota=0", ["scheduler.policy.batch.quota", "above 0"]),
    ("scheduler.offers.framework.batch.guaranteed=1.2", ["guaranteed", "up to 1"]),
    ("scheduler.decision.batch.job_time_s=-1", ["job_time_s", "from 0"]),
]


@pytest.mark.parametrize(("setting", "words"), SETTINGS, ids=[setting for setting, _ in SETTINGS])
def test_a_wrong_value_is_named_with_its_key(
    murmur: Murmur, tmp_path: Path, setting: str, words: list[str]
) -> None:
    check(murmur, tmp_path, ("simulate", "small.toml", "--set", setting, "--out", "out"), *words)


def test_every_task_too_large_is_said_at_once(murmur: Murmur, tmp_path: Path) -> None:
    both = ("--set", "workload.batch.task_cpu=99", "--set", "workload.service.task_cpu=99")
    check(
        murmur,
        tmp_path,
        ("simulate", "small.toml", *both),
        "no job can ever run",
        "99 CPU",
        "no node has more than 4 CPU",
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("simulate", "omega-x"), ["preset 'omega-x'", "did you mean 'omega-"]),
        (("simulate", "missing.toml"), ["missing.toml", "cannot be read"]),
        (("compare", "small.toml", "-s", "ofers"), ["scheduler 'ofers'", "did you mean 'offers'"]),
        (("compare", "small.toml", "-s", "nowhere:Policy"), ["nowhere"]),
        (("sweep", "small.toml"), ["--vary"]),
        (("sweep", "small.toml", "--vary", "days"), ["--vary", "KEY=VALUE"]),
        (("simulate", "small.toml", "--set", "days"), ["--set", "KEY=VALUE"]),
        (("reproduce", "rsss"), ["experiment 'rsss'", "did you mean 'rss'"]),
        (("simulat", "small.toml"), ["command 'simulat'", "did you mean 'simulate'"]),
        (("why", "batch-1", "--in", "nothing"), ["nothing", "cannot be read"]),
        (("trace", "info", "small.toml"), ["small.toml", "known format"]),
        (
            ("simulate", "small.toml", "--out", "small.toml/below"),
            ["small.toml/below", "cannot be written"],
        ),
    ],
)
def test_a_wrong_name_is_answered_with_the_nearest(
    murmur: Murmur, tmp_path: Path, arguments: tuple[str, ...], words: list[str]
) -> None:
    check(murmur, tmp_path, arguments, *words)


TRACES = {
    "empty": (b"", ["empty"]),
    "header only": (JOBS.encode(), ["no jobs"]),
    "not a number": (f"{JOBS}1,batch,0,two,5,1,1\n".encode(), ["line 2", "two"]),
    "negative": (f"{JOBS}1,batch,0,1,5,1,1\n2,batch,3,1,5,-1,1\n".encode(), ["line 3", "-1"]),
    "too few fields": (f"{JOBS}1,batch,0\n".encode(), ["line 2"]),
    "same id twice": (f"{JOBS}1,batch,0,1,5,1,1\n1,batch,3,1,5,1,1\n".encode(), ["line 3", "1"]),
    "binary": (bytes(range(256)) * 4, ["trace"]),
}


@pytest.mark.parametrize("name", TRACES)
def test_a_damaged_job_list_is_named_by_file_and_line(
    murmur: Murmur, tmp_path: Path, name: str
) -> None:
    content, words = TRACES[name]
    (tmp_path / "jobs.csv").write_bytes(content)
    replayed(tmp_path, "jobs.csv")
    check(murmur, tmp_path, ("simulate", "replay.toml"), "jobs.csv", *words)


def test_a_truncated_trace_is_refused(murmur: Murmur, tmp_path: Path) -> None:
    whole = gzip.compress(
        JOBS.encode() + b"".join(b"%d,batch,%d,1,5,1,1\n" % (i, i) for i in range(2000))
    )
    (tmp_path / "jobs.csv.gz").write_bytes(whole[: len(whole) // 2])
    replayed(tmp_path, "jobs.csv.gz")
    check(murmur, tmp_path, ("simulate", "replay.toml"), "jobs.csv.gz")


def test_a_resource_the_cluster_lacks_is_named(murmur: Murmur, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS.strip() + ",gpu_per_task\n1,batch,0,1,5,1,1,2\n")
    replayed(tmp_path, "jobs.csv")
    check(murmur, tmp_path, ("simulate", "replay.toml"), "jobs.csv", "unknown resource 'gpu'")


def replayed(folder: Path, trace: str) -> None:
    """A scenario that replays a job list on the nodes of `small.toml`."""
    cluster = SMALL[SMALL.index("[cluster]") : SMALL.index("[workload.batch]")]
    (folder / "replay.toml").write_text(f'days = 0.1\n{cluster}\n[workload]\ntrace = "{trace}"\n')
