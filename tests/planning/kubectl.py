"""A stand-in for `kubectl` and the cluster behind it, run as a command: `kubectl.py STATE …`.

STATE is a JSON file with nodes, pods and budgets. Every call is appended to its `calls`, with the
nodes that were schedulable after it. The rules of the real API that `moves.sh` relies on:

- an eviction deletes the pod if its budget allows it, and is refused otherwise;
- the controller of an evicted pod makes another one with another name;
- the scheduler puts a pod without a node on the first node that is not cordoned, has room, and is
  among those it fits on (`fits`, all by default);
- a pod is ready only the second time somebody asks for it after it was scheduled.

It imports nothing of the program, and refuses every call it does not know.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

State = dict[str, Any]


def fail(sentence: str) -> None:
    print(f"Error from server: {sentence}", file=sys.stderr)
    sys.exit(1)


def schedule(state: State) -> None:
    for pod in state["pods"]:
        if pod["node"]:
            continue
        for node in state["nodes"]:
            room = node["pods_max"] - sum(other["node"] == node["name"] for other in state["pods"])
            fits = node["name"] in pod.get("fits", [node["name"]])
            if not node["cordoned"] and room > 0 and fits:
                pod["node"], pod["asked"] = node["name"], 0
                break


def find_pod(state: State, namespace: str, name: str) -> Any:
    for pod in state["pods"]:
        if (pod["namespace"], pod["name"]) == (namespace, name):
            return pod
    return fail(f'pods "{name}" not found')


def evict(state: State, namespace: str, name: str, body: Any) -> None:
    wanted = {"name": name, "namespace": namespace}
    if (body["apiVersion"], body["kind"], body["metadata"]) != ("policy/v1", "Eviction", wanted):
        fail(f"not an eviction of {namespace}/{name}: {body}")
    pod = find_pod(state, namespace, name)
    if state["budgets"].get(pod["owner"], 1) == 0:
        fail("Cannot evict pod as it would violate the pod's disruption budget.")
    state["pods"].remove(pod)
    state["made"] += 1
    fresh = {**pod, "name": f"{pod['owner']}-made-{state['made']}", "node": "", "asked": 0}
    state["pods"].append(fresh)


def pods_json(state: State, namespace: str, node: str) -> Any:
    items = []
    for pod in state["pods"]:
        if pod["namespace"] != namespace or pod["node"] != node:
            continue
        ready = pod["asked"] > 0 and not pod.get("never_ready")
        pod["asked"] += 1
        status = "True" if ready else "False"
        owners = [{"kind": "ReplicaSet", "name": pod["owner"]}] if pod["owner"] else None
        metadata = {"name": pod["name"], "deletionTimestamp": None, "ownerReferences": owners}
        items.append(
            {"metadata": metadata, "status": {"conditions": [{"type": "Ready", "status": status}]}}
        )
    return {"kind": "List", "items": items}


def run(state: State, words: list[str]) -> None:
    match words:
        case ["get", "nodes", "-o", "json"]:
            items = [
                {"metadata": {"name": n["name"]}, "spec": {"unschedulable": n["cordoned"]}}
                for n in state["nodes"]
            ]
            print(json.dumps({"kind": "List", "items": items}))
        case [("cordon" | "uncordon") as verb, name]:
            nodes = [node for node in state["nodes"] if node["name"] == name]
            if not nodes:
                fail(f'nodes "{name}" not found')
            nodes[0]["cordoned"] = verb == "cordon"
        case ["-n", namespace, "get", "pod", name, "-o", "jsonpath={.spec.nodeName}"]:
            print(find_pod(state, namespace, name)["node"], end="")
        case ["-n", namespace, "get", "pods", "--field-selector", selector, "-o", "json"]:
            field, _, node = selector.partition("=")
            assert field == "spec.nodeName", selector
            print(json.dumps(pods_json(state, namespace, node)))
        case ["create", "--raw", path, "-f", "-"]:
            _, api, version, spaces, namespace, pods, name, what = path.split("/")
            assert (api, version, spaces, pods, what) == (
                "api",
                "v1",
                "namespaces",
                "pods",
                "eviction",
            ), path
            evict(state, namespace, name, json.load(sys.stdin))
        case ["-n", namespace, "wait", "--for=condition=PodScheduled", pod, _]:
            if not find_pod(state, namespace, pod.removeprefix("pod/"))["node"]:
                fail("timed out waiting for the condition")
        case _:
            fail(f"a call the stub does not know: {words}")


def main() -> None:
    path, words = Path(sys.argv[1]), sys.argv[2:]
    state = json.loads(path.read_text())
    schedule(state)
    try:
        run(state, words)
    finally:
        schedule(state)
        opened = [node["name"] for node in state["nodes"] if not node["cordoned"]]
        state["calls"].append({"words": words, "open": opened})
        path.write_text(json.dumps(state))


if __name__ == "__main__":
    main()
