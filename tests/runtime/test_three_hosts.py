"""The page "Three hosts in ten minutes", word for word: three hosts are namespaces with folders of
their own, and what systemd would start is started as its units say."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.runtime.clusters import until
from tests.runtime.networks import Host, joined_hosts

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = ("1", "2", "3")
#: What only a host of its own can do; the test does it otherwise.
NOT_HERE = ("apt-get", "python3 -m venv", "ln -s", "useradd", "chown", "systemctl", "cp /opt/")


def read_blocks() -> list[str]:
    """The commands of the page, block by block."""
    page = (ROOT / "docs" / "operate.md").read_text()
    section = page.partition("## Three hosts in ten minutes")[2].partition("\n## ")[0]
    found = re.findall(r"^ *```\n(.*?)^ *```$", section, re.DOTALL | re.MULTILINE)
    blocks = [re.sub(r"^   ", "", block, flags=re.MULTILINE) for block in found]
    assert len(blocks) == 6
    return blocks


class ThreeHosts:
    """Three hosts below a folder, and one to work on."""

    def __init__(self, place: Path, hosts: dict[str, Host]) -> None:
        self.place, self._hosts = place, hosts
        self.parts: dict[str, subprocess.Popen[bytes]] = {}
        self._path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self.home = place / "home"
        for each in (self.home, *(place / n / "root" for n in NUMBERS)):
            each.mkdir(parents=True, mode=0o700)
        for number in NUMBERS:
            for below in ("etc/default", "var/lib"):
                (place / number / below).mkdir(parents=True)

    def type_in(self, block: str, number: str = "") -> str:
        """Run the lines of a block on a host, or on the one to work on; what they print."""
        lines = [line for line in block.splitlines() if not line.strip().startswith(NOT_HERE)]
        text = re.sub(r"^N=1$", "", "\n".join(lines), flags=re.MULTILINE)
        text = re.sub(r"scp -pr (.+) root@10.0.0.\$N:", rf"cp -pr \1 {self.place}/$N/root/", text)
        home = self.home
        if number:
            home = self.place / number / "root"
            text = re.sub(r"(?<![\w$])/(var/lib|etc)/", rf"{self.place}/{number}/\1/", text)
        environment = {"PATH": self._path, "HOME": str(home), "N": number, **python_path()}
        done = subprocess.run(
            ["sh", "-euc", text], cwd=home, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout

    def start(self, name: str, number: str, words: list[str], **variables: str) -> None:
        log = (self.place / f"{name}{number}.log").open("ab")
        self.parts[f"{name}{number}"] = subprocess.Popen(
            [*self._hosts[number].prefix, *words],
            env={"PATH": self._path, "HOME": "/", **python_path(), **variables},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        log.close()

    def start_etcd(self, number: str) -> None:
        """As Debian's unit does: the variables of its file, and no argument."""
        lines = (self.place / number / "etc/default/etcd").read_text().splitlines()
        self.start("etcd", number, ["etcd"], **dict(line.split("=", 1) for line in lines))

    def start_unit(self, name: str, number: str) -> None:
        unit = (ROOT / f"deploy/systemd/murmur-{name}.service").read_text()
        fields = dict(line.split("=", 1) for line in unit.splitlines() if re.match(r"\w+=", line))
        here = self.place / number
        options = Path(str(here) + fields["EnvironmentFile"]).read_text().partition("=")[2]
        folder = here / "var/lib" / fields["StateDirectory"]
        command = fields["ExecStart"].replace("${STATE_DIRECTORY}", str(folder))
        self.start(name, number, shlex.split(command.replace("$OPTIONS", options)))

    def log(self, part: str) -> str:
        return (self.place / f"{part}.log").read_text()

    def end(self) -> None:
        for name, part in self.parts.items():
            # An agent that is told to stop ends its tasks.
            part.terminate() if name.startswith("agent") else part.kill()
        for part in self.parts.values():
            part.wait()


def python_path() -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ThreeHosts]:
    for program in ("etcd", "nsenter", "ip"):
        if os.geteuid() != 0 or shutil.which(program) is None:
            pytest.skip(f"hosts of a test need root and {program}")
    with joined_hosts(NUMBERS, "10.0.0") as hosts:
        made = ThreeHosts(tmp_path, hosts)
        try:
            yield made
        finally:
            made.end()


def test_three_hosts_as_the_page_says(cluster: ThreeHosts) -> None:
    _, certificates, folders, etcd, services, look = read_blocks()
    cluster.type_in(certificates)
    for number in NUMBERS:
        for block in (folders, etcd, services):
            cluster.type_in(block, number)
        cluster.start_etcd(number)
        cluster.start_unit("master", number)
        cluster.start_unit("agent", number)
    run = "murmur run hello.toml --wait && murmur logs hello.0"
    job = 'name = "hello"\ncommand = ["echo", "hello"]\n'
    (cluster.home / "hello.toml").write_text(job)
    try:
        until(lambda: all(f"n{k} " in cluster.type_in(look) for k in NUMBERS))
        assert "hello" in cluster.type_in(f"{look}\n{run}")
        # Whoever leads: the next one does when it is gone, and what has run is known.
        leader = next(k for k in NUMBERS if "this master leads" in cluster.log(f"master{k}"))
        cluster.parts[f"master{leader}"].kill()
        until(lambda: "finished" in cluster.type_in(f"{look}\nmurmur ps hello --all"))
    except BaseException:
        for part in cluster.parts:
            print(f"--- {part}\n{cluster.log(part)[-2000:]}")
        raise


def test_systemd_reads_the_units(tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    units = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
    done = subprocess.run(
        [analyze, "verify", *map(str, units)], capture_output=True, text=True, check=False
    )
    said = [line for line in done.stderr.splitlines() if "murmur" in line]
    assert not said and done.returncode == 0, done.stderr
    folders = [re.search(r"StateDirectory=(.+)", unit.read_text()) for unit in units]
    # Each service trusts a folder of its own user alone, so they cannot share one.
    assert len({found[1] for found in folders if found}) == 2
