"""Hosts that join: by a token in a file, without a leader's address in the folder; masters that
listen on every address; agents that hand over to the next; units for systemd."""

from __future__ import annotations

import configparser
import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from tests.runtime.authorities import TestAuthority
from tests.runtime.clusters import CPU, live_cluster, until

from murmuration.base.errors import InputError
from murmuration.cli import murmur
from murmuration.runtime import supervisor
from murmuration.runtime.client.requests import ApiClient, Reach
from murmuration.runtime.folder import API, TLS
from murmuration.runtime.master.process import find_advertised
from murmuration.runtime.net.directory import FolderDirectory
from murmuration.runtime.options import AgentOptions

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))


def test_an_agent_joins_with_a_token_file_and_nothing_else(tmp_path: Path) -> None:
    with live_cluster(tmp_path / "cluster", agents=1) as cluster:
        frames = FolderDirectory(cluster.folder).leader().frames
        token = tmp_path / "token"
        token.touch(mode=0o600)
        token.write_text(cluster.token + "\n")
        place = tmp_path / "elsewhere"
        options = AgentOptions(
            folder=str(place),
            name="joined",
            resources={"cpu": CPU, "memory": 2**30},
            attributes={"node": "joined"},
            isolation="process",
            join=[str(frames)],
            token_file=str(token),
        )
        with (tmp_path / "log").open("wb") as log:
            agent = start_agent(options, log)
        try:

            def is_up() -> bool:
                assert agent.poll() is None, (tmp_path / "log").read_text()
                rows = cluster.client.get("nodes")["nodes"]
                return any(row["node"] == "joined" and row["state"] == "up" for row in rows)

            until(is_up)
            assert not (place / API).exists() and not (place / "token").exists()
            cluster.submit("there", "echo", "here", constraints=["node = joined"])
            assert cluster.wait("there")["code"] == 0
            assert cluster.output("there.0") == "here\n"
        finally:
            agent.send_signal(signal.SIGTERM)
            agent.wait()
            supervisor.sweep(place)


def start_agent(options: AgentOptions, log: Any) -> subprocess.Popen[bytes]:
    path = os.pathsep.join(entry for entry in sys.path if entry)
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "murmuration.runtime.node.process"),
            msgspec.json.encode(options).decode(),
        ],
        stdout=log,
        stderr=log,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_an_agent_hands_its_tasks_over_to_the_next(tmp_path: Path) -> None:
    with live_cluster(tmp_path / "cluster", agents=1) as cluster:
        cluster.submit("stays", "sh", "-c", "echo $$; sleep 600", kind="service")
        (before,) = cluster.running("stays", 1)
        process = until(lambda: cluster.output("stays.0")).strip()
        cluster.reborn("n1", cluster.kill("n1", signal.SIGHUP))
        (after,) = cluster.running("stays", 1)
        assert (after["run"], after["started_s"]) == (before["run"], before["started_s"])
        assert Path(f"/proc/{process}").exists()
        assert cluster.output("stays.0").strip() == process


def test_a_master_on_every_address_says_where_it_is_reached() -> None:
    for host in ("0.0.0.0", "::", ""):
        with pytest.raises(InputError, match="expected --advertise HOST beside it"):
            find_advertised(host, "")
        assert find_advertised(host, "m1.lan") == "m1.lan"
    assert find_advertised("10.0.0.1", "") == "10.0.0.1"


def test_a_master_on_every_address_serves_under_the_name_it_tells(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path / "made")
    place = tmp_path / "cluster"
    place.mkdir(mode=0o700)
    shutil.copytree(authority.issue("m1", "master"), place / TLS)
    with live_cluster(place, agents=1, host="0.0.0.0", advertise="localhost") as cluster:
        assert cluster.url.startswith("https://localhost:")
        cluster.submit("hello", "true")
        assert cluster.wait("hello")["code"] == 0
        person = tmp_path / "person"
        person.mkdir(mode=0o700)
        shutil.copytree(authority.issue("anna", "viewer"), person / TLS)
        address = cluster.url.removeprefix("https://")
        # A certificate and an address are all that is needed; one that does not listen is passed.
        client = ApiClient(person, Reach(("127.0.0.1:1", address)))
        assert client.get("status")["api"] == cluster.url


@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.name)
def test_units_start_commands_with_options_that_exist(unit: Path) -> None:
    text = unit.read_text()
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(text)
    service = parser["Service"]
    assert service["Restart"] == "always"
    words = shlex.split(service["ExecStart"])
    assert words[:2] == ["/usr/bin/env", "murmur"]
    example = next(line for line in text.splitlines() if "OPTIONS=" in line and line[0] == "#")
    given = [*words[3:], *shlex.split(example.partition("OPTIONS=")[2])]
    with click.Context(murmur) as context:
        command = murmur.get_command(context, words[2])
    assert command is not None
    known = {name for option in command.params for name in option.opts}
    assert {word for word in given if word.startswith("--")} <= known


def test_units_are_in_the_wheel() -> None:
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    shared = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"]
    assert shared == {"deploy/systemd": "share/murmuration/systemd"} and len(UNITS) == 2
