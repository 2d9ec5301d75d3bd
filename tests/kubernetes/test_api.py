"""Access, lists and snapshots on a real API server."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from tests.kubernetes.control_plane import ControlPlane, real_node, real_pod

from murmuration.kubernetes.api import client as client_module
from murmuration.kubernetes.api import snapshot as snapshot_module
from murmuration.kubernetes.api.access import find_access
from murmuration.kubernetes.api.client import (
    NODES,
    PODS,
    ApiError,
    Kind,
    KubeClient,
    Listed,
    explain,
)
from murmuration.kubernetes.api.follow import Change, Follower
from murmuration.kubernetes.api.snapshot import read_cluster

Result = TypeVar("Result")


def ask(config: Path, work: Callable[[KubeClient], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        async with KubeClient(find_access(config)) as client:
            return await work(client)

    return asyncio.run(run())


async def version(client: KubeClient) -> str:
    return str((await client.get("/version"))["gitVersion"])


async def count_nodes(client: KubeClient) -> int:
    return len((await client.list_all(NODES)).items)


@pytest.fixture(scope="module", autouse=True)
def nodes(plane: ControlPlane) -> None:
    for k in range(7):
        plane.create(real_node(f"node-{k}"))


def test_a_certificate_says_who_we_are(plane: ControlPlane) -> None:
    assert ask(plane.kubeconfig, version) == "v1.20.2"
    assert ask(plane.kubeconfig, count_nodes) == 7


def test_a_token_in_place_or_in_a_file(plane: ControlPlane) -> None:
    (plane.folder / "token").write_text("admin-token\n")
    for user in ({"token": "admin-token"}, {"tokenFile": "token"}):
        assert ask(plane.write_kubeconfig(user, "other"), count_nodes) == 7


def test_a_program_says_who_we_are_and_again_when_that_has_ended(plane: ControlPlane) -> None:
    """The first token is refused; the program is asked again and its second one is taken."""
    program = plane.folder / "login.py"
    program.write_text(
        "import json, os, pathlib\n"
        "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
        "asked = pathlib.Path(os.environ['COUNT'])\n"
        "number = len(asked.read_text()) if asked.exists() else 0\n"
        "asked.write_text('x' * (number + 1))\n"
        "token = 'admin-token' if number else 'expired'\n"
        "print(json.dumps({'apiVersion': info['apiVersion'], 'kind': 'ExecCredential',\n"
        "                  'status': {'token': token}}))\n"
    )
    count = plane.folder / "count"
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1beta1",
            "command": sys.executable,
            "args": [str(program)],
            "env": [{"name": "COUNT", "value": str(count)}],
        }
    }
    assert ask(plane.write_kubeconfig(user, "other"), count_nodes) == 7
    assert count.read_text() == "xx"


def test_the_account_of_a_pod(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    account = plane.folder / "account"
    account.mkdir(exist_ok=True)
    (account / "token").write_text("admin-token")
    (account / "namespace").write_text("shop")
    (account / "ca.crt").write_bytes((plane.folder / "ca.crt").read_bytes())
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", str(plane.port))

    async def run() -> int:
        access = find_access(account=account)
        assert access.namespace == "shop"
        async with KubeClient(access) as client:
            return await count_nodes(client)

    assert asyncio.run(run()) == 7


def refusal(plane: ControlPlane, user: dict[str, str], work: Callable[[KubeClient], object]) -> str:
    """What a person reads when the server refuses."""
    access = find_access(plane.write_kubeconfig(user, "other"))

    async def run() -> str:
        async with KubeClient(access) as client:
            try:
                await work(client)  # type: ignore[misc]
            except ApiError as error:
                return str(explain(error, access))
        return ""

    return asyncio.run(run())


def test_an_expired_token_and_a_missing_right_are_one_sentence(plane: ControlPlane) -> None:
    assert "does not accept these credentials" in refusal(plane, {"token": "old"}, count_nodes)
    sentence = refusal(plane, {"token": "nobody-token"}, count_nodes)
    assert 'nobody may not list nodes; it needs a ClusterRole with apiGroups [""], ' in sentence
    assert 'resources ["nodes"], verbs ["list"]' in sentence

    async def bind(client: KubeClient) -> None:
        await client.create(PODS.path("default", "p", "binding"), {})

    sentence = refusal(plane, {"token": "nobody-token"}, bind)
    assert 'in namespace default; it needs a Role with apiGroups [""], ' in sentence
    assert 'resources ["pods/binding"], verbs ["create"]' in sentence


def test_a_list_in_pages_is_the_whole_list(
    plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "PAGE", 2)
    assert ask(plane.kubeconfig, count_nodes) == 7


def test_a_snapshot_is_of_one_moment(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node and a pod on it are made while the snapshot is read: it has neither, or both."""
    part = snapshot_module._part

    async def slow_part(*arguments: object) -> Listed:
        if "late" not in plane.get_names("nodes"):
            plane.create(real_node("late"))
            plane.create(real_pod("on-late", nodeName="late"))
        return await part(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(snapshot_module, "_part", slow_part)
    read = ask(plane.kubeconfig, read_cluster)
    names = {str(item["metadata"]["name"]) for item in read.items}
    assert "node-0" in names and "late" not in names and "on-late" not in names
    monkeypatch.undo()
    names = {str(item["metadata"]["name"]) for item in ask(plane.kubeconfig, read_cluster).items}
    assert {"late", "on-late"} <= names


def test_following_goes_on_when_the_server_comes_back(plane: ControlPlane) -> None:
    """The server is stopped and started while we follow; what was made before and after is seen."""
    names: set[str] = set()

    def on_list(kind: Kind, listed: Listed) -> None:
        names.clear()
        names.update(str(item["metadata"]["name"]) for item in listed.items)  # type: ignore[index]

    def on_changes(kind: Kind, changes: list[Change]) -> None:
        names.update(str(c.thing["metadata"]["name"]) for c in changes)  # type: ignore[index]

    async def work(client: KubeClient) -> None:
        follower = asyncio.create_task(Follower(client, PODS, on_list, on_changes).run())

        async def create(name: str) -> None:
            await asyncio.to_thread(plane.create, real_pod(name))
            async with asyncio.timeout(60):
                while name not in names:
                    await asyncio.sleep(0.02)

        await create("before")
        plane.stop("server")
        await asyncio.to_thread(plane.start_server)
        await create("after")
        follower.cancel()
        await asyncio.gather(follower, return_exceptions=True)

    ask(plane.kubeconfig, work)
