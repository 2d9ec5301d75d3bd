"""A dump has what a bug report needs, none of the cluster's secrets, and replays."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.runtime.clusters import live_cluster

from murmuration.base.errors import InputError
from murmuration.cli import murmur
from murmuration.runtime.client.sdk import SharedStateScheduler
from murmuration.runtime.store.redact import redact
from murmuration.runtime.store.sqlite import read_log

SECRETS = ("in-the-environment-1", "in-an-argument-2", "in-a-command-3", "of-a-scheduler-4")


def test_a_dump_has_no_secrets_and_replays(tmp_path: Path) -> None:
    folder, file = tmp_path / "cluster", tmp_path / "dump.tar.gz"
    with live_cluster(folder, agents=2) as cluster:
        issued = cluster.client.post("tokens", body={"name": "anna"})["token"]
        cluster.submit(
            "job",
            *("sh", "-c", f"echo {SECRETS[2]}"),
            arguments=[SECRETS[1]],
            environment={"PASSWORD": SECRETS[0]},
            count=3,
        )
        cluster.wait("job")
        with SharedStateScheduler("outside", folder) as scheduler:
            scheduler.sync()
            environment = {"KEY": SECRETS[3]}
            size: dict[str, str | float] = {"cpu": 0.1, "memory": "16Mi"}
            task = scheduler.new_task("t", "n1", ["true"], size, environment)
            scheduler.commit([task])
            scheduler.wait_for(["t"])
        # A master that starts again writes everything it starts from to the log.
        cluster.reborn("master", cluster.kill("master"))
        # Somebody's mistake: a token in a log.
        with (folder / "master.log").open("a") as log:
            log.write(f"Authorization: Bearer {cluster.token}, then {issued}\n")
        own = cluster.token
        made = CliRunner().invoke(murmur, ["dump", "-o", str(file), "--dir", str(folder)])
        assert made.exit_code == 0, made.output
        stored = b"".join(path.read_bytes() for path in folder.glob("store.db*"))
    with tarfile.open(file) as archive:
        names = archive.getnames()
        whole = b"".join(archive.extractfile(name).read() for name in names)  # type: ignore[union-attr]
    assert {"store.db", "about.json", "status.json", "nodes.json", "logs/master.log"} <= {*names}
    for secret in (*SECRETS, own, issued, "PASSWORD"):
        assert secret.encode() not in whole, secret
    assert all(secret.encode() in stored for secret in SECRETS), "they were there to be left out"
    assert b"PRIVATE KEY" not in whole and "token" not in names
    digest = next(e.value.digest for e in read_log(folder) if hasattr(e.value, "digest"))
    assert digest.encode() in stored and digest.encode() not in whole
    replayed = CliRunner().invoke(murmur, ["replay", str(file), "--json"])
    assert replayed.exit_code == 0, replayed.output
    document = json.loads(replayed.stdout)
    assert document["agrees"] and document["decisions"] >= 3
    whole_log = json.loads(CliRunner().invoke(murmur, ["replay", str(folder), "--json"]).stdout)
    assert document["events"] <= whole_log["events"] and document["facts"] > 0


def test_what_is_no_dump_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.tar.gz"
    with tarfile.open(file, "w:gz") as archive:
        archive.add(__file__, "something.py")
    with pytest.raises(InputError, match=r"other.tar.gz: expected a file of murmur dump"):
        read_log(file)


TREES = st.recursive(
    st.none() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["environment", "arguments", "command", "digest", "name", "x"]), inner
        )
    ),
    max_leaves=20,
)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(TREES)
def test_redacting_reaches_everything_and_is_done_once(tree: Any) -> None:
    """However deep it lies: no value of an environment, an argument or a digest stays."""

    def find_secrets(value: Any) -> list[Any]:
        if isinstance(value, list):
            return [secret for each in value for secret in find_secrets(each)]
        if not isinstance(value, dict):
            return []
        own = [value[key] for key in ("environment", "arguments") if value.get(key)]
        command = value.get("command")
        own += command[2:] if isinstance(command, list) else []
        return own + [secret for each in value.values() for secret in find_secrets(each)]

    redacted = redact(tree)
    assert find_secrets(redacted) == []
    assert redact(redacted) == redacted
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(redacted)) == redacted
