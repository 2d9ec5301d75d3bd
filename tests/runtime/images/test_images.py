"""Tasks in images on a live cluster: what the image says is obeyed, what the job says wins, and
nothing of the node is in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.clusters import LiveCluster, live_cluster, until
from tests.runtime.images.made import Layout, busybox_layer, entry, need_busybox, pack
from tests.runtime.networks import private_network

from murmuration.cli.live.common import image_attributes
from murmuration.runtime.client.requests import AnswerError
from murmuration.runtime.folder import NODES
from murmuration.runtime.node.isolation import container

RUN: dict[str, Any] = {
    "Env": ["GREETING=from the image", "PATH=/bin"],
    "Entrypoint": ["/bin/sh", "-c"],
    "Cmd": ["echo $GREETING; pwd; id -u; id -g; id -G; cat layer"],
    "WorkingDir": "/srv/work",
    "User": "anna",
}


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    need_busybox()
    place = tmp_path_factory.mktemp("images")
    layout = Layout(place / "oci")
    top = pack([entry("srv/work/layer", "second\n"), entry("bin/.wh.touch")])
    layout.add([busybox_layer(), top], tag="latest", **RUN)
    layout.add([busybox_layer(), pack([entry("which", "other\n")])], tag="other")
    layout.archive(place / "oci.tar")
    (place / "root.tar").write_bytes(busybox_layer())
    # One program and nothing else, not even a shell.
    bare = Layout(place / "bare")
    program = [each for each in _members(busybox_layer()) if each[0].name == "bin/busybox"]
    bare.add([pack(program)], Entrypoint=["/bin/busybox", "echo"], Cmd=["bare"])
    names = ("oci", "oci.tar", "root.tar", "bare")
    return {name.replace(".", "-"): str(place / name) for name in names}


def _members(layer: bytes) -> Iterator[Any]:
    import io
    import tarfile

    with tarfile.open(fileobj=io.BytesIO(layer)) as archive:
        for member in archive:
            data = archive.extractfile(member)
            yield member, data.read() if data else b""


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, images: dict[str, str]
) -> Iterator[LiveCluster]:
    if reason := container.missing():
        pytest.skip(reason)
    agent = {"images": images, "attributes": image_attributes(images)}
    place = tmp_path_factory.mktemp("cluster")
    with private_network(), live_cluster(place, 1, isolation="runc", agent=agent) as made:
        yield made


def run(cluster: LiveCluster, job: str, *command: str, **fields: Any) -> tuple[Any, str]:
    cluster.submit(job, *command, **fields)
    return cluster.wait(job), cluster.output(f"{job}.0")


@pytest.mark.parametrize("image", ["oci", "oci-tar", "oci:latest"])
def test_what_an_image_says_is_obeyed(cluster: LiveCluster, image: str) -> None:
    job = f"own-{image.replace(':', '-')}"
    ended, output = run(cluster, job, image=image)
    assert ended["code"] == 0
    assert output.split("\n")[:6] == [
        "from the image",
        "/srv/work",
        "1000",
        "100",
        "100 77",
        "second",
    ]


def test_what_a_job_says_wins(cluster: LiveCluster) -> None:
    script = "echo $GREETING $MURMUR_JOB; cat /murmur/none /etc/debian_version; ls /bin/touch"
    ended, output = run(
        cluster, "wins", "/bin/sh", "-c", script, image="oci", environment={"GREETING": "mine"}
    )
    # Nothing of the node's root is there, nor what a later layer has taken away.
    assert ended["code"] != 0 and output == "mine wins\n"
    ended, output = run(cluster, "args", image="oci", arguments=["echo argument"])
    assert (ended["code"], output) == (0, "argument\n")


def test_a_tag_and_a_root_archive(cluster: LiveCluster) -> None:
    assert run(cluster, "tag", "cat", "/which", image="oci:other")[1] == "other\n"
    assert run(cluster, "root", "/bin/id", "-u", image="root-tar")[1] == "0\n"


def test_an_image_needs_no_shell(cluster: LiveCluster) -> None:
    assert run(cluster, "bare", image="bare")[1] == "bare\n"
    assert run(cluster, "bare-args", image="bare", arguments=["a", "b"])[1] == "a b\n"
    ended, _ = run(cluster, "bare-no", "/bin/none", image="bare")
    assert ended["state"] == "failed"


def test_the_task_owns_its_work_and_not_the_image(cluster: LiveCluster) -> None:
    """It writes into a layer of its own; the next one finds the image as it was."""
    script = "echo x > /murmur/mine && cat /murmur/mine; echo changed > layer || cat layer"
    for job in ("first", "second"):
        # `layer` belongs to root in the image, and the command is anna's.
        ended, output = run(cluster, job, "/bin/sh", "-c", script, image="oci")
        assert (ended["code"], output) == (0, "x\nsecond\n")
    script = "cat /which; echo changed > /which; cat /which"
    for job in ("third", "fourth"):
        output = run(cluster, job, "/bin/sh", "-c", script, image="oci:other")[1]
        assert output == "other\nchanged\n"


def test_it_is_unpacked_once(cluster: LiveCluster) -> None:
    place = cluster.folder / NODES / "n1/images"
    cluster.submit("many", "/bin/sh", "-c", "sleep 0.2", image="oci", count=6)
    cluster.wait("many")
    assert not list(place.glob("new-*"))
    inodes = {path.name: path.stat().st_ino for path in place.glob("sha256-*")}
    run(cluster, "again", image="oci-tar")
    assert inodes.items() <= {p.name: p.stat().st_ino for p in place.glob("sha256-*")}.items()
    # Owned by nobody of the node, and no program of it makes anybody root.
    for path in place.glob("sha256-*/root/**/*"):
        seen = os.lstat(path)
        assert seen.st_uid >= 524_288 and not seen.st_mode & 0o6000


def test_exec_and_health_in_an_image_without_a_shell(cluster: LiveCluster) -> None:
    cluster.submit("serve", "/bin/busybox", "sleep", "600", image="bare", kind="service")
    cluster.running("serve", 1)
    answer = cluster.client.post("tasks", "serve.0", "exec", body={"command": ["/bin/busybox"]})
    assert answer is not None
    cluster.client.delete("jobs", "serve")
    cluster.wait("serve")


def test_the_agent_dies_and_the_task_goes_on(cluster: LiveCluster) -> None:
    script = "echo began; sleep 5; cat /srv/work/layer"
    cluster.submit("outlive", "/bin/sh", "-c", script, image="oci")
    cluster.running("outlive", 1)
    cluster.reborn("n1", cluster.kill("n1"))
    assert cluster.wait("outlive")["code"] == 0
    assert cluster.output("outlive.0") == "began\nsecond\n"
    assert len(cluster.facts("TaskPlaced")) == len({*map(str, cluster.facts("TaskPlaced"))})


def test_what_no_node_has_is_refused(cluster: LiveCluster) -> None:
    with pytest.raises(AnswerError, match=r"image\.none exists"):
        cluster.submit("none", "x", image="none")
    with pytest.raises(AnswerError, match="expected NAME, NAME:TAG or NAME@sha256:DIGEST"):
        cluster.submit("bad", "x", image="../etc")
    with pytest.raises(AnswerError, match="command"):
        cluster.submit("no-command")


def test_a_broken_image_fails_its_task_and_not_its_node(
    cluster: LiveCluster, images: dict[str, str]
) -> None:
    layer = max((Path(images["bare"]) / "blobs/sha256").iterdir(), key=lambda p: p.stat().st_size)
    good = layer.read_bytes()
    until(lambda: not cluster.client.get("nodes")["nodes"][0].get("tasks"))
    for kept in (cluster.folder / NODES / "n1/images").glob("sha256-*"):
        (kept / "image.json").unlink()  # as if it had never been unpacked
    layer.write_bytes(good[:-9] + bytes(9))
    try:
        cluster.submit("broken", image="bare")
        ended = cluster.wait("broken")
    finally:
        layer.write_bytes(good)
    reason = cluster.tasks("broken")[0]["reason"]
    assert ended["state"] == "failed" and "image bare" in reason and "expected sha256:" in reason
    assert cluster.client.get("nodes")["nodes"][0]["state"] == "up"
    ended, output = run(cluster, "mended", image="bare")
    assert (ended["code"], output) == (0, "bare\n")
