"""A live cluster whose parts speak TLS: jobs run as ever, and each certificate may do what its role
says and no more."""

from __future__ import annotations

import asyncio
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.authorities import TestAuthority
from tests.runtime.clusters import CPU, LiveCluster, live_cluster, until

from murmuration.base.errors import InputError
from murmuration.runtime.client.requests import AnswerError, ApiClient
from murmuration.runtime.client.sdk import OfferScheduler
from murmuration.runtime.folder import API, TLS
from murmuration.runtime.master.process import MasterProcess
from murmuration.runtime.net.directory import FolderDirectory
from murmuration.runtime.net.sockets import connect
from murmuration.runtime.net.transport import Connection
from murmuration.runtime.net.wire import Hello, HelloAnswer
from murmuration.runtime.options import MasterOptions
from murmuration.schedulers.central.messages import AgentJoined, Refused, Welcome

LIMIT_S = 60.0
ROLES = ("agent", "operator", "submitter", "viewer")


class SecureCluster:
    """A cluster of one node, and a folder for each role from which it is reached."""

    def __init__(self, folder: Path, authority: TestAuthority, cluster: LiveCluster) -> None:
        self.folder, self.authority, self.cluster = folder, authority, cluster

    def join(self, role: str, name: str, tls: Path | None = None) -> Path:
        """A folder on what might be another host: certificates, and where the master is."""
        folder = self.folder / name
        folder.mkdir(mode=0o700)
        made = tls or self.authority.issue(name, role, to=f"{name}-tls")
        shutil.copytree(made, folder / TLS)
        shutil.copy(self.cluster.folder / API, folder / API)
        return folder

    def await_log(self, text: str) -> None:
        """A line may be written a little after the connection it tells of has ended."""
        until(lambda: text in (self.cluster.folder / "master.log").read_text())


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureCluster]:
    folder = tmp_path_factory.mktemp("secure")
    authority = TestAuthority(folder / "made")
    place = folder / "cluster"
    place.mkdir(mode=0o700)
    shutil.copytree(authority.issue("m1", "master"), place / TLS)
    with live_cluster(place, agents=1) as cluster:
        made = SecureCluster(folder, authority, cluster)
        for role in ROLES:
            made.join(role, f"a-{role}")
        yield made
    assert (place / TLS / "key.pem").exists(), "the certificates are the operator's"


def client(secure: SecureCluster, role: str) -> ApiClient:
    return ApiClient(secure.folder / f"a-{role}")


def job(name: str) -> dict[str, Any]:
    return {"name": name, "command": ["true"], "resources": {"cpu": 0.1, "memory": "16Mi"}}


def test_jobs_run_and_the_address_says_that_it_is_encrypted(secure: SecureCluster) -> None:
    assert secure.cluster.url.startswith("https://127.0.0.1:")
    secure.cluster.submit("hello", "echo", "over TLS")
    assert secure.cluster.wait("hello")["code"] == 0
    assert secure.cluster.output("hello.0") == "over TLS\n"
    assert secure.cluster.client.get("status")["api"] == secure.cluster.url
    rows = iter(secure.cluster.client.events(0))
    assert next(rows)["index"] >= 1


def may(ask: Any) -> bool | str:
    try:
        ask()
    except AnswerError as error:
        assert error.status == 403, error
        return error.sentence
    return True


def test_each_role_may_do_its_own(secure: SecureCluster) -> None:
    """The whole table: who may read, submit and kill, and drain."""
    allowed = {"viewer": 1, "submitter": 2, "operator": 3}
    for role, count in allowed.items():
        asked = client(secure, role)
        answers = (
            may(lambda asked=asked: asked.get("status")),
            may(lambda asked=asked, role=role: asked.post("jobs", body=job(f"by-{role}"))),
            may(lambda asked=asked: asked.post("nodes", "n1", "drain", body={"on": False})),
        )
        assert [answer is True for answer in answers] == [k < count for k in range(3)]
        if count < 3:
            assert f"operator for this, got a-{role} ({role})" in str(answers[-1])
    assert may(lambda: client(secure, "viewer").delete("jobs", "by-submitter")) is not True
    assert secure.cluster.master_jobs() >= {"by-submitter", "by-operator"}
    assert "by-viewer" not in secure.cluster.master_jobs()


def test_a_node_agents_certificate_opens_no_door_of_people(secure: SecureCluster) -> None:
    for ask in (
        lambda: client(secure, "agent").get("status"),
        lambda: client(secure, "agent").post("jobs", body=job("evil")),
    ):
        assert "got a-agent (agent)" in str(may(ask))


def test_the_token_alone_opens_nothing(secure: SecureCluster) -> None:
    token = (secure.cluster.folder / "token").read_text()
    address = FolderDirectory(secure.cluster.folder).leader().api
    with socket.create_connection((address.host, address.port), LIMIT_S) as line:
        line.sendall(f"GET /v1/status HTTP/1.1\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        assert b"HTTP" not in line.recv(65536)
    secure.await_log("a connection from 127.0.0.1 was refused: the handshake of TLS failed")


def hello(folder: Path, role: str, *joins: AgentJoined) -> list[Any]:
    """What the master answers to a hello, and to node agents that join after it."""

    async def talk() -> list[Any]:
        heard: list[Any] = []
        lost, answered = asyncio.Event(), asyncio.Event()

        def receive(_: Connection, __: int, ___: str, message: Any) -> None:
            heard.append(message)
            answered.set()

        directory = FolderDirectory(folder)
        connection = await connect(
            asyncio.get_running_loop(),
            lambda: Connection(receive, lambda _: lost.set()),
            directory.leader().frames,
            directory.credentials().client_tls,
        )
        name = "outside" if role == "scheduler" else ""
        heard.append(await connection.ask(Hello("", role, name), timeout_s=LIMIT_S))
        for join in joins:
            answered.clear()
            connection.send(join, join.node)
            await asyncio.wait_for(answered.wait(), LIMIT_S)
        connection.close()
        await asyncio.wait_for(lost.wait(), LIMIT_S)
        return heard

    return asyncio.run(talk())


@pytest.mark.parametrize("role", ROLES)
def test_frames_are_for_node_agents_and_schedulers(secure: SecureCluster, role: str) -> None:
    folder = secure.folder / f"a-{role}"
    (as_agent,) = hello(folder, "agent")
    (as_scheduler,) = hello(folder, "scheduler")
    assert isinstance(as_agent, HelloAnswer) and isinstance(as_scheduler, HelloAnswer)
    assert (as_agent.error == "") == (role == "agent")
    assert (as_scheduler.error == "") == (role in ("submitter", "operator"))
    for answer in (as_agent, as_scheduler):
        assert not answer.error or f"got that of a-{role} ({role})" in answer.error
    secure.await_log(f"a-{role} ({role}) was refused as")


def test_a_node_has_the_name_of_its_certificate(secure: SecureCluster) -> None:
    """The key of one node is no use for speaking as another."""
    folder, total = secure.folder / "a-agent", {"cpu": CPU, "memory": 2**30}
    _, refused = hello(folder, "agent", AgentJoined("n1", "me", 1, total))
    assert isinstance(refused, Refused)
    assert refused.reason.endswith("certificate of a-agent (agent), got 'n1'")
    _, refused = hello(folder, "agent", AgentJoined("a-agents", "me", 1, total))
    assert isinstance(refused, Refused)
    joins = [AgentJoined(name, "me", 1, total) for name in ("a-agent", "a-agent-7")]
    assert [type(answer) for answer in hello(folder, "agent", *joins)[1:]] == [Welcome, Welcome]


def test_a_scheduler_from_outside_works_over_tls(secure: SecureCluster) -> None:
    with OfferScheduler("mine", secure.folder / "a-submitter") as scheduler:
        assert scheduler.get_guaranteed_share() is not None
        scheduler.unregister()


def test_a_stranger_learns_where_to_look(secure: SecureCluster, tmp_path: Path) -> None:
    """A master of another authority is refused by the client; a certificate that the master
    refuses, but its owner does not know of, is told of in the master's log."""
    other = TestAuthority(tmp_path).issue("anna", "operator")
    foreign = secure.join("operator", "foreign", other)
    with pytest.raises(InputError, match="certificate was refused: another authority signed it"):
        ApiClient(foreign).get("status")
    gone = secure.join("operator", "gone")
    secure.authority.revoke("gone", secure.cluster.folder / TLS)
    with pytest.raises(InputError, match=r"https://.*: the master ended .* its log says why"):
        ApiClient(gone).get("status")
    secure.await_log("certificate was refused: it was revoked")
    assert secure.cluster.client.get("status")


def test_a_master_that_starts_again_is_found_again(secure: SecureCluster) -> None:
    secure.cluster.reborn("master", secure.cluster.kill("master"))
    secure.cluster.submit("again", "true")
    assert secure.cluster.wait("again")["code"] == 0


def test_a_master_needs_the_certificate_of_one(secure: SecureCluster, tmp_path: Path) -> None:
    """It must not fall back to clear text because its certificate is no good for listening."""
    shutil.copytree(secure.folder / "a-agent" / TLS, tmp_path / TLS)
    directory = FolderDirectory(tmp_path)
    directory.create()
    master = MasterProcess(MasterOptions(folder=str(tmp_path)), directory)
    with pytest.raises(InputError, match="expected the certificate of a master"):
        asyncio.run(master._listen(None, None))  # type: ignore[arg-type]
