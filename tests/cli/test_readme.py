"""Every command of the README and every example of a `--help` runs, from the folder a reader is in:
a fresh checkout, with a home of its own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.checkouts import LIMIT_S, ROOT, Checkout, blocks, in_text, live
from tests.kubernetes.objects import node, pod

from murmuration.cli import COMMANDS, murmur

README = (ROOT / "README.md").read_text()
#: Commands that take minutes are run with these arguments added.
SHORTER = {
    "murmur compare omega-a": "--days 0.002 --out runs/omega-a-compare",
    "murmur compare omega-a -s offers,shared-state,monolithic-multi": "--days 0.1",
    "murmur sweep omega-a --vary scheduler.decision.service.job_time_s=0.1,1,10,100": "--days 0.1",
    "murmur autoscale depas -s depas,threshold,oracle": "--set seconds=60",
    "murmur compare c.json --load 1.2 --arrivals bootstrap": "-s monolithic,shared-state",
    "murmur faults --protocol negotiation": "--schedules 3",
    "murmur reproduce rss": "--quick --days 0.01",
}
#: Commands that are not run, and why.
SKIPPED = {
    "git clone <this repository> murmuration": "needs a network",
    "cd murmuration": "the tests run in the checkout",
    "murmur compact masb-12k": "many runs of 12,500 nodes; test_capacity.py has small ones",
    "murmur grow masb-12k": "many runs of 12,500 nodes; test_capacity.py has small ones",
    "kubectl get nodes,pods,pdb -A -o json > c.json": "needs a Kubernetes cluster; c.json is there",
    "murmur kube schedule --placement least-allocated": "needs a Kubernetes cluster",
    "murmur kube why --pending": "needs a Kubernetes cluster",
    "murmur kube plan": "needs a Kubernetes cluster",
    "murmur kube apply": "needs a Kubernetes cluster",
    "murmur up": "stays in the foreground; with --detach it is in the first block",
    "murmur replay ~/.murmur": "needs a live cluster; it is in the block that starts one",
}
#: Examples of a `--help` that are not run, and why.
LONG = {"murmur reproduce --all --out results --resume": "takes hours"}


def examples() -> list[str]:
    """The examples of every `--help`."""
    helps = [["trace", name] for name in ("info", "convert", "generate")]
    helps += [[name] for name in COMMANDS]
    shown = [CliRunner().invoke(murmur, [*each, "--help"]).output for each in helps]
    return [line.strip() for text in shown for line in re.findall(r"^ +murmur .*", text, re.M)]


pytestmark = pytest.mark.timeout(10 * LIMIT_S)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path, README)


def test_the_live_cluster_of_the_readme(checkout: Checkout) -> None:
    (commands,) = [block for block in blocks(README) if live(block)]
    assert commands[-1] == "murmur down"
    try:
        printed = {command: checkout.run(command) for command in commands[:-1]}
    finally:
        checkout.run("murmur down")
    assert printed["murmur logs hello.0"] == "hello.0\n"
    assert not (Path(checkout.environment["HOME"]) / ".murmur").exists()


def bring_own_data(folder: Path) -> None:
    """What the reader has: a snapshot of a cluster, and a trace (job, submitted, waited, ran,
    processors, …)."""
    nodes = [node(f"node-{k}") for k in range(3)]
    pods = [pod(f"web-{k}", f"node-{k % 3}") for k in range(8)]
    (folder / "c.json").write_text(json.dumps({"kind": "List", "items": [*nodes, *pods]}))
    rows = [f"{k} {60 * k} 0 {100 + k} 4 -1 -1 4 600 -1 1 1 1 1 1 1 -1 -1" for k in range(1, 6)]
    (folder / "trace.swf").write_text("; MaxProcs: 128\n" + "\n".join(rows) + "\n")


def test_every_other_command_of_the_readme(checkout: Checkout) -> None:
    """In the order of the text, but for a job list that is described before it is made."""
    studies = [command for block in blocks(README) if not live(block) for command in block]
    commands = sorted([*studies, *in_text(README)], key=lambda text: "trace generate" not in text)
    assert len(commands) >= 25, "the README is read as it is written"
    bring_own_data(checkout.folder)
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
