"""More bad input, and odd input that must work: nothing at all in time, nothing at all in size,
ties, unknown names."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from tests.cli.conftest import SMALL, Murmur
from tests.cli.test_bad_input import JOBS, check, replayed

HUGE = "9" * 30


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("seed=-1", ["seed", "-1"]),
        (f"seed={HUGE}", ["seed"]),
        (f"workload.batch.priority={HUGE}", ["workload.batch.priority"]),
        ("days=-1", ["days", "above 0"]),
        ("days=inf", ["days", "inf"]),
        ("days=1e9", ["days", "up to 3650"]),
        ("days=soon", ["days", "expected"]),
        ("cluster.nodes=1.5", ["cluster.nodes", "expected"]),
        ("cluster.nodes=10000000", ["cluster.nodes", "up to"]),
        ("cluster.cpu=lots", ["cluster.cpu", "lots"]),
        ("cluster.memory=1e30", ["cluster.memory", "at most"]),
        ("cluster.resources.gpu=-1", ["gpu", "negative"]),
        ("cluster.prefill=1.5", ["cluster.prefill", "up to 0.99"]),
        ("cluster.prefill=-0.1", ["cluster.prefill", "from 0"]),
        ("workload.batch.task_duration_s=0", ["workload.batch.task_duration_s", "above 0"]),
        ("workload.batch.tasks_per_job=0", ["workload.batch.tasks_per_job", "above 0"]),
        (
            "workload.batch.tasks_per_job=many",
            ["workload.batch.tasks_per_job", "expected a number, got text"],
        ),
        ("workload.batch.arrivals_per_s=-1", ["workload.batch.arrivals_per_s", "above 0"]),
        ("workload.batch.arrivals_per_s=nan", ["workload.batch.arrivals_per_s", "nan"]),
        ("workload.batch.gang=maybe", ["workload.batch.gang", "expected true or false"]),
        ("workload.batch.gnag=true", ["unknown key 'workload.batch.gnag'", "did you mean 'gang'"]),
        ("workload.batch=3", ["workload.batch", "table"]),
        ("workload=3", ["workload", "expected"]),
        ("schedular.kind=offers", ["unknown key 'schedular'", "did you mean 'scheduler'"]),
        (
            "scheduler.decision.bach.job_time_s=1",
            ["scheduler.decision.bach", "did you mean 'batch'"],
        ),
        (
            "scheduler.partition.servce=0.5",
            ["scheduler.partition.servce", "did you mean 'service'"],
        ),
        (
            "scheduler.partition={batch = 0.8, service = 0.3}",
            ["scheduler.partition", "at most 1 in all, got 1.1"],
        ),
        ("scheduler.policy.batch.headroom=1.1", ["headroom", "up to 1"]),
        ("scheduler.agents.batch=0", ["scheduler.agents.batch", "from 1"]),
        ("scheduler.retry_s=-1", ["scheduler.retry_s", "from 0"]),
        ("scheduler.attempts_max=-1", ["scheduler.attempts_max", "from 0"]),
        ("scheduler.paths=both", ["scheduler.paths", "both"]),
        ("scheduler.offers.min_cpu=-1", ["scheduler.offers.min_cpu", "negative"]),
        ("scheduler.offers.short_share=1", ["scheduler.offers.short_share", "up to 0.99"]),
        (
            "scheduler.offers={optimistic = true, short_share = 0.5}",
            ["scheduler.offers.short_share", "optimistic"],
        ),
        ("scheduler.offers.framework.batch.weight=0", ["weight", "above 0"]),
        (
            "scheduler.offers.framework.batch.filter=['zone']",
            ["scheduler.offers.framework.batch.filter", "zone"],
        ),
        ("scheduler.offers.framework.batch.filter_cpu=-2", ["filter_cpu", "negative"]),
        (
            "scheduler.offers.framework={batch = {guaranteed = 0.7}, service = {guaranteed = 0.7}}",
            ["at most 1 in all"],
        ),
        ("scheduler.offers.framework.batsh.weight=2", ["batsh", "did you mean 'batch'"]),
        ("cluster.trace=missing.csv", ["missing.csv", "no such file"]),
        ("workload.trace=missing.csv", ["missing.csv", "no such file"]),
        ("workload.trace=small.toml", ["small.toml", "not a trace of a known format"]),
        ("cluster.trace=small.toml", ["small.toml", "not a trace of a known format"]),
        ("name.x=1", ["name.x", "'name' is a value"]),
        ("=1", ["--set", "KEY=VALUE"]),
    ],
)
def test_a_wrong_value(murmur: Murmur, tmp_path: Path, setting: str, words: list[str]) -> None:
    check(murmur, tmp_path, ("simulate", "small.toml", "--set", setting, "--out", "out"), *words)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("scheduler.offers.min_cpu=5", ["scheduler.offers.min_cpu", "no node has that much"]),
        (
            "scheduler.offers.framework.batch.filter=['zone = a']",
            ["framework.batch.filter", "no node passes"],
        ),
        ("scheduler.offers.allocator=fair", ["unknown allocator 'fair'", "drf"]),
        (
            "scheduler.offers.allocator=own:SETTING",
            ["own:SETTING", "expected an allocator that can be compiled"],
        ),
        (
            "scheduler.offers.allocator=own:words",
            ["own:words", "expected an allocator that can be compiled"],
        ),
        ("scheduler.offers.allocator=own:nobody", ["own:nobody", "unknown name"]),
    ],
)
def test_offers_that_would_never_be_made(
    murmur: Murmur, tmp_path: Path, setting: str, words: list[str]
) -> None:
    """Only where offers are made: the other architectures do not look at these rules."""
    (tmp_path / "own.py").write_text("SETTING = 3\ndef words(*arguments):\n    return 'a'\n")
    check(
        murmur,
        tmp_path,
        ("simulate", "small.toml", "-s", "offers", "--set", setting, "--json"),
        *words,
    )
    assert (
        murmur("simulate", "small.toml", "-s", "monolithic", "--set", setting, "--json").code == 0
    )


@pytest.mark.parametrize("command", ["simulate", "compare", "sweep"])
def test_nothing_is_left_of_a_run_that_never_began(
    murmur: Murmur, tmp_path: Path, command: str
) -> None:
    """The folder is known to be writable before the run, but made when there is something to put in
    it."""
    vary = ("--vary", "seed=1,2") if command == "sweep" else ()
    missing = (
        "--set",
        "workload.trace=missing.csv",
        "--set",
        "scheduler.decision={}",
        "--jobs",
        "1",
    )
    check(
        murmur,
        tmp_path,
        (command, "small.toml", *vary, *missing, "--out", "a/b"),
        "missing.csv: no such file",
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("simulate", "small.toml", "--seed", "-1"), ["--seed", "-1", "murmur simulate --help"]),
        (("simulate", "small.toml", "--seed", "x"), ["--seed", "x"]),
        (("simulate", "small.toml", "--days", "0"), ["days", "above 0"]),
        (("simulate", "small.toml", "--days", "-1"), ["days", "above 0"]),
        (("simulate", "small.toml", "--days", "nan"), ["days", "nan"]),
        (("simulate", "small.toml", "--replicas", "0"), ["--replicas"]),
        (("simulate", "small.toml", "--jobs", "0"), ["--jobs"]),
        (("simulate", "small.toml", "--sett", "a=1"), ["--sett"]),
        (("simulate",), ["SCENARIO"]),
        (("simulate", "small.toml", "more"), ["more"]),
        (
            ("simulate", "small.toml", "--stop-after", "-1", "--out", "x"),
            ["--stop-after", "from 0"],
        ),
        (("simulate", "small.toml", "--stop-after", "nan", "--out", "x"), ["--stop-after", "nan"]),
        (("simulate", "small.toml", "--stop-after", "1", "--json"), ["--stop-after", "--out DIR"]),
        (("simulate", "small.toml", "--resume", "--json"), ["--resume", "--out DIR"]),
        (
            ("simulate", "small.toml", "--stop-after", "1", "--replicas", "2"),
            ["--replicas", "--stop-after"],
        ),
        (("simulate", "small.toml", "--check", "--replicas", "2"), ["--replicas", "--check"]),
        (("simulate", "small.toml", "--out", "small.toml"), ["small.toml", "cannot be written"]),
        (
            ("compare", "small.toml", "--out", "small.toml/a/b"),
            ["small.toml/a/b", "cannot be written"],
        ),
        (
            ("sweep", "small.toml", "--vary", "seed=1", "--out", "small.toml/x"),
            ["small.toml/x", "cannot be written"],
        ),
        (("reproduce", "rss", "--out", "small.toml/x"), ["small.toml/x", "cannot be written"]),
        (("reproduce", "rss", "--days", "nan"), ["--days", "nan"]),
        (("reproduce", "rss", "--days", "0"), ["--days", "above 0"]),
        (("reproduce",), ["expected a name", "mss-single"]),
        (("sweep", "small.toml", "--vary", "=1,2"), ["--vary", "KEY=VALUE"]),
        (("sweep", "small.toml", "--vary", "seed="), ["--vary", "KEY=VALUE"]),
        (("sweep", "small.toml", "--vary", "seed=1,,2"), ["--vary", "KEY=VALUE"]),
        (
            ("sweep", "small.toml", "--vary", "seed=1", "--vary", "seed=2"),
            ["--vary", "each key once", "seed"],
        ),
        (
            ("sweep", "small.toml", "--vary", "seeed=1,2"),
            ["unknown key 'seeed'", "did you mean 'seed'"],
        ),
        (("sweep", "small.toml", "--vary", "seed=1,-2"), ["seed", "-2"]),
        (("why",), ["JOB"]),
        (("why", "batch-1"), ["--in"]),
        (("why", "batch-1", "--in", "small.toml"), ["small.toml", "cannot be read"]),
        (("why", "batch-1", "--in", ".", "--attempt", "0"), ["--attempt"]),
        (("trace", "generate", "small.toml", "jobs.txt"), ["jobs.txt", ".csv or .parquet"]),
        (("trace", "generate", "small.tml", "jobs.csv"), ["small.tml: no such file; presets are"]),
        (
            ("trace", "generate", "small.toml", "small.toml/x.csv"),
            ["small.toml/x.csv", "cannot be written"],
        ),
        (("trace", "generate", "small.toml", "jobs.csv", "--days", "0"), ["days", "above 0"]),
        (
            ("trace", "generate", "small.toml", "jobs.csv", "--days", "1e-9"),
            ["no job is submitted within"],
        ),
        (("trace", "genrate", "small.toml", "jobs.csv"), ["genrate"]),
    ],
)
def test_wrong_use(
    murmur: Murmur, tmp_path: Path, arguments: tuple[str, ...], words: list[str]
) -> None:
    check(murmur, tmp_path, arguments, *words)


@pytest.mark.parametrize(
    "content", ["{}", "[]", '{"tables": 3}', "nonsense", '{"tables": {"day": 1}}']
)
def test_a_folder_that_is_no_run(murmur: Murmur, tmp_path: Path, content: str) -> None:
    (tmp_path / "scenario.json").write_text(content)
    check(murmur, tmp_path, ("why", "batch-1", "--in", "."), "scenario.json")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = ", ["expected TOML"]),
        ("\x00\x01", ["expected TOML"]),
        ("", ["workload", "at least one"]),
        ("[workload]", ["workload", "at least one"]),
        ("[workload.a]\narrivals_per_s = 1", ["cluster", "expected one of nodes"]),
        (
            "[[cluster.group]]\ncount = 1\n[workload.a]\narrivals_per_s = 1",
            ["cluster.group[0]", "cpu"],
        ),
        (
            "[[cluster.group]]\ncount = 1\nmemry = 1\n[workload.a]",
            ["cluster.group[0].memry", "did you mean 'memory'"],
        ),
        ("cluster = 3\n[workload.a]\narrivals_per_s = 1", ["cluster", "expected a table"]),
        ("[cluster]\nnodes = 1\n[workload]\ntrace = 3", ["workload.trace", "expected text"]),
        (
            "[cluster]\nnodes = 1\n[workload]\ntrace = 'x'\nmultply = 2",
            ["workload.multply", "did you mean 'multiply'"],
        ),
        (
            "[cluster]\nnodes = 1\n[workload]\ntrace = 'x'\nmultiply = 0",
            ["workload.multiply", "above 0"],
        ),
        ("[cluster]\nnodes = 1\n[workload]\nmultiply = 2", ["workload", "trace"]),
        ("variant = 3\n[cluster]\nnodes = 1\n[workload.a]\narrivals_per_s = 1", ["variant"]),
    ],
)
def test_a_wrong_scenario_file(murmur: Murmur, tmp_path: Path, text: str, words: list[str]) -> None:
    (tmp_path / "wrong.toml").write_text(text)
    check(murmur, tmp_path, ("simulate", "wrong.toml"), "wrong.toml", *words)


def test_a_scenario_that_is_no_text(murmur: Murmur, tmp_path: Path) -> None:
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00\x01")
    check(murmur, tmp_path, ("simulate", "binary.toml"), "binary.toml", "not text")


def test_a_variant_with_an_unknown_key(murmur: Murmur, tmp_path: Path) -> None:
    (tmp_path / "wrong.toml").write_text(SMALL + '"scheduler.confict" = "resource"\n')
    check(
        murmur,
        tmp_path,
        ("compare", "wrong.toml", "-s", "machine"),
        "scheduler.confict",
        "did you mean 'conflict'",
    )


def test_tables_of_workloads_that_are_not_in_the_list(murmur: Murmur, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS + "1,batch,0,1,5,1,1\n")
    replayed(tmp_path, "jobs.csv")
    setting = ("--set", "scheduler.decision.bacth.job_time_s=1")
    check(
        murmur,
        tmp_path,
        ("simulate", "replay.toml", *setting),
        "scheduler.decision.bacth",
        "did you mean 'batch'",
    )


def test_jobs_after_the_end_are_no_jobs(murmur: Murmur, tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS + "1,batch,999999,1,5,1,1\n")
    replayed(tmp_path, "jobs.csv")
    check(murmur, tmp_path, ("simulate", "replay.toml"), "no job is submitted within 0.1 days")


def test_a_task_larger_than_every_node_is_told_at_once_and_the_rest_runs(
    murmur: Murmur, tmp_path: Path
) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS + "1,batch,0,1,5,99,1\n2,batch,0,1,5,1,1\n")
    replayed(tmp_path, "jobs.csv")
    answer = murmur("simulate", "replay.toml", "--json")
    assert answer.code == 0
    assert (
        "1 of 2 jobs can never run; the first, 1: a task asks for 99 CPU and no node has more "
        "than 4 CPU" in answer.err
    )
    workload = json.loads(answer.out)["workloads"]["batch"]
    assert (workload["jobs_scheduled"], workload["jobs_abandoned"]) == (1, 1)


@pytest.mark.parametrize("kind", ["monolithic", "partitioned", "offers", "shared-state"])
def test_decisions_that_take_no_time_come_to_an_end(murmur: Murmur, kind: str) -> None:
    """On a cluster so small that most jobs find no room, with offers that take no time either."""
    zero = "scheduler.decision={default = {job_time_s = 0, task_time_s = 0}}"
    settings = (
        "--set",
        zero,
        "--set",
        "cluster.nodes=2",
        "--set",
        "scheduler.offers.offer_time_s=0",
    )
    answer = murmur("simulate", "small.toml", "-s", kind, "--json", "--check", *settings)
    assert answer.code == 0, answer.err
    summary = json.loads(answer.out)
    assert sum(scheduler["busy_fraction"] for scheduler in summary["schedulers"].values()) == 0.0


@pytest.mark.parametrize("kind", ["monolithic", "partitioned", "offers", "shared-state"])
def test_tasks_that_take_no_time_run_and_are_gone(
    murmur: Murmur, tmp_path: Path, kind: str
) -> None:
    rows = "".join(f"{k},batch,{k % 3},4,0,4,1\n" for k in range(50))
    (tmp_path / "jobs.csv").write_text(JOBS + rows)
    replayed(tmp_path, "jobs.csv")
    summary = json.loads(murmur("simulate", "replay.toml", "-s", kind, "--json", "--check").out)
    assert summary["workloads"]["batch"]["tasks_placed"] == 200
    assert summary["cluster"]["tasks_running_mean"] == 0.0
    assert summary["events"] == 50 + 50 + 200


@pytest.mark.parametrize("kind", ["monolithic", "partitioned", "offers", "shared-state"])
def test_tasks_that_ask_for_nothing_run(murmur: Murmur, tmp_path: Path, kind: str) -> None:
    (tmp_path / "jobs.csv").write_text(JOBS + "1,batch,0,1000,5,0,0\n")
    replayed(tmp_path, "jobs.csv")
    summary = json.loads(murmur("simulate", "replay.toml", "-s", kind, "--json", "--check").out)
    assert summary["workloads"]["batch"]["tasks_placed"] == 1000


@pytest.mark.parametrize("kind", ["monolithic", "partitioned", "offers", "shared-state"])
def test_priorities_and_gangs_in_every_architecture(
    murmur: Murmur, tmp_path: Path, kind: str
) -> None:
    """The urgent job submitted last is tried first; the gang waits until all of it fits, others
    take what there is."""
    header = JOBS.strip() + ",priority,gang\n"
    rows = ["first,w,0,8,200,1,1,0,false", "gang,w,1,6,10,1,1,0,true", "low,w,2,6,10,1,1,0,false"]
    rows += ["urgent,w,3,2,10,1,1,5,false"]
    (tmp_path / "jobs.csv").write_text(header + "\n".join(rows) + "\n")
    replayed(tmp_path, "jobs.csv")
    settings = ("--set", "cluster.nodes=3", "--set", "scheduler.decision.default.job_time_s=10")
    assert (
        murmur("simulate", "replay.toml", "-s", kind, "--check", "--out", "run", *settings).code
        == 0
    )
    jobs = {row["job_id"]: row for row in pl.read_parquet("run/jobs.parquet").to_dicts()}
    assert jobs["urgent"]["first_attempt_s"] < min(
        jobs[name]["first_attempt_s"] or 1e9 for name in ("gang", "low")
    )
    assert jobs["gang"]["scheduled_s"] > 200, "not before the first job's tasks end"
    assert jobs["low"]["first_attempt_s"] < 200


def test_a_replay_takes_the_place_of_the_generators(murmur: Murmur, tmp_path: Path) -> None:
    """And a list of nodes that of the nodes: any preset can be run on one's own trace."""
    (tmp_path / "jobs.csv").write_text(JOBS + "1,batch,0,1,5,1,1\n2,service,3,1,5,1,1\n")
    (tmp_path / "nodes.csv").write_text("node_id,cpu,mem_gb\na,4,8\nb,4,8\n")
    traces = (
        "--set",
        "workload.trace=jobs.csv",
        "--set",
        "cluster.trace=nodes.csv",
        "--set",
        "cluster.prefill=0",
    )
    summary = json.loads(murmur("simulate", "omega-a", "--days", "0.01", "--json", *traces).out)
    assert summary["cluster"]["nodes_mean"] == 2.0
    assert [w["jobs_submitted"] for w in summary["workloads"].values()] == [1, 1]
