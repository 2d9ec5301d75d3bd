"""Every complete command of the docs' pages is run, from the folder a reader is in, or is listed
with a reason why not. Those of the README and of the tutorials are in tests of their own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.cli.checkouts import LIMIT_S, Checkout
from tests.cli.test_autoscale import SCENARIO as WEB
from tests.cli.test_tutorials import PAGES, PLACEHOLDER, TUTORIALS, commands_of
from tests.kubernetes.objects import node, pod

#: What is run, with arguments that shorten it.
RUN = {
    "murmur autoscale depas": "--set seconds=60",
    "murmur autoscale web.toml -s depas,threshold,oracle": "--set seconds=60",
    "murmur faults --protocol depas": "--schedules 2",
    "murmur faults --protocol swarm": "--schedules 2",
    "murmur faults --protocol central": "--schedules 2",
    "murmur faults --protocol negotiation": "--schedules 2",
    "murmur faults --protocol central --masters 3": "--schedules 1",
    "murmur faults examples/faults.toml --count 300": "--count 3 --days 0.005",
    "murmur compare examples/fragmented.toml": "--days 0.005",
    "murmur compare examples/swarm.toml": "--days 0.002",
    "murmur simulate omega-a -s shared-state": "--days 0.005",
    "murmur compare log.toml -s monolithic,partitioned,shared-state "
    "--set scheduler.queue=conservative": "",
    "murmur sweep log.toml --vary scheduler.queue=fcfs,sjf,ljf,easy,conservative": "",
    "murmur compare c.json": "-s monolithic,shared-state",
    "murmur faults c.json --count 10": "--count 1 --days 0.01",
    "murmur plan c.json": "",
    "murmur plan cluster.json": "",
    "murmur plan cluster.json --place new.json": "",
    "murmur plan cluster.json --remove zone=a": "",
    "murmur plan cluster.json --objective nodes": "",
    "murmur plan cluster.json --rank": "",
    "murmur plan cluster.json --any zone": "",
    "murmur plan cluster.json --types mine.toml": "",
    "murmur plan cluster.json --only shop --exclude pool=spot": "",
    "murmur plan cluster.json --add m5.large=3 --objective cost --objective moves "
    "--limit moves=20": "",
    "murmur completion bash >> ~/.bashrc": "",
    "murmur ca init": "",
    "murmur ca init --ca etcd-ca": "",
    "murmur ca issue m1 --role master --address 10.0.0.1 --address m1.lan": "",
    "murmur ca issue n1 --role agent": "",
    "murmur ca issue n2 --role agent": "",
    "murmur ca issue anna --role operator": "",
    "murmur ca issue prometheus --role viewer": "",
    "murmur ca list": "",
    "murmur ca issue n1 --renew --out n1-new": "",
    "murmur ca revoke n2": "",
}
#: What is not run, by how it begins, and why.
NOT_RUN = {
    "murmur kube ": "needs a Kubernetes cluster; tests/kubernetes has one",
    "murmur replay ": "needs a recording; tests/cli/test_live.py and tests/kubernetes make some",
    "murmur (up|run|ps|wait|logs|why|drain|scale|exec|kill|status|down|events|dump) ": (
        "needs a live cluster; tests/cli/test_live.py and test_services.py start some"
    ),
    "murmur (store|token|quota|master|agent) ": (
        "needs a live cluster; tests/runtime/test_three_hosts.py types those of docs/operate.md"
    ),
    "murmur view ": "stays in the foreground; tests/cli/test_view.py",
    "murmur reproduce ": "takes minutes to hours; tests/experiments has quick versions",
    "murmur (simulate|compare|compact) masb-12k": "12,500 nodes: takes minutes",
    "murmur compact slurm/": "needs an export of Slurm; tests/workload/test_exports.py has some",
    "murmur (plan --objective|autoscale --detail|ca revoke)$": "names a command or an option",
    "murmur faults .* --schedules N": "leaves something to fill in",
}


def complete_commands() -> list[str]:
    """The commands of the pages that could be typed as they are, in their order, each once."""
    shown = [command for page in PAGES if page not in TUTORIALS for command in commands_of(page)]
    typed = [command for command in shown if not PLACEHOLDER.search(command)]
    return list(dict.fromkeys(c.rstrip("; ") for c in typed if len(c.split()) > 2))


def reason(command: str) -> str:
    """Why a command is not run; nothing if it is."""
    return next((why for start, why in NOT_RUN.items() if re.match(start, command)), "")


def bring_files(folder: Path) -> None:
    """What the reader has: a cluster with two zones, new pods, node types, a log, a scenario."""
    labels = [{"zone": "ab"[k % 2], "pool": "spot" if k == 3 else "plain"} for k in range(4)]
    nodes = [node(f"node-{k}", labels=each) for k, each in enumerate(labels)]
    pods = [pod(f"web-{k}", f"node-{k % 4}") for k in range(8)]
    cluster = json.dumps({"kind": "List", "items": [*nodes, *pods]})
    for name in ("c.json", "cluster.json"):
        (folder / name).write_text(cluster)
    (folder / "new.json").write_text(json.dumps({"kind": "List", "items": [pod("new-0")]}))
    (folder / "mine.toml").write_text('[[type]]\nname = "m5.large"\n')
    (folder / "web.toml").write_text(WEB)
    rows = [f"{k} {60 * k} 0 {100 + k} 4 -1 -1 4 600 -1 1 1 1 1 1 1 -1 -1" for k in range(1, 6)]
    (folder / "log.swf").write_text("; MaxProcs: 128\n" + "\n".join(rows) + "\n")
    queue = '[cluster]\nnodes = 4\ncpu = 4\n[workload]\ntrace = "log.swf"\n'
    (folder / "log.toml").write_text(queue + '[scheduler]\nkind = "monolithic"\nqueue = "easy"\n')


@pytest.mark.timeout(10 * LIMIT_S)
def test_commands_of_pages_run(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="murmur ca needs the extra hosts")
    checkout = Checkout(tmp_path, "")
    bring_files(checkout.folder)
    for command, shorter in RUN.items():
        checkout.run(f"{command} {shorter}")


def test_every_command_of_a_page_is_run_or_has_a_reason() -> None:
    commands = complete_commands()
    assert len(commands) > 80, "the pages are read"
    unknown = [command for command in commands if command not in RUN and not reason(command)]
    assert not unknown, "run them, or say why not"
    assert not RUN.keys() - {*commands}, "what is run stands on a page"
    assert all(any(re.match(s, c) for c in commands) for s in NOT_RUN), "so does the rest"
