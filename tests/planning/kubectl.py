"""A stand-in for `kubectl` and the cluster behind it, run as a command: `kubectl.py STATE …`.

STATE is a JSON file with nodes, pods and budgets; time is counted in calls. Every call is appended
to its `calls`, with the nodes that were open after it. The rules of the real API that `moves.sh`
relies on:

- an eviction is refused (429) if as many pods of its owner are down as the budget allows, and if
  the uid is not that of the pod (409); with `dryRun` nothing happens;
- an evicted pod is leaving for `leaves` calls and holds its room meanwhile;
- a ReplicaSet makes another pod with another name at once, a StatefulSet one with the same name
  when the old one is gone;
- the scheduler puts a pod without a node on the first open node with room that is among those it
  fits on (`fits`); pods that ignore cordons take closed nodes too; if there is no room, a pod of
  lower priority on an open node is thrown out and put elsewhere;
- a pod is ready `starts` calls after it was scheduled;
- a command with several names does nothing if one of them is not there.

Faults: `kill_at` kills the whole script with the call of that number, after it took effect;
`vanish` has a node for a call number, which is gone from then on.

It imports nothing of the program, and refuses every call it does not know.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

State = dict[str, Any]


def fail(sentence: str, reason: str = "BadRequest") -> Any:
    print(f"Error from server ({reason}): {sentence}", file=sys.stderr)
    sys.exit(1)


def is_leaving(pod: Any) -> bool:
    return "gone_at" in pod


def is_ready(state: State, pod: Any) -> bool:
    if not pod["node"] or is_leaving(pod) or pod.get("never_ready"):
        return False
    return bool(len(state["calls"]) >= pod["scheduled_at"] + state["starts"])


def room(state: State, node: Any) -> int:
    return int(node["pods_max"] - sum(pod["node"] == node["name"] for pod in state["pods"]))


def may_use(node: Any, pod: Any) -> bool:
    is_open = not node["cordoned"] or pod.get("ignores_cordons")
    return bool(is_open and node["name"] in pod.get("fits", [node["name"]]))


def schedule(state: State) -> None:
    for pod in sorted(state["pods"], key=lambda p: -p.get("priority", 0)):
        if pod["node"] or is_leaving(pod):
            continue
        nodes = [node for node in state["nodes"] if may_use(node, pod)]
        free = [node for node in nodes if room(state, node) > 0]
        if not free:
            free = [node for node in nodes if throw_out(state, node, pod)]
        if free:
            pod["node"], pod["scheduled_at"] = free[0]["name"], len(state["calls"])


def throw_out(state: State, node: Any, pod: Any) -> bool:
    for other in state["pods"]:
        if other["node"] == node["name"] and other.get("priority", 0) < pod.get("priority", 0):
            other["node"] = ""
            state["thrown_out"].append(other["name"])
            return True
    return False


def pass_time(state: State) -> None:
    """Pods whose time is over are gone, nodes vanish, and stateful sets make their pods again."""
    here = len(state["calls"])
    for pod in [pod for pod in state["pods"] if pod.get("gone_at", here + 1) <= here]:
        state["pods"].remove(pod)
        if pod["kind"] == "StatefulSet":
            make_again(state, pod, pod["name"])
    gone = state["vanish"].get(str(here))
    state["nodes"] = [node for node in state["nodes"] if node["name"] != gone]
    schedule(state)


def make_again(state: State, pod: Any, name: str) -> None:
    state["made"] += 1
    fresh = {key: value for key, value in pod.items() if key not in ("gone_at", "annotations")}
    state["pods"].append({**fresh, "name": name, "uid": f"made-{state['made']}", "node": ""})


def find_pod(state: State, namespace: str, name: str) -> Any:
    for pod in state["pods"]:
        if (pod["namespace"], pod["name"]) == (namespace, name):
            return pod
    return fail(f'pods "{name}" not found', "NotFound")


def find_nodes(state: State, names: list[str]) -> list[Any]:
    rows = {node["name"]: node for node in state["nodes"]}
    for name in names:
        if name not in rows:
            fail(f'nodes "{name}" not found', "NotFound")
    return [rows[name] for name in names]


def evict(state: State, namespace: str, name: str, body: Any) -> None:
    wanted = {"name": name, "namespace": namespace}
    if (body["apiVersion"], body["kind"]) != (state["api"], "Eviction"):
        fail(f'no kind "{body["kind"]}" is registered for version "{body["apiVersion"]}"')
    if body["metadata"] != wanted:
        fail(f"not an eviction of {namespace}/{name}: {body}")
    pod, options = find_pod(state, namespace, name), body.get("deleteOptions", {})
    if options.get("preconditions", {}).get("uid", pod["uid"]) != pod["uid"]:
        fail("the UID in the precondition does not match", "Conflict")
    others = [p for p in state["pods"] if p["owner"] == pod["owner"] and p is not pod]
    down = sum(not is_ready(state, other) for other in others)
    if down >= state["budgets"].get(pod["owner"], len(others) + 1):
        fail("Cannot evict pod as it would violate the pod's disruption budget.", "TooManyRequests")
    if options.get("dryRun") == ["All"]:
        return
    pod["gone_at"] = len(state["calls"]) + state["leaves"]
    if pod["kind"] == "ReplicaSet":
        make_again(state, pod, f"{pod['owner']}-made-{state['made'] + 1}")


def pod_json(state: State, pod: Any) -> Any:
    metadata = {"name": pod["name"], "uid": pod["uid"], "annotations": pod.get("annotations")}
    if pod["owner"]:
        metadata["ownerReferences"] = [{"kind": pod["kind"], "name": pod["owner"]}]
    if is_leaving(pod):
        metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 1}
    status = "True" if is_ready(state, pod) else "False"
    spec = {"nodeName": pod["node"]} if pod["node"] else {}
    return {
        "metadata": metadata,
        "spec": {"terminationGracePeriodSeconds": 1, **spec},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]},
    }


def node_json(node: Any) -> Any:
    metadata = {"name": node["name"], "annotations": node.get("annotations")}
    return {"metadata": metadata, "spec": {"unschedulable": True} if node["cordoned"] else {}}


def annotate(things: list[Any], change: str) -> None:
    key, equals, value = change.partition("=")
    for thing in things:
        if equals:
            thing.setdefault("annotations", {})[key] = value
        else:
            thing.setdefault("annotations", {}).pop(key.removesuffix("-"), None)


def run(state: State, words: list[str]) -> None:
    match words:
        case ["api-versions"]:
            print("apps/v1", state["api"], "v1", sep="\n")
        case ["get", "nodes", "-o", "json"]:
            print(json.dumps({"items": [node_json(node) for node in state["nodes"]]}))
        case ["cordon" | "uncordon" as verb, _, *_]:
            for node in find_nodes(state, words[1:]):
                node["cordoned"] = verb == "cordon"
        case ["annotate", "--overwrite", "node", *names, change]:
            annotate(find_nodes(state, names), change)
        case ["annotate", "node", *names, change] if change.endswith("-"):
            annotate(find_nodes(state, names), change)
        case ["-n", namespace, "annotate", "--overwrite", "pod", name, change]:
            annotate([find_pod(state, namespace, name)], change)
        case ["-n", namespace, "get", "pods", "-o", "json"]:
            pods = [pod for pod in state["pods"] if pod["namespace"] == namespace]
            print(json.dumps({"items": [pod_json(state, pod) for pod in pods]}))
        case ["create", "--raw", path, "-f", "-"]:
            _, api, version, spaces, namespace, resource, name, what = path.split("/")
            assert (api, version, spaces, resource) == ("api", "v1", "namespaces", "pods"), path
            assert what == "eviction", path
            evict(state, namespace, name, json.load(sys.stdin))
        case _:
            fail(f"a call the stub does not know: {words}")


def main() -> None:
    path, words = Path(sys.argv[1]), sys.argv[2:]
    state = json.loads(path.read_text())
    pass_time(state)
    try:
        run(state, words)
    finally:
        schedule(state)
        opened = [node["name"] for node in state["nodes"] if not node["cordoned"]]
        state["calls"].append({"words": words, "open": opened})
        path.with_suffix(".new").write_text(json.dumps(state))
        path.with_suffix(".new").rename(path)
        if len(state["calls"]) == state["kill_at"]:
            os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
