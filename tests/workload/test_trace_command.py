"""`murmur trace info` and `convert`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from murmuration.base.errors import InputError
from murmuration.cli.trace import trace
from murmuration.workload.formats.job_lists import read_jobs
from murmuration.workload.nodes import read_nodes

if TYPE_CHECKING:
    from tests.workload.conftest import Write

SWIM = "job0\t49\t49\t740773\t2339561\t627471\njob1\t101\t52\t128000001\t0\t0\n"
EVENTS = "600000000,,11,0,u=,1,n=,l=\n601000000,,11,1,u=,1,n=,l=\n604000000,,11,4,u=,1,n=,l=\n"
SHAPES = """job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task
x,batch,0,10,1,1,1
y,batch,0,20,1,2,2
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(
        trace, [str(argument) for argument in arguments], catch_exceptions=False
    )


def test_info_as_json(write: Write) -> None:
    path = write("fb.tsv", SWIM)
    result = run("info", path, "--json", "--block", "128M", "--duration", "5")
    document = json.loads(result.stdout)
    assert (document["file"], document["kind"], document["rows"]) == (str(path), "swim", 2)
    assert document["workloads"]["mapreduce"]["tasks"] == 3
    assert document["workloads"]["mapreduce"]["duration_s_mean"] == 5.0


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("fb[bold].tsv", SWIM, ["fb[bold].tsv", "mapreduce", "64 MB of map input"]),
        (
            "nodes.csv",
            "node_id,cpu,mem_gb\n" + "".join(f"n{k},{k},1\n" for k in range(20)),
            ["20 nodes", "others"],
        ),
        ("events.csv", EVENTS, ["google2011 job events", "one task of 1 CPU and 1 GB"]),
        ("a_csizes.log", "cell cmb-new 0 1600\n", ["batch: mean tasks 1,600 (1)"]),
        (
            "m.csv",
            "time_us,machine_id,event_type,switch,platform,cpus,memory\n0,2,1,0,0,1,1\n",
            ["1 add, 0 remove"],
        ),
    ],
)
def test_info_for_people(write: Write, name: str, text: str, words: list[str]) -> None:
    shown = run("info", write(name, text)).stdout
    flat = " ".join(shown.split())
    assert all(word in flat for word in words)


def test_convert_jobs(write: Write, tmp_path: Path) -> None:
    result = run("convert", write("fb.tsv", SWIM), tmp_path / "jobs.parquet")
    assert result.stdout == ""
    assert "2 jobs from swim" in result.stderr
    assert read_jobs(tmp_path / "jobs.parquet").tasks.tolist() == [1, 3]


def test_convert_nodes(write: Write, tmp_path: Path) -> None:
    path = write("nodes.csv", "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\n")
    assert "1 nodes from alibaba nodes" in run("convert", path, tmp_path / "out.csv").stderr
    assert read_nodes(tmp_path / "out.csv").attributes == ({"model": "P100"},)


def test_the_seed_chooses_what_is_drawn(write: Write, tmp_path: Path) -> None:
    events, shapes = write("events.csv", EVENTS), write("shapes.csv", SHAPES)
    drawn = []
    for seed in (1, 1, 2, 3, 4, 5):
        run("convert", events, tmp_path / "out.csv", "--shapes", shapes, "--seed", seed)
        drawn.append((tmp_path / "out.csv").read_bytes())
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["convert", "csizes.log", "out.csv"],
            "expected jobs or nodes to convert, this is an omega distribution",
        ),
        (["convert", "csizes.log", "out.doc"], "expected a name that ends in .csv or .parquet"),
        (
            ["info", "csizes.log", "--duration", "-1"],
            "--duration: expected a number of seconds that is not negative",
        ),
        (["info", "csizes.log", "--block", "0"], "--block: expected at least one byte"),
        (["info", "csizes.log", "--block", "64Q"], "--block: '64Q' has an unknown unit 'Q'"),
        (
            ["info", "csizes.log", "--shapes", "csizes.log"],
            "expected a trace with jobs to draw shapes from",
        ),
        (["info", "fb.tsv", "--task-cpu", "1e30"], "expected sizes of up to"),
        (["info", "nothing"], "no such file"),
    ],
)
def test_bad_use(write: Write, tmp_path: Path, arguments: list[str], sentence: str) -> None:
    write("csizes.log", "cell cmb-new 0 1600\n")
    write("fb.tsv", SWIM)
    placed = [
        str(tmp_path / word) if "." in word or word == "nothing" else word for word in arguments
    ]
    with pytest.raises(InputError) as error:
        run(*placed)
    assert sentence in str(error.value)
    assert not (tmp_path / "out.csv").exists()
