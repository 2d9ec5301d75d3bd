"""Clusters to consolidate: made from a seed, as plain numbers and as Kubernetes objects, and two
ways to empty nodes that `murmur plan` is held against."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
GPU = "nvidia.com/gpu"
#: Thousandths of a CPU, MiB, pods, GPUs.
Amounts = tuple[int, int, int, int]
#: What nodes of one family give to pods, and nodes with GPUs.
LARGE, XLARGE, DOUBLE = (1930, 7050, 29, 0), (3920, 14600, 58, 0), (7910, 30100, 58, 0)
TWO_GPUS, FOUR_GPUS = (7910, 30100, 58, 2), (15890, 59500, 110, 4)
#: Daemon sets of every node: name, thousandths of a CPU, MiB.
DAEMONS = (("proxy", 100, 128), ("logs", 150, 256))
APART, SPREAD, ZONAL, FREE = "apart", "spread", "zonal", "free"


@dataclass(frozen=True)
class App:
    """Replicas that are all alike, and the one rule they follow."""

    name: str
    cpu: int
    memory: int
    replicas: int
    rule: str
    zone: str = ""
    gpus: int = 0

    @property
    def amounts(self) -> Amounts:
        return self.cpu, self.memory, 1, self.gpus


@dataclass
class Model:
    """Nodes and applications; `counts[app][node]` replicas lie there."""

    sizes: list[Amounts]
    zones: list[str]
    apps: list[App]
    counts: list[Counter[int]] = field(default_factory=list)

    def copy(self) -> Model:
        return Model(self.sizes, self.zones, self.apps, [Counter(c) for c in self.counts])

    def room(self, node: int) -> Amounts:
        """What is left of a node beside its daemon sets and pods."""
        cpu, memory, pods, gpus = self.sizes[node]
        for _, more_cpu, more_memory in DAEMONS:
            cpu, memory, pods = cpu - more_cpu, memory - more_memory, pods - 1
        for app, count in self.on(node):
            cpu, memory, pods = cpu - app.cpu * count, memory - app.memory * count, pods - count
            gpus -= app.gpus * count
        return cpu, memory, pods, gpus

    def on(self, node: int) -> Iterator[tuple[App, int]]:
        for app, counts in zip(self.apps, self.counts, strict=True):
            if counts[node]:
                yield app, counts[node]

    def in_use(self) -> list[int]:
        return [n for n in range(len(self.sizes)) if any(c[n] for c in self.counts)]

    def by_zone(self, app: int) -> Counter[str]:
        found = Counter(dict.fromkeys(self.zones, 0))
        for node, count in self.counts[app].items():
            found[self.zones[node]] += count
        return found

    def takes(self, app: int, node: int) -> bool:
        """Whether one more replica may come to a node: room, and the rule of its application."""
        wanted, left = self.apps[app], self.room(node)
        if any(asked > free for asked, free in zip(wanted.amounts, left, strict=True)):
            return False
        if wanted.rule == APART:
            return not self.counts[app][node]
        if wanted.rule == ZONAL:
            return self.zones[node] == wanted.zone
        counts = self.by_zone(app)
        return wanted.rule != SPREAD or counts[self.zones[node]] < min(counts.values()) + 1


def made(seed: int, count: int, rules: bool, sizes: int, load: float, gpus: bool = False) -> Model:
    """A cluster after some time of coming and going: pods lie anywhere they may."""
    rng = random.Random(f"{count} {seed} {rules} {sizes}")
    kinds = (XLARGE,) if sizes == 1 else (LARGE, XLARGE, DOUBLE)
    kinds = (XLARGE, TWO_GPUS, FOUR_GPUS) if gpus else kinds
    model = Model(
        [kinds[k % len(kinds)] for k in range(count)], ["abc"[k % 3] for k in range(count)], []
    )
    rng.shuffle(model.zones)
    total = sum(model.room(node)[0] for node in range(count))
    used = 0
    while used < load * total:
        app = _app(rng, len(model.apps), rules)
        if gpus and rng.random() < 0.35:
            app = replace(app, gpus=rng.choice((1, 1, 2, 4)), replicas=rng.randint(1, 3))
        model.apps.append(app)
        model.counts.append(Counter())
        used += app.cpu * _scattered(model, len(model.apps) - 1, rng)
    return model


def _app(rng: random.Random, number: int, rules: bool) -> App:
    cpu = rng.choice((100, 200, 250, 300, 400, 500, 700, 1000))
    memory = max(64, round(cpu * rng.uniform(1.5, 4.5) / 64) * 64)
    rule = rng.choice((APART, SPREAD, ZONAL, FREE, FREE, FREE)) if rules else FREE
    replicas = rng.randint(1, 6)
    return App(f"app{number}", cpu, memory, replicas, rule, rng.choice("abc"))


def _scattered(model: Model, app: int, rng: random.Random) -> int:
    """Replicas put on random nodes that take them; how many found one."""
    placed = 0
    for _ in range(model.apps[app].replicas):
        open_nodes = [n for n in range(len(model.sizes)) if model.takes(app, n)]
        if open_nodes:
            model.counts[app][rng.choice(open_nodes)] += 1
            placed += 1
    return placed


def objects(model: Model) -> list[dict[str, Any]]:
    """The cluster as `kubectl get nodes,pods,pdb -A -o json` lists it."""
    found = [_node(k, model) for k in range(len(model.sizes))]
    for node in range(len(model.sizes)):
        for name, cpu, memory in DAEMONS:
            daemon = App(name, cpu, memory, 1, FREE)
            found.append(_pod(daemon, f"{name}-{node}", node, "DaemonSet"))
    for app, counts in zip(model.apps, model.counts, strict=True):
        homes = [node for node in sorted(counts) for _ in range(counts[node])]
        for k, node in enumerate(homes):
            found.append(_pod(app, f"{app.name}-{k}", node, "ReplicaSet"))
        if len(homes) > 1:
            found.append(_budget(app.name))
    return found


def _node(k: int, model: Model) -> dict[str, Any]:
    cpu, memory, pods, gpus = model.sizes[k]
    labels = {HOST: f"n{k}", ZONE: model.zones[k]}
    given = {"cpu": f"{cpu}m", "memory": f"{memory}Mi", "pods": str(pods)}
    given |= {GPU: str(gpus)} if gpus else {}
    ready = [{"type": "Ready", "status": "True"}]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"n{k}", "labels": labels},
        "spec": {},
        "status": {"allocatable": given, "conditions": ready},
    }


def _pod(app: App, name: str, node: int, owner: str) -> dict[str, Any]:
    requests = {"cpu": f"{app.cpu}m", "memory": f"{app.memory}Mi"}
    asked = {"requests": requests | ({GPU: str(app.gpus)} if app.gpus else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "shop",
            "labels": {"app": app.name},
            "ownerReferences": [{"kind": owner, "name": app.name, "controller": True}],
        },
        "spec": {
            "nodeName": f"n{node}",
            "containers": [{"name": "main", "resources": asked}],
            **_rule(app),
        },
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _rule(app: App) -> dict[str, Any]:
    selector = {"matchLabels": {"app": app.name}}
    if app.rule == APART:
        terms = [{"labelSelector": selector, "topologyKey": HOST}]
        return {"affinity": {"podAntiAffinity": {REQUIRED: terms}}}
    if app.rule == SPREAD:
        rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
        return {"topologySpreadConstraints": [{**rule, "labelSelector": selector}]}
    return {"nodeSelector": {ZONE: app.zone}} if app.rule == ZONAL else {}


def _budget(name: str) -> dict[str, Any]:
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": name}}}
    meta = {"name": name, "namespace": "shop"}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": meta,
        "spec": spec,
    }


def drained(model: Model) -> tuple[Model, int]:
    """The emptiest node first, emptied if all its pods fit on others in use, until none can be.

    This is what Karpenter and the cluster autoscaler try. The number is that of pods restarted.
    """
    now, moves = model.copy(), 0
    while True:
        nodes = sorted(now.in_use(), key=lambda n: sum(a.cpu * c for a, c in now.on(n)))
        for node in nodes:
            after = _emptied(now, node)
            if after is not None:
                moves += sum(count for _, count in now.on(node))
                now = after
                break
        else:
            return now, moves


def _emptied(model: Model, node: int) -> Model | None:
    """Without one node: the largest pods first, each to the fullest node that takes it."""
    after = model.copy()
    listed = [a for a, counts in enumerate(model.counts) for _ in range(counts[node])]
    others = [n for n in model.in_use() if n != node]
    for app in sorted(listed, key=lambda a: -model.apps[a].cpu):
        after.counts[app][node] -= 1
        fits = [n for n in others if after.takes(app, n)]
        if not fits:
            return None
        after.counts[app][min(fits, key=lambda n: after.room(n)[0])] += 1
    return after


@dataclass(frozen=True)
class Optimum:
    """The best that was found, and what was proved to be impossible to beat."""

    nodes: int
    moves: int
    nodes_bound: int
    moves_bound: int


def optimum(model: Model, seconds: float) -> Optimum:
    """Fewest nodes, then fewest moves, by CP-SAT. Replicas are alike, so only counts are chosen."""
    start, _ = drained(model)
    solved, nodes_bound = _solved(model, start, None, seconds)
    nodes = len(solved.in_use())
    better, moves_bound = _solved(model, solved, nodes, seconds)
    return Optimum(nodes, moved(model, better), nodes_bound, moves_bound)


def moved(before: Model, after: Model) -> int:
    """Pods that are not where they were."""
    pairs = zip(before.counts, after.counts, strict=True)
    return sum(max(old[n] - new[n], 0) for old, new in pairs for n in old)


def _solved(model: Model, hint: Model, most: int | None, seconds: float) -> tuple[Model, int]:
    """With the fewest nodes, or with at most so many of them and the fewest moves."""
    from ortools.sat.python import cp_model

    cp = cp_model.CpModel()
    nodes = range(len(model.sizes))
    used = [cp.new_bool_var(f"used{n}") for n in nodes]
    count = _counts(cp, model, used, hint)
    if most is None:
        cp.minimize(sum(used))
    else:
        cp.add(sum(used) <= most)
        cp.minimize(sum(_gone(cp, model, count)))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 2
    solver.solve(cp)
    after = model.copy()
    after.counts = [Counter({n: solver.value(row[n]) for n in nodes if n in row}) for row in count]
    return after, round(solver.best_objective_bound)


def _counts(cp: Any, model: Model, used: list[Any], hint: Model) -> list[dict[int, Any]]:
    """Replicas by application and node, under capacities and rules."""
    nodes = range(len(model.sizes))
    rows: list[dict[int, Any]] = []
    for a, app in enumerate(model.apps):
        total = sum(model.counts[a].values())
        most = 1 if app.rule == APART else total
        reach = [n for n in nodes if app.rule != ZONAL or model.zones[n] == app.zone]
        row = {n: cp.new_int_var(0, most, f"{app.name} {n}") for n in reach}
        cp.add(sum(row.values()) == total)
        for n in reach:
            cp.add_hint(row[n], hint.counts[a][n])
            cp.add(row[n] <= most * used[n])
        _spread(cp, model, a, row)
        rows.append(row)
    _capacities(cp, model, used, rows)
    return rows


def _spread(cp: Any, model: Model, app: int, row: dict[int, Any]) -> None:
    if model.apps[app].rule != SPREAD:
        return
    sums = [sum(v for n, v in row.items() if model.zones[n] == zone) for zone in set(model.zones)]
    for left in sums:
        for right in sums:
            if left is not right:
                cp.add(left - right <= 1)


def _capacities(cp: Any, model: Model, used: list[Any], rows: list[dict[int, Any]]) -> None:
    empty = Model(model.sizes, model.zones, model.apps, [Counter() for _ in model.apps])
    for n in range(len(model.sizes)):
        there = [(a, row[n]) for a, row in enumerate(rows) if n in row]
        for k, room in enumerate(empty.room(n)):
            cp.add(sum(model.apps[a].amounts[k] * v for a, v in there) <= room * used[n])


def _gone(cp: Any, model: Model, count: list[dict[int, Any]]) -> Iterator[Any]:
    """How many replicas have left each node where some were."""
    for a, row in enumerate(count):
        for n, before in model.counts[a].items():
            if before:
                gone = cp.new_int_var(0, before, f"gone {a} {n}")
                cp.add(gone >= before - row[n])
                yield gone
