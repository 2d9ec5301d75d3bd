"""The moves as a shell script of `kubectl` commands.

A pod cannot be sent to a node: it is evicted, its controller makes another, and the scheduler puts
that where it may. So the script cordons every node, uncordons the one a pod should go to, evicts
the pod through the eviction API, which respects disruption budgets, waits until one more pod of its
controller is ready on that node than before, and cordons the node again. Whatever happens, the
nodes that were schedulable before are uncordoned at the end.

Only a snapshot of Kubernetes can be carried out with `kubectl`; for others there is no script.
"""

from __future__ import annotations

import shlex

from murmuration.assignment.moves import Step
from murmuration.planning.plan import LABEL, Plan

#: A backslash at the end of a line here only keeps this file narrow; the script has one line.
HEADER = """#!/usr/bin/env bash
# {title}
# {label}: it holds for the snapshot it was made from. Look at it before you run it.
# While it runs, other new pods wait: every node is closed but the one a pod goes to.
set -euo pipefail
kubectl=${{KUBECTL:-kubectl}}
patience=${{PATIENCE:-300}}

open_before=$($kubectl get nodes -o json | \
jq -r '.items[] | select(.spec.unschedulable != true) | .metadata.name')
reopen() {{ for node in $open_before; do $kubectl uncordon "$node" >/dev/null || true; done; }}
trap reopen EXIT

node_of() {{ $kubectl -n "$1" get pod "$2" -o jsonpath='{{.spec.nodeName}}' 2>/dev/null || true; }}

ready_on() {{ # namespace, owner, node: the owner's pods that are ready there
  $kubectl -n "$1" get pods --field-selector "spec.nodeName=$3" -o json |
    jq --arg owner "$2" '[.items[] | select(any(.metadata.ownerReferences[]?; .name == $owner))
      | select(.metadata.deletionTimestamp == null)
      | select(any(.status.conditions[]?; .type == "Ready" and .status == "True"))] | length'
}}

move() {{ # step, namespace, pod, owner, from, to
  echo "step $1: $2/$3 from $5 to $6"
  if [ "$(node_of "$2" "$3")" != "$5" ]; then
    echo "step $1: $2/$3 is not on $5 any more; make a new plan" >&2; exit 1
  fi
  local before; before=$(ready_on "$2" "$4" "$6")
  $kubectl uncordon "$6" >/dev/null
  printf '{{"apiVersion":"policy/v1","kind":"Eviction",\
"metadata":{{"name":"%s","namespace":"%s"}}}}' "$3" "$2" |
    $kubectl create --raw "/api/v1/namespaces/$2/pods/$3/eviction" -f - >/dev/null
  local waited=0
  until [ "$(ready_on "$2" "$4" "$6")" -gt "$before" ]; do
    sleep 2; waited=$((waited + 2))
    if [ "$waited" -ge "$patience" ]; then
      echo "step $1: the new pod of $2/$4 is not ready on $6 after $patience s" >&2; exit 1
    fi
  done
  $kubectl cordon "$6" >/dev/null
}}

place() {{ # step, namespace, pod, to
  echo "step $1: $2/$3 to $4"
  $kubectl uncordon "$4" >/dev/null
  if [ -z "$(node_of "$2" "$3")" ]; then
    $kubectl -n "$2" wait --for=condition=PodScheduled "pod/$3" \
--timeout="${{patience}}s" >/dev/null
  fi
  $kubectl cordon "$4" >/dev/null
}}

for node in $open_before; do $kubectl cordon "$node" >/dev/null; done

"""


def can_be_scripted(plan: Plan) -> bool:
    """Whether the plan is for a Kubernetes cluster."""
    return plan.problem.source is not None and plan.problem.source.format == "kubernetes"


def script(plan: Plan, title: str) -> str:
    """The text of `moves.sh`."""
    lines = [_line(plan, number, step) for number, step in enumerate(plan.order.steps, 1)]
    body = "\n".join(lines) if lines else 'echo "nothing to move"'
    return HEADER.format(title=title.replace("\n", " "), label=LABEL) + body + "\n"


def _line(plan: Plan, number: int, step: Step) -> str:
    problem = plan.problem
    space, _, pod = problem.tasks[step.task].rpartition("/")
    target = problem.nodes[step.node]
    if step.origin < 0:
        return shlex.join(["place", str(number), space or "default", pod, target])
    origin = problem.nodes[step.origin]
    return shlex.join(
        ["move", str(number), space or "default", pod, _owner(plan, step.task), origin, target]
    )


def _owner(plan: Plan, task: int) -> str:
    """The name of the controller that makes a pod again once it is evicted."""
    assert plan.problem.source is not None, "only plans of a snapshot are written as scripts"
    return plan.problem.source.services[task].rpartition("/")[2]
