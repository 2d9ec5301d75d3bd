"""The moves as a shell script of `kubectl` commands.

A pod cannot be sent to a node: it is evicted, its controller makes another, and the scheduler puts
that where it may. So the script closes (cordons) every node but the one a pod should go to, evicts
the pod through the eviction API, waits until its successor has a node, and opens the nodes again;
only then does it wait until the old pod is gone and the new one is ready, for all steps of a wave
together. What it has closed carries an annotation, so that the next run can open it if this one is
killed; what is empty in the end stays closed. `shell.py` has the functions, here are the lines.

**What cannot be scripted** is left out, with everything that relies on it: pods and nodes that are
not in the cluster yet, and pods that closed nodes do not keep out, because nobody can say where
their successors go. Only a snapshot of Kubernetes can be carried out with `kubectl` at all.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import groupby
from typing import NamedTuple

import numpy as np

from murmuration.assignment.details import SnapshotDetails
from murmuration.assignment.moves import MoveStep
from murmuration.assignment.problem import Problem, new_broken, sum_requests
from murmuration.base.arrays import Indices
from murmuration.planning.plan import LABEL, Plan
from murmuration.planning.shell import FUNCTIONS

#: Steps left out that are named one by one.
NAMED_MAX = 10


class ScriptedSteps(NamedTuple):
    """The steps a script can carry out, by number, why the others are left out, and where the tasks
    are after it."""

    steps: dict[int, MoveStep]
    left_out: dict[int, str]
    node_of: Indices


def can_be_scripted(plan: Plan) -> bool:
    """Whether the plan is for a Kubernetes cluster and a script can carry out any of its steps."""
    if plan.problem.source is None or plan.problem.source.format != "kubernetes":
        return False
    return not plan.order.steps or bool(select_steps(plan).steps)


def script_notes(plan: Plan) -> list[str]:
    """What of a Kubernetes plan `moves.sh` does not do, in sentences."""
    if plan.problem.source is None or plan.problem.source.format != "kubernetes":
        return []
    left_out = select_steps(plan).left_out
    sentences = [f"step {number}: {reason}" for number, reason in left_out.items()]
    if len(sentences) > NAMED_MAX:
        sentences[NAMED_MAX:] = [f"{len(sentences) - NAMED_MAX} steps more"]
    if left_out and len(left_out) == len(plan.order.steps):
        return ["there is no moves.sh: a script can carry out no step of this plan", *sentences]
    return [f"moves.sh leaves out {sentence}" for sentence in sentences]


def select_steps(plan: Plan) -> ScriptedSteps:
    """Go through the steps without those a script cannot make, and leave out what then does not fit
    or breaks a rule."""
    problem, source = plan.problem, plan.problem.source
    assert source is not None, "only plans of a snapshot are written as scripts"
    steps: dict[int, MoveStep] = {}
    left_out: dict[int, str] = {}
    node_of = problem.present.copy()
    for number, step in enumerate(plan.order.steps, 1):
        reason = _why_not(problem, source, step)
        if not reason and left_out and not _still_fits(problem, step, node_of):
            reason = f"{problem.tasks[step.task]} relies on a step that is left out"
        if reason:
            left_out[number] = reason
            continue
        steps[number] = step
        node_of[step.task] = step.node
    return ScriptedSteps(steps, left_out, node_of)


def _why_not(problem: Problem, source: SnapshotDetails, step: MoveStep) -> str:
    """Why a script cannot make a step, whatever the others are; empty if it can."""
    task, node = problem.tasks[step.task], problem.nodes[step.node]
    if task in source.absent:
        return f"{task} is not in the cluster yet; apply its manifest when the script has ended"
    if node in source.absent:
        return f"{task} would go to {node}, which is not in the cluster yet"
    if task in source.ignores_cordons:
        return f"{task} tolerates closed nodes, so its successor may go to any node"
    return ""


def _still_fits(problem: Problem, step: MoveStep, node_of: Indices) -> bool:
    """Whether a step is possible from where the tasks are if some steps were left out."""
    if node_of[step.task] != step.origin:
        return False
    request, after = problem.request[step.task], node_of.copy()
    free = problem.total[step.node] - sum_requests(problem, node_of)[step.node]
    after[step.task] = step.node
    broken = new_broken(problem, np.array([step.task]), after, node_of)
    return not broken and bool(((request <= free) | (request == 0)).all())


def script(plan: Plan, title: str) -> str:
    """The text of `moves.sh`."""
    part = select_steps(plan)
    head = FUNCTIONS.replace("@TITLE@", " ".join(title.splitlines())).replace("@LABEL@", LABEL)
    comments = [f"# {' '.join(note.splitlines())}" for note in script_notes(plan)]
    lines = [*comments, *_known_pods(plan, part), shlex.join(["start", *list_closed(plan, part)])]
    lines += _body(plan, part) if part.steps else ['echo "nothing to move"']
    waiting = [n for n, step in enumerate(plan.order.steps, 1) if _is_absent(plan, step.task)]
    if waiting:
        lines.append(f'echo "room is made for {len(waiting)} new pods: apply their manifest now"')
    return head + "\n".join([*lines, "finish"]) + "\n"


def _is_absent(plan: Plan, task: int) -> bool:
    source = plan.problem.source
    return source is not None and plan.problem.tasks[task] in source.absent


def list_closed(plan: Plan, part: ScriptedSteps) -> list[str]:
    """Nodes that have pods of their own now and none in the end, and those that are to be removed;
    pods that come later count."""
    problem, source = plan.problem, plan.problem.source
    assert source is not None, "only plans of a snapshot are written as scripts"
    own = ~np.array(source.bound_to_node, dtype=np.bool_)
    end = part.node_of.copy()
    for step in plan.order.steps:
        if _is_absent(plan, step.task):
            end[step.task] = step.node
    before, after = (set(where[own & (where >= 0)].tolist()) for where in (problem.present, end))
    removed = set(plan.displaced.values())
    return sorted({problem.nodes[n] for n in before - after} | removed)


def _known_pods(plan: Plan, part: ScriptedSteps) -> Iterator[str]:
    """The pods that the controllers of the moved ones have now: others are successors."""
    problem, source = plan.problem, plan.problem.source
    assert source is not None, "only plans of a snapshot are written as scripts"
    moved = {source.services[step.task] for step in part.steps.values()}
    names = sorted(
        problem.tasks[t].rpartition("/")[::2]
        for t in range(len(problem.tasks))
        if source.services[t] in moved
    )
    for space, rows in groupby(names, key=lambda name: name[0]):
        yield shlex.join(["known", space or "default", *(pod for _, pod in rows)])


def _body(plan: Plan, part: ScriptedSteps) -> Iterator[str]:
    """Wave by wave and in each target by target: pods that go to one node are sent together."""
    nodes, steps, later = plan.problem.nodes, part.steps, _list_later(plan, part)
    numbers = sorted(steps, key=lambda k: (steps[k].wave, steps[k].node, k))
    for wave, of_wave in groupby(numbers, key=lambda k: steps[k].wave):
        yield f"# wave {wave}"
        for node, of_node in groupby(of_wave, key=lambda k: steps[k].node):
            yield shlex.join(["to", nodes[node]])
            yield from (_line(plan, steps[k], k, later[k]) for k in of_node)
            yield "go"
        yield "settle"


def _list_later(plan: Plan, part: ScriptedSteps) -> dict[int, list[str]]:
    """For each step the nodes that its task goes to after it."""
    later: dict[int, list[str]] = {}
    ahead: dict[int, list[str]] = {}
    for number in sorted(part.steps, reverse=True):
        step = part.steps[number]
        later[number] = ahead.get(step.task, [])
        ahead[step.task] = [plan.problem.nodes[step.node], *later[number]]
    return later


def _line(plan: Plan, step: MoveStep, number: int, later: list[str]) -> str:
    problem = plan.problem
    space, _, pod = problem.tasks[step.task].rpartition("/")
    origin = problem.nodes[step.origin] if step.origin >= 0 else plan.displaced.get(step.task)
    words = [str(number), space or "default", pod]
    if origin is None:
        return shlex.join(["place", *words])
    return shlex.join(["move", *words, _owner(plan, step.task), origin, *later])


def _owner(plan: Plan, task: int) -> str:
    """Kind and name of the controller that makes a pod again once it is evicted."""
    assert plan.problem.source is not None, "only plans of a snapshot are written as scripts"
    return plan.problem.source.services[task].partition("/")[2]
