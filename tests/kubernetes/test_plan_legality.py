"""Every step of `murmur plan` on made clusters is one that Kubernetes would take.

Each theme is a cluster built around one rule. What fails today is marked, strictly: whoever mends
the planner takes the mark away.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.kubernetes import cases_changes, cases_random, cases_rooms, cases_volumes
from tests.kubernetes.cases import BUILDERS
from tests.kubernetes.checker_cluster import Object, cluster_of
from tests.kubernetes.checker_replay import Replay, claims
from tests.kubernetes.made import Case, Question

from murmuration.cli.plan import plan

MODULES = (cases_changes, cases_random, cases_rooms, cases_volumes)
USUAL = (1, 2)
#: Seeds of themes that leave much to chance.
SEEDS = {"mixed": (1, 3, 5), "anything": (2, 6, 10)}
EVALUATIONS = ("--evaluations", "1000")

#: Themes that fail, and why.
FAILING: dict[str, str] = {
    "selector-beside-one-of-two-terms": (
        "kubernetes/snapshot.py refuses the cluster if any one of several terms "
        "contradicts the selector"
    ),
    "pending-for-ever": (
        "kubernetes/snapshot.py refuses the cluster for a pod that can never be placed"
    ),
    "affinity-of-all-terms": (
        "kubernetes/rules.py makes one rule of each term, so two pods may meet one each"
    ),
    "namespaces-by-their-label": (
        "kubernetes/rules.py takes a namespaceSelector to mean every namespace"
    ),
    "namespaces-by-other-labels": (
        "kubernetes/rules.py takes a namespaceSelector to mean every namespace"
    ),
    "spread-and-tainted-nodes": (
        "kubernetes/rules.py leaves tainted nodes out of the domains (masks with taints)"
    ),
    "spread-broken-already": (
        "assignment/problem.py counts one skew per rule, not that of the domain a pod comes to"
    ),
    "spread-by-two-keys": (
        "kubernetes/rules.py counts nodes that lack the key of another constraint"
    ),
    "spread-and-pods-on-their-way-out": "kubernetes/rules.py counts pods that are being deleted",
    "spread-while-nodes-go": (
        "planning/changes.py takes all pods of removed nodes away before the first step"
    ),
    "mixed": (
        "planning/plan.py leaves out who lost a move although another node takes it; "
        "planning/changes.py takes all pods of removed nodes away before the first step"
    ),
    "anything": "assignment/moves.py asks no budget for pods of removed nodes in waves",
    "host-addresses": "kubernetes/rules.py does not read hostIP",
    "ports-of-sidecars": "kubernetes/rules.py reads the ports of containers only",
    "host-network-manifests": "kubernetes/rules.py does not know that hostNetwork makes host ports",
    "daemon-set-with-host-port": (
        "assignment/snapshots/folding.py keeps daemon pods that a rule speaks of, and so "
        "their nodes in use"
    ),
    "init-and-sidecars": (
        "kubernetes/snapshot.py takes an init container without the sidecars beside it"
    ),
    "ephemeral-storage": "base/resources.py keeps millionths of all but memory, capped at 2^50",
    "huge-pages": "base/resources.py keeps millionths of all but memory, capped at 2^50",
    "odd-quantities": "base/resources.py does not know the suffixes E and Ei",
    "volumes-with-zone-labels": (
        "kubernetes/snapshot.py reads the nodeAffinity of volumes and not their labels"
    ),
    "volume-limits": "kubernetes/snapshot.py does not read CSINode",
    "read-write-once-pod": "kubernetes/snapshot.py does not read access modes",
    "shared-volume": "kubernetes/snapshot.py does not read access modes",
    "claims-that-wait": (
        "kubernetes/snapshot.py pins pods whose claim has no volume yet, and they get no node"
    ),
    "ephemeral-volumes": "kubernetes/snapshot.py does not read the volumes made for one pod",
    "budgets-and-removal": (
        "assignment/moves.py and planning/rehearsal.py ask a budget only if a step has an origin, "
        "and planning/changes.py takes it from pods of removed nodes"
    ),
    "unready-pods-of-new-budgets": "kubernetes/disruption.py counts running pods as healthy",
    "not-to-be-moved": "kubernetes/snapshot.py does not know Karpenter's marks",
    "gated": "kubernetes/snapshot.py does not read schedulingGates",
    "dynamic-resources": "kubernetes/snapshot.py does not read resource claims",
    "allocated-claims": "kubernetes/snapshot.py does not read resource claims",
    "added-nodes-have-daemon-sets": (
        "assignment/snapshots/additions.py gives added nodes no daemon sets"
    ),
    "added-types": "assignment/snapshots/additions.py gives added types all of their size",
    "labels-of-added-types": (
        "assignment/snapshots/additions.py gives added types no system and architecture"
    ),
    "limits-with-pending-pods": (
        "planning/plan.py places what waits with the fewest moves and no limit"
    ),
    "a-drained-node-is-counted": (
        "assignment/moves.py counts moves by origin, and displaced pods have none"
    ),
    "a-node-without-allocatable": "kubernetes/snapshot.py refuses the cluster",
    "a-pod-on-an-unknown-node": "kubernetes/snapshot.py refuses the cluster",
    "contradicting-affinity": "kubernetes/rules.py refuses the cluster",
    "cyclic-affinity": "kubernetes/rules.py refuses the cluster",
    "published-manifests": "kubernetes/objects.py refuses what makes no pods",
    "daemon-sets-to-place": "kubernetes/objects.py takes no DaemonSet",
}


def marks(name: str) -> list[pytest.MarkDecorator]:
    """Only what the judge says counts as the failure that is expected."""
    if name not in FAILING:
        return []
    return [pytest.mark.xfail(strict=True, raises=AssertionError, reason=FAILING[name])]


THEMES = [pytest.param(name, marks=marks(name)) for name in BUILDERS]


def written(path: Path, things: list[Object]) -> Path:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": things}))
    return path


def planned(case: Case, question: Question, folder: Path) -> tuple[Object | None, str]:
    """The plan, or why there is none."""
    words = [str(written(folder / "cluster.json", case.items)), "--json", *question, *EVALUATIONS]
    if case.place:
        words += ["--place", str(written(folder / "place.json", case.place))]
    result = CliRunner().invoke(plan, words)
    if result.exit_code:
        return None, f"refused: {result.exception}"
    found: dict[str, Any] = json.loads(result.stdout)
    return found, ""


def judged(case: Case, question: Question, folder: Path) -> tuple[int, list[str]]:
    """How many steps a plan has, and all that is wrong with it."""
    found, refused = planned(case, question, folder)
    if found is None:
        return 0, [refused]
    removed = [
        word for word, before in zip(question[1:], question, strict=False) if before == "--remove"
    ]
    replay = Replay(cluster_of(case.items), case.place, case.added, removed)
    wrong = [*replay.run(found["moves"]), *claims(replay, found)]
    wrong += case.expect(replay.cluster, found) if case.expect else []
    return len(found["moves"]), [f"{' '.join(question)}: {sentence}" for sentence in wrong]


@pytest.mark.parametrize("name", THEMES)
def test_every_step_is_legal(name: str, tmp_path: Path) -> None:
    steps, wrong = 0, []
    seeds = SEEDS.get(name, USUAL)
    for seed in seeds:
        case = BUILDERS[name](seed)
        for question in case.questions:
            count, sentences = judged(case, question, tmp_path)
            steps += count
            wrong += [f"seed {seed} {sentence}" for sentence in sentences]
        least = case.steps * len(seeds)
    assert not wrong, "\n".join(wrong)
    assert steps >= least, f"{steps} steps tried nothing, expected {least}"


def test_there_are_many_themes() -> None:
    """The modules of cases are imported for the themes they add."""
    assert all(module.__doc__ for module in MODULES)
    assert len(BUILDERS) >= 60
    assert set(FAILING) <= set(BUILDERS)
