"""Volumes: folders that an operator names, in the containers of jobs that ask for them, and only
where they are."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.clusters import LiveCluster, live_cluster
from tests.runtime.networks import private_network
from tests.schedulers.central.clusters import Cluster, spec

from murmuration.base.errors import InputError
from murmuration.cli.live.common import parse_volumes, volume_attributes
from murmuration.runtime.client.requests import AnswerError
from murmuration.runtime.node.host import ThisHost
from murmuration.runtime.node.isolation import container
from murmuration.runtime.options import AgentOptions
from murmuration.workload.job_spec import job_from_tables
from murmuration.workload.service_spec import VolumeMount


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("volume")
    place.chmod(0o777)
    (place / "text").write_text("from the node\n")
    (place / "text").chmod(0o644)
    return place


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, folder: Path) -> Iterator[LiveCluster]:
    if reason := container.missing():
        pytest.skip(reason)
    volumes = parse_volumes([f"data={folder}", f"fixed={folder}:ro"])
    agent = {"volumes": volumes, "attributes": volume_attributes(volumes)}
    place = tmp_path_factory.mktemp("volumes")
    with private_network(), live_cluster(place, 1, isolation="runc", agent=agent) as made:
        yield made


def run(cluster: LiveCluster, job: str, script: str, **volume: Any) -> tuple[int, str]:
    cluster.submit(job, "sh", "-c", script, volumes=[volume])
    return cluster.wait(job)["code"], cluster.output(f"{job}.0")


def test_a_task_reads_and_writes_what_the_node_has(cluster: LiveCluster, folder: Path) -> None:
    script = "cat /data/text && echo new > /data/new && grep ' /data ' /proc/self/mounts"
    code, output = run(cluster, "write", script, name="data", at="/data")
    assert code == 0 and output.startswith("from the node\n")
    assert (folder / "new").read_text() == "new\n"
    options = output.split()[-3].split(",")
    assert {"rw", "nosuid", "nodev"} <= set(options)


def test_what_is_read_only_stays_as_it_is(cluster: LiveCluster, folder: Path) -> None:
    """By the operator's word, and by the job's."""
    for k, (name, read_only) in enumerate((("fixed", True), ("data", True))):
        script = "cat /d/text; touch /d/other"
        code, output = run(cluster, f"r{k}", script, name=name, at="/d", read_only=read_only)
        assert code != 0 and output == "from the node\n"
    assert not (folder / "other").exists()


def test_what_no_node_has_is_refused(cluster: LiveCluster) -> None:
    for name in ("none", "fixed"):
        with pytest.raises(AnswerError, match="no node meets its constraints"):
            run(cluster, f"no-{name}", "true", name=name, at="/d")


def test_nodes_without_the_volume_are_ruled_out() -> None:
    cluster = Cluster()
    cluster.join("plain")
    cluster.join("reader", attributes={"volume.data": "ro"})
    cluster.join("writer", attributes={"volume.data": "rw"})
    read = VolumeMount("data", "/data", read_only=True)
    cluster.submit(spec("read", count=4, volumes=[read]))
    assert set(cluster.nodes_of("read")) <= {"reader", "writer"}
    cluster.submit(spec("write", volumes=[VolumeMount("data", "/data")]))
    assert set(cluster.nodes_of("write")) <= {"writer", ""}
    never = cluster.master.never(spec("other", volumes=[VolumeMount("no", "/data")]))
    assert never is not None and "constraints" in never.reason


@pytest.mark.parametrize(
    ("volumes", "sentence"),
    [
        ([{"name": "a b", "at": "/x"}], "volumes[0].name: expected up to 63 letters"),
        ([{"name": "a", "at": "x"}], "volumes[0].at: expected a path such as /data, got 'x'"),
        ([{"name": "a", "at": "/"}], "volumes[0].at: expected a path such as /data, got '/'"),
        ([{"name": "a", "at": "/x/../etc"}], "volumes[0].at: expected a path such as /data"),
        ([{"name": "a", "at": "/proc/x"}], "volumes[0].at: expected a path outside of /proc"),
        ([{"name": "a", "at": "/murmur"}], "volumes[0].at: expected a path outside of /murmur"),
        (
            [{"name": "a", "at": "/x"}, {"name": "b", "at": "/x/y"}],
            "volumes[1].at: expected places apart from each other, got '/x/y'",
        ),
        ([{"name": "a"}], "volumes[0]"),
        ([{"name": "a", "at": "/x", "ro": True}], "volumes[0]"),
    ],
)
def test_bad_volumes_of_a_job(volumes: list[dict[str, Any]], sentence: str) -> None:
    with pytest.raises(InputError) as error:
        job_from_tables({"name": "j", "command": ["x"], "volumes": volumes})
    assert sentence in str(error.value)


def test_bad_volumes_of_a_node(tmp_path: Path) -> None:
    for text, sentence in (
        ("data", "expected NAME=PATH or NAME=PATH:ro, got 'data'"),
        ("a b=/tmp", "expected NAME=PATH"),
        ("data=tmp", "expected a folder by its whole path, got 'tmp'"),
        (f"data={tmp_path / 'none'}", "expected a folder by its whole path"),
    ):
        with pytest.raises(InputError) as error:
            parse_volumes([text])
        assert str(error.value).startswith("--volume: ") and sentence in str(error.value)
    with pytest.raises(InputError, match="each name once"):
        parse_volumes([f"a={tmp_path}", f"a={tmp_path}:ro"])
    volumes = parse_volumes([f"a={tmp_path}", f"b={tmp_path}:ro"])
    assert volume_attributes(volumes) == {"volume.a": "rw", "volume.b": "ro"}
    options = AgentOptions(
        folder=str(tmp_path), name="n", resources={}, isolation="process", volumes=volumes
    )
    with pytest.raises(InputError, match="expected only with containers"):
        ThisHost().isolate(options)
