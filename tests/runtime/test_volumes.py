"""Volumes: folders that an operator names, in the containers of jobs that ask for them, and only
where they are."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.clusters import LiveCluster, live_cluster
from tests.runtime.networks import private_network
from tests.schedulers.central.clusters import CPU, GB, Cluster, spec

from murmuration.base.errors import InputError
from murmuration.cli.live.common import parse_volumes, volume_attributes
from murmuration.runtime.client.requests import AnswerError
from murmuration.runtime.node.disks import idmap
from murmuration.runtime.node.executor import find_account
from murmuration.runtime.node.host import ThisHost
from murmuration.runtime.node.isolation import container
from murmuration.runtime.options import AgentOptions
from murmuration.schedulers.agent import Send
from murmuration.schedulers.central.messages import Launch, Order
from murmuration.schedulers.offers.messages import LaunchTask, Task
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
        ("data", "expected NAME=PATH[:ro][:accounts], got 'data'"),
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


# Volumes by account.


ANNA, BEN = "murmur-test-anna", "murmur-test-ben"


@pytest.fixture
def accounts() -> Iterator[dict[str, int]]:
    """Two people who have accounts on this node."""
    if reason := container.missing():
        pytest.skip(reason)
    for name in (ANNA, BEN):
        subprocess.run(["useradd", "--no-create-home", "--user-group", name], check=True)
    yield {name: pwd.getpwnam(name).pw_uid for name in (ANNA, BEN)}
    for name in (ANNA, BEN):
        subprocess.run(["userdel", name], check=True)


def test_a_task_acts_in_a_volume_as_its_users_account(
    tmp_path: Path, accounts: dict[str, int]
) -> None:
    """What anna's task writes is anna's on the node, ben's task can neither read nor change it, and
    that of somebody without an account is nobody."""
    place = tmp_path / "shared"
    place.mkdir(mode=0o777)
    place.chmod(0o1777)
    (place / "node").write_text("of the node's root")
    (place / "node").chmod(0o600)
    volumes = parse_volumes([f"data={place}:accounts"])
    agent = {"volumes": volumes, "attributes": volume_attributes(volumes)}
    with (
        private_network(),
        live_cluster(tmp_path / "c", 1, isolation="runc", agent=agent) as cluster,
    ):

        def act(job: str, user: str, script: str) -> tuple[int, str]:
            volume = {"name": "data", "at": "/data"}
            cluster.submit(job, "sh", "-c", script, volumes=[volume], user=user)
            return cluster.wait(job)["code"], cluster.output(f"{job}.0")

        script = "umask 077; echo secret > /data/hers && ls -ln /data/hers && cat /data/hers"
        code, output = act("write", ANNA, script)
        assert code == 0 and output.split()[2:4] == ["0", "0"] and "secret" in output
        made = (place / "hers").stat()
        assert (made.st_uid, made.st_mode & 0o777) == (accounts[ANNA], 0o600)
        # Neither its owner by another name, nor root with its powers over files, nor by a change
        # of user, is anybody but ben.
        steal = "cat /data/hers; rm -f /data/hers; chown 0 /data/hers; chmod 777 /data/hers"
        code, output = act("steal", BEN, f"{steal}; cat /data/node; echo his > /data/his")
        assert code == 0 and output == ""
        assert (place / "hers").read_text() == "secret\n"
        assert (place / "hers").stat().st_uid == accounts[ANNA]
        assert (place / "his").stat().st_uid == accounts[BEN]
        # Another user of the container has no account, and leaves nothing.
        become = "setpriv --reuid 7 --regid 7 --clear-groups sh -c 'echo x > /data/seven'"
        assert act("become", ANNA, f"chmod 777 . ; {become}")[0] != 0
        assert not (place / "seven").exists()
        # No account: as in any other volume.
        code, _ = act("guest", "nobody-here", "cat /data/hers || echo guest > /data/guest")
        assert code == 0 and (place / "guest").stat().st_uid >= 2**16
        # Set-user programs are none.
        act("trap", ANNA, "cp /bin/sh /data/sh; chmod 4755 /data/sh")
        code, output = act("spring", BEN, "/data/sh -p -c 'cat /data/hers'")
        assert code != 0 and output == ""


def test_accounts_of_the_system_are_nobodys() -> None:
    assert find_account("root") is None and find_account("daemon") is None
    assert find_account("nobody") is None and find_account("") is None
    assert find_account("no\0body") is None and find_account("not-an-account") is None


def test_schedulers_outside_speak_for_nobody() -> None:
    """What says whose task it is comes from the master."""
    cluster = Cluster()
    cluster.join("a")
    order = Order(("true",), user="anna")
    task = Task("t", "a", (CPU, GB), payload=order)
    cluster.master._launch(LaunchTask("outside", task))
    sent = [effect.message for effect in cluster.master._effects if isinstance(effect, Send)]
    assert [message.order.user for message in sent if isinstance(message, Launch)] == [""]


def test_every_number_has_at_most_one_place() -> None:
    """Checked number by number, on a small range of them."""
    rows = [
        tuple(map(int, line.split()))
        for line in idmap.map_ids(1001, 600_005, 600_000, 65_536).splitlines()
    ]
    places = {a + k: b + k for a, b, size in rows for k in range(min(size, 2_000_000))}
    assert len(set(places.values())) == len(places)
    assert places[1001] == 600_005 and places[0] == 0 and places[65_534] == 65_534
    assert not any(600_000 <= number < 665_536 for number in places)
    assert 1001 not in places.values()


def test_what_cannot_be_mapped_is_a_sentence(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    words = [sys.executable, "-I", "-S", idmap.__file__, "600000", "65536"]
    words += ["1000", "1000", "600000", "600000", "/proc", str(tmp_path)]
    done = subprocess.run(
        ["unshare", "--mount", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr == "volume /proc: its users cannot be mapped here: Invalid argument\n"
