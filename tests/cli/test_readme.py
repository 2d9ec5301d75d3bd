"""Every command of the README and every example of a `--help` runs, from the folder a reader is in:
a fresh checkout, with a home of its own."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from murmuration.base.jit import cache_folder
from murmuration.cli import COMMANDS, murmur

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
#: A limit for a command that hangs; a slow machine and a cold kernel cache stay below it.
LIMIT_S = 1800
#: Commands that take minutes are run with these arguments added.
SHORTER = {
    "murmur compare omega-a": "--days 0.002",
    "murmur compare omega-a -s offers,shared-state,monolithic-multi": "--days 0.1",
    "murmur sweep omega-a --vary scheduler.decision.service.job_time_s=0.1,1,10,100": "--days 0.1",
    "murmur autoscale depas -s depas,threshold,oracle": "--set seconds=60",
    "murmur faults --protocol negotiation": "--schedules 3",
    "murmur reproduce rss": "--quick --days 0.01",
}
#: Commands that are not run, and why.
SKIPPED = {
    "git clone <this repository> murmuration": "needs a network",
    "cd murmuration": "the tests run in the checkout",
    "murmur trace convert trace.swf jobs.parquet": "the reader brings the trace",
    "murmur compact masb-12k": "many runs of 12,500 nodes; test_capacity.py has small ones",
    "murmur grow masb-12k": "many runs of 12,500 nodes; test_capacity.py has small ones",
    "kubectl get nodes,pods,pdb -A -o json > c.json": "needs a Kubernetes cluster",
    "murmur plan c.json": "needs a Kubernetes cluster",
    "murmur compare c.json --load 1.2 --arrivals bootstrap": "needs a Kubernetes cluster",
    "murmur kube schedule --placement least-allocated": "needs a Kubernetes cluster",
    "murmur kube why --pending": "needs a Kubernetes cluster",
    "murmur kube plan": "needs a Kubernetes cluster",
    "murmur kube apply": "needs a Kubernetes cluster",
    "murmur report runs/omega-a-compare": "the tests make a shorter one",
    "murmur plot runs/omega-a-compare -o waits.pdf": "the tests make a shorter one",
    "murmur up": "stays in the foreground; with --detach it is in the first block",
    "murmur replay ~/.murmur": "needs a live cluster; it is in the block that starts one",
}
#: Examples of a `--help` that are not run, and why.
LONG = {"murmur reproduce --all --out results --resume": "takes hours"}


def blocks(text: str) -> list[list[str]]:
    """The commands of each block that has no language, comments left out."""
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    return [
        [command for line in body.splitlines() for command in split(line)]
        for language, body in fenced
        if not language
    ]


def split(line: str) -> list[str]:
    """The commands of a line, as they are typed once the package is installed."""
    parts = line.partition(" #")[0].split("&&")
    return [re.sub(r"^\./murmur\b", "murmur", part.strip()) for part in parts if part.strip()]


def in_text(text: str) -> list[str]:
    """The commands between backquotes outside blocks."""
    plain = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    quoted = re.findall(r"`((?:murmur|kubectl) [^`]+)`", plain)
    return list(dict.fromkeys(quoted))


def live(commands: list[str]) -> bool:
    return any(command.startswith("murmur up") for command in commands)


def examples() -> list[str]:
    """The examples of every `--help`."""
    helps = [["trace", name] for name in ("info", "convert", "generate")]
    helps += [[name] for name in COMMANDS]
    shown = [CliRunner().invoke(murmur, [*each, "--help"]).output for each in helps]
    return [line.strip() for text in shown for line in re.findall(r"^ +murmur .*", text, re.M)]


class Checkout:
    """A folder with the examples and the README's own policy, and the command on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "murmuration"
        self.folder.mkdir()
        (self.folder / "examples").symlink_to(ROOT / "examples")
        policy = re.findall(r"^```python\n# mine\.py\n(.*?)^```", README, re.M | re.S)
        (self.folder / "mine.py").write_text(policy[0])
        command = folder / "bin" / "murmur"
        command.parent.mkdir()
        code = shlex.quote("from murmuration.cli import main; main()")
        command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {code} "$@"\n')
        command.chmod(0o755)
        home = folder / "home"
        # Where the shells have their settings.
        (home / ".config" / "fish").mkdir(parents=True)
        self.environment = {
            **{key: value for key, value in os.environ.items() if key != "MURMUR_DIR"},
            "HOME": str(home),
            "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(sys.path),
            # Kernels that are compiled already are used; where they lie depends on the home.
            "MURMUR_CACHE": str(cache_folder().parent),
        }

    def run(self, command: str) -> str:
        answer = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert answer.returncode == 0, f"{command}\n{answer.stdout}{answer.stderr}"
        return answer.stdout


pytestmark = pytest.mark.timeout(10 * LIMIT_S)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_the_live_cluster_of_the_readme(checkout: Checkout) -> None:
    (commands,) = [block for block in blocks(README) if live(block)]
    assert commands[-1] == "murmur down"
    try:
        printed = {command: checkout.run(command) for command in commands[:-1]}
    finally:
        checkout.run("murmur down")
    assert printed["murmur logs hello.0"] == "hello.0\n"
    assert not (Path(checkout.environment["HOME"]) / ".murmur").exists()


def test_every_other_command_of_the_readme(checkout: Checkout) -> None:
    """In the order of the text, but for a job list that is described before it is made."""
    studies = [command for block in blocks(README) if not live(block) for command in block]
    commands = sorted([*studies, *in_text(README)], key=lambda text: "trace generate" not in text)
    assert len(commands) >= 25, "the README is read as it is written"
    for command in commands:
        if command not in SKIPPED:
            checkout.run(f"{command} {SHORTER.get(command, '')}")
    assert (checkout.folder / "runs" / "plan-cluster" / "plan.json").exists()


def test_every_example_of_a_help(checkout: Checkout) -> None:
    commands = examples()
    assert len(commands) >= 6 and LONG.keys() <= {*commands}
    for command in commands:
        if command not in SKIPPED and command not in LONG:
            checkout.run(command)


def test_what_is_not_run_as_it_is_stands_in_the_readme() -> None:
    written = {*in_text(README), *(command for block in blocks(README) for command in block)}
    assert {*SKIPPED, *SHORTER} <= written


def test_files_the_readme_links_to_are_there() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert links and all((ROOT / link).exists() for link in links)
