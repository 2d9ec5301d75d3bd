"""Tokens, users and quotas on a real cluster: each may do what its role says to what is its own."""

from __future__ import annotations

import http.client
import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from tests.runtime.clusters import LiveCluster, live_cluster, until

from murmuration.base.errors import InputError
from murmuration.cli import murmur
from murmuration.runtime.client.requests import AnswerError, ApiClient, Reach
from murmuration.runtime.client.sdk import OfferScheduler, SharedStateScheduler
from murmuration.runtime.folder import API
from murmuration.runtime.master.api import ROUTES
from murmuration.runtime.master.front.routes import FRONT_ROUTES
from murmuration.runtime.net.callers import Caller, check_role
from murmuration.runtime.net.directory import FolderDirectory
from murmuration.schedulers.central.messages import Order

SECRET = "swordfish-4711"


class Users:
    """A cluster with a token for each of several people, and clients that show them."""

    def __init__(self, folder: Path, cluster: LiveCluster) -> None:
        self.folder, self.cluster = folder, cluster
        for name, role in (
            ("anna", "submitter"),
            ("bob", "submitter"),
            ("vera", "viewer"),
            ("olga", "operator"),
        ):
            self.issue(name, role)

    def issue(self, name: str, role: str, user: str = "", days: float = 1) -> str:
        order = {"name": name, "role": role, "user": user, "days": days}
        token = str(self.cluster.client.post("tokens", body=order)["token"])
        file = self.folder / f"{name}.token"
        file.touch(mode=0o600)
        file.write_text(token)
        return token

    def client(self, name: str) -> ApiClient:
        """As from another user's account: an address and a token, no folder."""
        address = self.cluster.url.removeprefix("http://")
        return ApiClient(self.folder / "none", Reach((address,), self.folder / f"{name}.token"))

    def run(self, name: str, *arguments: str) -> Result:
        address = self.cluster.url.removeprefix("http://")
        shown = ["--join", address, "--token-file", str(self.folder / f"{name}.token")]
        return CliRunner().invoke(murmur, [*arguments, *shown], catch_exceptions=True)


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Users]:
    folder = tmp_path_factory.mktemp("access")
    with live_cluster(folder / "cluster", agents=1) as cluster:
        yield Users(folder, cluster)


def job(name: str, *command: str, **fields: Any) -> dict[str, Any]:
    resources = {"cpu": 0.1, "memory": "16Mi"}
    return {"name": name, "command": list(command), "resources": resources, **fields}


def refused(status: int, text: str, ask: Any, *arguments: Any, **more: Any) -> None:
    with pytest.raises(AnswerError) as error:
        ask(*arguments, **more)
    assert error.value.status == status, error.value
    assert text in str(error.value)


def test_a_job_is_its_users_alone(users: Users) -> None:
    anna, bob, vera, olga = map(users.client, ("anna", "bob", "vera", "olga"))
    body = job("hers", "sh", "-c", "echo $SECRET; sleep 600", environment={"SECRET": SECRET})
    anna.post("jobs", body=body)
    until(lambda: SECRET in anna.get("tasks", "hers.0", "output")["text"])
    assert next(row for row in bob.get("jobs")["jobs"] if row["job"] == "hers")["user"] == "anna"
    for other in (bob, vera):
        refused(403, "hers.0 is anna's", other.get, "tasks", "hers.0", "output")
        refused(403, "expected", other.delete, "jobs", "hers")
        refused(403, "expected", other.delete, "tasks", "hers.0")
    assert SECRET in olga.get("tasks", "hers.0", "output")["text"]
    refused(409, "is another user's", bob.post, "jobs", body=job("hers", "true"))
    refused(403, "user: expected 'bob'", bob.post, "jobs", body=job("x", "true", user="anna"))
    refused(403, "of a submitter or an operator", vera.post, "jobs", body=job("x", "true"))
    anna.delete("jobs", "hers")
    until(lambda: anna.get("jobs", "hers")["ended"])
    refused(409, "is another user's", bob.post, "jobs", body=job("hers", "true"))


def test_environments_are_for_their_users_and_operators(users: Users) -> None:
    users.client("anna").post(
        "jobs", body=job("secretive", "true", environment={"SECRET": SECRET + "-2"})
    )
    seen = {
        name: json.dumps(users.client(name).get("events"))
        for name in ("anna", "bob", "vera", "olga")
    }
    shows = {name: SECRET + "-2" in text for name, text in seen.items()}
    assert shows == {"anna": True, "bob": False, "vera": False, "olga": True}
    assert all('"secretive"' in text for text in seen.values())
    assert not any("digest" in text for text in seen.values())
    streamed = next(
        row
        for row in users.client("bob").events(0)
        if row["kind"] == "JobSubmitted" and row["fact"]["job"] == "secretive"
    )
    assert streamed["fact"]["spec"]["environment"] == {}


def test_a_viewer_sees_nothing_even_of_its_own_environment(users: Users) -> None:
    users.issue("anna-view", "viewer", user="anna")
    users.client("anna").post("jobs", body=job("own", "true", environment={"S": SECRET + "-3"}))
    assert SECRET + "-3" not in json.dumps(users.client("anna-view").get("events"))


def test_the_runs_of_who_had_a_name_before_stay_theirs(users: Users) -> None:
    """An operator gives a name that has ended to another user: what ran under it is not theirs."""
    anna, bob = users.client("anna"), users.client("bob")
    for client, text, user in ((anna, SECRET, ""), (users.client("olga"), "fine", "bob")):
        client.post("jobs", body=job("passed-on", "echo", text, user=user))
        assert client.get("jobs", "passed-on", wait_s=30)["ended"]
    assert bob.get("tasks", "passed-on.0", "output")["text"] == "fine\n"
    assert bob.get("tasks", "passed-on.0", "output", run=2)["text"] == "fine\n"
    for run in (0, 1, 3):
        refused(404, "no output", bob.get, "tasks", "passed-on.0", "output", run=run)


#: The least role that each route is for; what is about a job is its user's besides.
ROLES = {
    "viewer": """GET /metrics /v1/status /v1/jobs /v1/jobs/{job} /v1/jobs/{job}/why /v1/tasks
        /v1/tasks/{task}/output /v1/nodes /v1/events /v1/quotas /v1/session /v1/watch
        /v1/grid/names /v1/grid /v1/history /v1/jobs/{job}/decisions /v1/queue
        POST /v1/links DELETE /v1/session""",
    "submitter": """POST /v1/jobs /v1/jobs/{job}/scale /v1/jobs/{job}/rollback
        /v1/tasks/{task}/move /v1/tasks/{task}/exec /v1/tasks/{task}/exec/{session}
        DELETE /v1/jobs/{job} /v1/tasks/{task}""",
    "operator": """GET /v1/tokens /v1/log POST /v1/tokens /v1/nodes/{node}/drain
        PUT /v1/quotas/{user} DELETE /v1/tokens/{name} /v1/quotas/{user}""",
}


def _routes_of(role: str) -> Iterator[tuple[str, str]]:
    method = ""
    for word in ROLES[role].split():
        if word.startswith("/"):
            yield method, word
        else:
            method = word


def test_every_route_is_for_a_role_and_those_above_it() -> None:
    public = {("POST", "/v1/enter")}
    listed = {route: role for role in ROLES for route in _routes_of(role)}
    known = {(route.method, route.path) for route in (*ROUTES, *FRONT_ROUTES)} - public
    assert listed.keys() - {("GET", "/metrics")} == known
    for (method, path), least in listed.items():
        may = [role for role in ROLES if not check_role(Caller("u", role), method, path)]
        assert may == list(ROLES)[list(ROLES).index(least) :], (method, path)
        assert check_role(Caller("n1", "agent"), method, path)


def test_nothing_of_anothers_job_is_changed_by_any_route(users: Users) -> None:
    """Every route that names a job or task and is not for everybody, as somebody else's."""
    anna, bob = users.client("anna"), users.client("bob")
    anna.post("jobs", body=job("guarded", "sleep", "600"))
    until(lambda: _states(anna, "guarded") == ["running"])
    guarded = [r for r in ROUTES if "{job}" in r.path or "{task}" in r.path]
    for route in (r for r in guarded if r.private or r.method != "GET"):
        names = {"job": "guarded", "task": "guarded.0", "session": "0@1@n1"}
        path = route.path.removeprefix("/v1/").format(**names).split("/")
        ask = {"GET": bob.get, "POST": bob.post, "DELETE": bob.delete}[route.method]
        refused(403, "is anna's", ask, *path)
    assert _states(anna, "guarded") == ["running"]
    anna.delete("jobs", "guarded")


def test_tokens_and_quotas_are_operators_affair(users: Users) -> None:
    for name in ("anna", "vera"):
        client = users.client(name)
        refused(403, "expected the token of an operator", client.get, "tokens")
        refused(403, "operator", client.post, "tokens", body={"name": "x"})
        refused(403, "operator", client.delete, "tokens", "bob")
        refused(403, "operator", client.put, "quotas", name, body={"jobs": 9})
        refused(403, "operator", client.post, "nodes", "n1", "drain", body={})
    olga = users.client("olga")
    rows = {row["name"]: row for row in olga.get("tokens")}
    assert rows["vera"]["role"] == "viewer" and rows["vera"]["state"] == "valid"
    assert "token" not in rows["vera"]
    for wrong in ({"name": "é"}, {"name": "x", "role": "agent"}, {"name": "x", "days": -1}):
        refused(422, "expected", olga.post, "tokens", body=wrong)
    refused(422, "oles", olga.post, "tokens", body={"name": "x", "roles": "viewer"})
    refused(409, "revoke it first", olga.post, "tokens", body={"name": "vera"})
    refused(404, "did you mean", olga.delete, "tokens", "verra")


def test_a_revoked_token_is_refused_at_once_and_after_a_restart(users: Users) -> None:
    token = users.issue("temporary", "submitter")
    kept = users.issue("kept", "viewer")
    gone = users.client("temporary")
    stream = gone.events(0)
    next(stream)
    users.client("olga").delete("tokens", "temporary")
    refused(401, "expected the cluster's token, or one that was issued", gone.get, "status")
    # A stream that it had open has ended: what comes after the revocation is not in it.
    users.client("olga").put("quotas", "nobody", body={"jobs": 1})
    assert "QuotaSet" not in [row["kind"] for row in stream if row["fact"].get("user") == "nobody"]
    before = users.cluster.kill("master")
    users.cluster.reborn("master", before)
    refused(401, "expected the cluster's token", users.client("temporary").get, "status")
    users.client("kept").get("status")
    stored = b"".join(path.read_bytes() for path in users.cluster.folder.glob("store.db*"))
    assert b"TokenIssued" in stored
    assert token.encode() not in stored and kept.encode() not in stored


@pytest.mark.parametrize("path", ["/v1/watch", "/v1/events?follow=1"])
def test_a_stream_ends_with_the_token_that_opened_it(users: Users, path: str) -> None:
    """Also where another token has its name by then."""
    token = users.issue("watching", "viewer")
    host, _, port = users.cluster.url.removeprefix("http://").partition(":")
    with closing(http.client.HTTPConnection(host, int(port), timeout=60)) as connection:
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
        with closing(connection.getresponse()) as stream:
            assert stream.status == 200 and stream.readline()
            users.client("olga").delete("tokens", "watching")
            users.issue("watching", "viewer")
            # Both go on for ever otherwise, and say something every quarter of a minute.
            until(lambda: not stream.readline())
    users.client("olga").delete("tokens", "watching")


def _folder_of(users: Users, name: str) -> Path:
    folder = users.folder / f"folder-{name}"
    token = (users.folder / f"{name}.token").read_text()
    FolderDirectory(folder).create(token)
    shutil.copy(users.cluster.folder / API, folder / API)
    return folder


def test_a_scheduler_stays_no_longer_than_its_token_is_good(users: Users) -> None:
    users.issue("brief", "submitter", days=6 / 86400)
    scheduler = SharedStateScheduler("briefly", _folder_of(users, "brief"))
    scheduler.sync()
    with pytest.raises(ConnectionError):
        while scheduler.receive(60.0) is not None:
            pass
    scheduler.close()


def test_a_scheduler_comes_in_with_a_token_until_it_is_revoked(users: Users) -> None:
    users.issue("outside", "submitter")
    scheduler = SharedStateScheduler("mine", _folder_of(users, "outside"))
    scheduler.sync()
    task = scheduler.new_task("t", "n1", ["sleep", "600"], {"cpu": 0.1, "memory": "16Mi"})
    assert scheduler.commit([task]).accepted == ("t",)
    users.client("olga").delete("tokens", "outside")
    with pytest.raises(ConnectionError):
        for _ in range(1000):
            scheduler.sync()
    scheduler.close()
    with pytest.raises(InputError, match="another user's"):
        OfferScheduler("mine", _folder_of(users, "bob"))
    with pytest.raises(InputError, match="expected the cluster's token or a certificate"):
        OfferScheduler("looks", _folder_of(users, "vera"))


def test_what_is_over_its_quota_waits_or_is_refused(users: Users) -> None:
    anna, olga = users.client("anna"), users.client("olga")
    olga.put("quotas", "anna", body={"cpu": "200m"})
    refused(
        422,
        "the quota of anna is 0.2 CPU",
        anna.post,
        "jobs",
        body=job("big", "true") | {"resources": {"cpu": 0.3, "memory": 0}},
    )
    anna.post("jobs", body=job("three", "sleep", "600", count=3))
    until(lambda: _states(anna, "three") == ["running", "running", "waiting"])
    why = anna.get("jobs", "three", "why")
    assert (why["tier"], why["reason"]) == (
        "quota",
        "the quota of anna is 0.2 CPU, and 0.2 CPU are in use",
    )
    assert "quota" in next(r for r in anna.get("jobs")["jobs"] if r["job"] == "three")["reason"]
    (row,) = anna.get("quotas")
    assert row["limits"] == {"cpu": 0.2} and row["used"]["cpu"] == pytest.approx(0.2)
    assert users.client("bob").get("quotas") == []
    olga.delete("quotas", "anna")
    until(lambda: _states(anna, "three") == ["running"] * 3)
    anna.delete("jobs", "three")


def _states(client: ApiClient, name: str) -> list[str]:
    return sorted(row["state"] for row in client.get("tasks", job=name)["tasks"])


def test_the_commands_do_the_same(users: Users, tmp_path: Path) -> None:
    made = users.run("olga", "token", "issue", "zoe", "--out", str(tmp_path / "zoe"))
    assert made.exit_code == 0, made.output
    assert (tmp_path / "zoe").stat().st_mode & 0o777 == 0o600
    token = (tmp_path / "zoe").read_text().strip()
    assert token.startswith("murmur-") and token not in made.output
    assert "zoe" in users.run("olga", "token", "list").output
    assert users.run("olga", "quota", "set", "zoe", "jobs=2", "cpus=1.5", "memory=1Gi").output
    rows = json.loads(users.run("olga", "quota", "list", "--json").stdout)
    zoe = next(row for row in rows if row["user"] == "zoe")
    assert zoe["limits"] == {"cpu": 1.5, "jobs": 2, "memory": 2**30}
    wrong = users.run("olga", "quota", "set", "zoe", "jobs")
    assert isinstance(wrong.exception, InputError)
    assert users.run("olga", "token", "revoke", "zoe").exit_code == 0
    assert "zoe" not in users.run("olga", "token", "list").output
    events = users.run("vera", "events")
    assert events.exit_code == 0 and "TokenRevoked" in events.output


def test_a_token_leaves_this_host_only_by_tls(users: Users, tmp_path: Path) -> None:
    file = users.folder / "anna.token"
    with pytest.raises(InputError, match="nothing listens there without certificates"):
        ApiClient(tmp_path, Reach(("192.0.2.1:7100",), file))
    loose = tmp_path / "loose"
    loose.write_text(file.read_text())
    loose.chmod(0o644)
    with pytest.raises(InputError, match="expected mode 600"):
        ApiClient(tmp_path, Reach(("127.0.0.1:1",), loose))


def test_the_network_of_a_node_is_for_operators(users: Users) -> None:
    """What listens on a node's loopback trusts everybody there. Neither a job nor a scheduler of a
    user without that role gets in."""
    job = {"name": "inside", "command": ["true"], "network": "host"}
    with pytest.raises(AnswerError, match="network: expected an operator for 'host', got anna"):
        users.client("anna").post("jobs", body=job)
    users.client("olga").post("jobs", body={**job, "name": "by-olga"})
    users.issue("sly", "submitter")
    with SharedStateScheduler("sly", _folder_of(users, "sly")) as scheduler:
        node = scheduler.sync().names[0]
        task = scheduler.new_task("t", node, ["true"], {"cpu": 0.1})
        assert isinstance(task.payload, Order)
        inside = msgspec.structs.replace(task.payload, host_network=True)
        with pytest.raises(ConnectionError):
            scheduler.commit([msgspec.structs.replace(task, payload=inside)])
