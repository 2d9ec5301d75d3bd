"""The cluster as a scheduler keeps it: what the API told, and what was decided since.

A pod that was given a node counts there from that moment (*assumed*), long before the API shows it;
what the API shows later confirms it, or takes its place.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from murmuration.assignment.snapshots.builder import TaskEntry
from murmuration.base.arrays import Amounts, Flags, Floats
from murmuration.base.errors import InputError
from murmuration.kubernetes.labels import Namespaces
from murmuration.kubernetes.making import is_made_by
from murmuration.kubernetes.nodes import allocatable, taints_of
from murmuration.kubernetes.objects import Object, controller_of, name_of, namespace_of
from murmuration.kubernetes.scheduling.between import Reason
from murmuration.kubernetes.scheduling.held import unbound_claims
from murmuration.kubernetes.scheduling.preemption import Lying, budgets_of_pods, find_victims
from murmuration.kubernetes.scheduling.table import LiveTable
from murmuration.kubernetes.snapshot import is_alive, make_reader
from murmuration.kubernetes.volumes import DISKS
from murmuration.placement.view import View
from murmuration.schedulers.pods.cluster import (
    PodFact,
    PodGone,
    PodInfo,
    PodLies,
    PodWaits,
    RoomChanged,
    Victims,
)

#: How pods say that they belong together, ours first; and how many there are of them.
GANGS = (
    ("murmuration/gang", "murmuration/gang-size"),
    ("pod-group.scheduling.sigs.k8s.io/name", "pod-group.scheduling.sigs.k8s.io/min-available"),
    ("pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/min-available"),
)
NODE, POD, WORKLOAD = "Node", "Pod", "Workload"
#: Kinds whose objects are told apart by their namespace too.
NAMESPACED = ("PersistentVolumeClaim", WORKLOAD)


#: Reads pods that have nothing to do with other objects.
ALONE = make_reader({NODE: []})
#: Volumes that other objects tell more of.
ELSEWHERE = {"persistentVolumeClaim", "ephemeral", *DISKS}


@dataclass
class PodRecord:
    """A pod that is alive."""

    uid: str
    thing: Object
    task: TaskEntry
    #: Where it lies or is going to; empty while nobody has said.
    node: str = ""
    #: Given a node by us, and not yet seen there.
    assumed: bool = False
    leaving: bool = False
    #: The row it is counted on, −1 for none.
    row: int = -1
    #: The only node it may go to, if a plan says so.
    planned: str = ""


@dataclass
class Expectation:
    """A pod that is to go to a node when it comes: one of this name, the next of an owner, or the
    next that something makes which was not there yet when it was planned."""

    node: str
    owner: str = ""
    named: str = ""
    maker: str = ""
    #: Who has come.
    pod: str = ""

    def means(self, key: str, pod: Object) -> bool:
        if self.named == key or (self.maker and is_made_by(pod, self.maker)):
            return True
        owner = controller_of(pod)
        return bool(self.owner) and owner is not None and str(owner.get("uid")) == self.owner


@dataclass
class LiveCluster:
    """Everything the API told, and the table made of it."""

    scheduler: str = "murmuration"
    records: dict[str, PodRecord] = field(default_factory=dict)
    #: All other objects by kind and name.
    things: dict[str, dict[str, Object]] = field(default_factory=dict)
    #: What a plan awaits, by its step.
    expectations: dict[str, Expectation] = field(default_factory=dict)
    _table: LiveTable | None = None

    # What happened.

    def replace(self, kind: str, things: Sequence[Object]) -> list[PodFact]:
        """These are all objects of a kind there are."""
        if kind == POD:
            there = {name_of(thing) for thing in things}
            facts = [fact for key in self.records.keys() - there for fact in self._drop(key)]
            return facts + [fact for thing in things for fact in self.see(kind, thing)]
        self.things[kind] = {_name(kind, thing): thing for thing in things}
        self._table = None
        return [RoomChanged()]

    def see(self, kind: str, thing: Object) -> list[PodFact]:
        """An object is there, new or changed."""
        if kind == POD:
            return self._see_pod(thing)
        known = self.things.setdefault(kind, {})
        name = _name(kind, thing)
        before, known[name] = known.get(name), thing
        if before is not None and _matters(kind, before) == _matters(kind, thing):
            return []
        self._table = None
        return [RoomChanged()]

    def lose(self, kind: str, thing: Object) -> list[PodFact]:
        """An object is gone."""
        if kind == POD:
            key = name_of(thing)
            return self._drop(key) if _is_same(self.records.get(key), thing) else []
        self.things.setdefault(kind, {}).pop(_name(kind, thing), None)
        self._table = None
        return [RoomChanged()]

    def _see_pod(self, thing: Object) -> list[PodFact]:
        key, node = name_of(thing), str((thing.get("spec") or {}).get("nodeName") or "")
        record = self.records.get(key)
        facts: list[PodFact] = []
        if record is not None and (not _is_same(record, thing) or not is_alive(thing)):
            facts, record = self._drop(key), None
        if not is_alive(thing):
            return facts
        if record is None:
            return facts + self._add(key, thing, node)
        return self._change(key, record, thing, node)

    def _add(self, key: str, thing: Object, node: str) -> list[PodFact]:
        metadata = thing["metadata"]
        record = PodRecord(
            str(metadata.get("uid") or key),
            thing,
            self._read(thing),
            node,
            leaving=bool(metadata.get("deletionTimestamp")),
        )
        self.records[key] = record
        if self._table is not None and not self._table.knows(record.task.amounts):
            self._table = None
        self._count(record)
        if node:
            return [self._lies(key, record)]
        self._meet_expectations(key, record)
        return [PodWaits(self._info(key, record))] if self._is_ours(record) else []

    def _change(self, key: str, record: PodRecord, thing: Object, node: str) -> list[PodFact]:
        leaving = bool(thing["metadata"].get("deletionTimestamp"))
        # What we decided is newer than what is shown, unless it shows another node.
        lies = node or (record.node if record.assumed else "")
        same = (
            lies == record.node
            and leaving == record.leaving
            and thing["metadata"].get("labels") == record.thing["metadata"].get("labels")
            and (thing.get("spec") or {}).get("containers")
            == (record.thing.get("spec") or {}).get("containers")
            and (bool(node) or thing.get("spec") == record.thing.get("spec"))
        )
        if same:
            record.thing, record.assumed = thing, record.assumed and not node
            return [self._lies(key, record)] if node else []
        self._uncount(record)
        record.thing, record.leaving, record.node = thing, leaving, lies
        record.task = self._read(thing)
        record.assumed = record.assumed and not node
        if self._table is not None and not self._table.knows(record.task.amounts):
            self._table = None
        self._count(record)
        if lies:
            return [self._lies(key, record), RoomChanged()] if node else []
        return [PodWaits(self._info(key, record))] if self._is_ours(record) else [self._gone(key)]

    def _drop(self, key: str) -> list[PodFact]:
        gone = self._gone(key)
        self._uncount(self.records.pop(key))
        return [gone, RoomChanged()]

    def _gone(self, key: str) -> PodGone:
        return PodGone(key, self.records[key].uid)

    def _is_ours(self, record: PodRecord) -> bool:
        spec = record.thing.get("spec") or {}
        return spec.get("schedulerName") == self.scheduler and not record.leaving

    def _gang(self, record: PodRecord) -> tuple[str, int]:
        return gang_of(record.thing, self.things.get(WORKLOAD, {}))

    def _lies(self, key: str, record: PodRecord) -> PodLies:
        return PodLies(key, record.uid, record.node, self._gang(record)[0])

    def _info(self, key: str, record: PodRecord) -> PodInfo:
        metadata = record.thing["metadata"]
        gang, size = self._gang(record)
        kind = (controller_of(record.thing) or {}).get("kind")
        return PodInfo(
            key=key,
            uid=record.uid,
            priority=record.task.priority,
            created=str(metadata.get("creationTimestamp") or ""),
            gang=gang,
            gang_size=size,
            production=kind != "Job",
            service=record.task.service if kind else f"{namespace_of(record.thing)}/",
        )

    # Deciding.

    def shape(self, key: str) -> Hashable | None:
        """What pods that can be decided on together have in common; None for one that is decided on
        alone."""
        record, table = self.records[key], self.table
        if record.planned or not table.is_simple(record.task):
            return None
        penalty = table.penalty(record.task)
        # Pods that like the same nodes are decided on together; the array is shared by them.
        likes = 0 if penalty is None else id(penalty)
        return record.task.wants, table.request(record.task).tobytes(), likes

    def blocked(self, key: str) -> str:
        """Why a pod goes nowhere, whatever room there is; empty if it may."""
        return self.records[key].task.pinned

    def request(self, key: str) -> Amounts:
        return self.table.request(self.records[key].task)

    def view(self, key: str, now: float) -> View:
        record = self.records[key]
        view = self.table.view(record.task, now)
        if not record.planned:
            return view
        return replace(view, allowed=view.allowed & self._only(record.planned))

    def penalty(self, key: str) -> Floats | None:
        """What a pod pays on each node for what it would rather have; None if all are alike."""
        record = self.records[key]
        return None if record.planned else self.table.penalty(record.task)

    def reasons(self, key: str) -> list[Reason]:
        """What rules nodes out for a pod, room aside, with the nodes each reason leaves."""
        record = self.records[key]
        planned = [("a plan sends it elsewhere", self._only(record.planned))]
        task = record.task
        rules = [*self.table.lasting_reasons(task), *self.table.changing_reasons(task)]
        return [*(planned if record.planned else ()), *rules]

    def _only(self, node: str) -> Flags:
        return np.array([name == node for name in self.table.names], dtype=np.bool_)

    def assume(self, key: str, node: str) -> None:
        """A pod goes to a node; it counts there from now on."""
        record = self.records[key]
        assert not record.node, f"{key} lies on {record.node} already"
        record.node, record.assumed = node, True
        self._count(record)

    def forget(self, key: str) -> None:
        """It does not go there after all."""
        record = self.records.get(key)
        if record is not None and record.assumed:
            self._uncount(record)
            record.node, record.assumed = "", False

    def claims_to_bind(self, key: str) -> list[str]:
        """The claims of a pod that wait for it to get a node."""
        thing = self.records[key].thing
        if not (thing.get("spec") or {}).get("volumes"):
            return []
        return unbound_claims(self.table.reader.volumes, thing)

    def victims(self, key: str, taken: Collection[str]) -> Victims | None:
        """Whom a pod may drive out, and from where, but for nodes that are taken; None if that
        would not help."""
        kinds = {kind: list(things.values()) for kind, things in self.things.items()}
        known = list(self.records.items())
        budgets, allowed = budgets_of_pods(kinds, [record.task for _, record in known])
        lying = [
            Lying(name, record.uid, record.task, record.row, record.leaving, budget)
            for (name, record), budget in zip(known, budgets, strict=True)
            # Who is only on its way to a node cannot be evicted from it.
            if record.row >= 0 and not record.assumed and record.node not in taken
        ]
        return find_victims(self.table, self.records[key].task, lying, allowed)

    # Plans.

    def expect(self, step: str, node: str, owner: str = "", pod: str = "", maker: str = "") -> None:
        """This pod, or the next of an owner or maker, goes to a node and to no other."""
        expectation = Expectation(node, owner, pod, maker)
        self.expectations[step] = expectation
        for key, record in self.records.items():
            if not record.node:
                self._meet(expectation, key, record)

    def expected_pod(self, step: str) -> str:
        """The pod that has come for a step; empty while none has."""
        expectation = self.expectations.get(step)
        return "" if expectation is None else expectation.pod

    def is_waiting(self, key: str) -> bool:
        """Whether a pod of ours waits for a node and could get one."""
        record = self.records[key]
        return self._is_ours(record) and not record.node and not record.task.pinned

    def stop_expecting(self, step: str) -> None:
        """Whoever comes, or has come, for a step may go anywhere."""
        expectation = self.expectations.pop(step, None)
        if expectation is not None and expectation.pod in self.records:
            self.records[expectation.pod].planned = ""

    def why_not(self, key: str, node: str) -> str:
        """Why a node would not take a pod if that lay nowhere; empty if it would."""
        record = self.records[key]
        if node not in self.table.rows:
            return "there is no such node"
        self._uncount(record)
        row, view = self.table.rows[node], self.table.view(record.task, 0.0)
        wants = self._as_waiting(record)
        reasons = [*self.table.lasting_reasons(wants), *self.table.changing_reasons(wants)]
        refused = [reason for reason, open_rows in reasons if not open_rows[row]]
        short = view.free[row] < self.table.request(record.task)
        names = [
            name for name, is_short in zip(view.resources.names, short, strict=True) if is_short
        ]
        self._count(record)
        return ", ".join([*refused, *(f"too little {name} free" for name in names)])

    def pretend(self, key: str, node: str) -> None:
        """Count a pod on a node as if it had moved there."""
        record = self.records[key]
        self._uncount(record)
        record.node = node
        self._count(record)

    def _as_waiting(self, record: PodRecord) -> TaskEntry:
        """A pod as its successor will be read: without a node."""
        spec = {k: v for k, v in (record.thing.get("spec") or {}).items() if k != "nodeName"}
        return self._read({**record.thing, "spec": spec})

    def _meet_expectations(self, key: str, record: PodRecord) -> None:
        for expectation in self.expectations.values():
            self._meet(expectation, key, record)

    def _meet(self, expectation: Expectation, key: str, record: PodRecord) -> None:
        if not expectation.pod and not record.planned and expectation.means(key, record.thing):
            expectation.pod, record.planned = key, expectation.node

    # The table.

    @property
    def table(self) -> LiveTable:
        if self._table is None:
            self._build()
        assert self._table is not None
        return self._table

    def _read(self, pod: Object) -> TaskEntry:
        """A pod as a task. Most are read without a look at other objects, so that a table that is
        out of date is not made anew for each of them."""
        try:
            return (self.table.reader if _needs_others(pod) else ALONE).task(pod)
        except InputError as error:
            # One odd pod must not keep the others from being scheduled.
            amounts = {"cpu": 0.0, "memory": 0.0, "pods": 1.0}
            return TaskEntry(
                name_of(pod), amounts, "", wants="pinned", pinned=str(error), source=pod
            )

    def _build(self) -> None:
        kinds = {kind: list(things.values()) for kind, things in self.things.items()}
        reader = make_reader({**kinds, NODE: kinds.get(NODE, [])})
        for record in self.records.values():
            if _needs_others(record.thing):
                record.task = reader.task(record.thing)
        tasks = [record.task for record in self.records.values()]
        spaces = {namespace_of(record.thing) for record in self.records.values()}
        self._table = LiveTable(reader, Namespaces(kinds.get("Namespace", ()), spaces), tasks)
        for record in self.records.values():
            record.row = -1
            self._count(record)

    def _count(self, record: PodRecord) -> None:
        if self._table is not None and record.node in self._table.rows:
            record.row = self._table.rows[record.node]
            self._table.place(record.task, record.row, 1, record.leaving)

    def _uncount(self, record: PodRecord) -> None:
        if self._table is not None and record.row >= 0:
            self._table.place(record.task, record.row, -1, record.leaving)
        record.row = -1


def _needs_others(pod: Object) -> bool:
    spec = pod.get("spec") or {}
    claims = any(ELSEWHERE & volume.keys() for volume in spec.get("volumes") or ())
    return claims or bool(spec.get("resourceClaims"))


def gang_of(pod: Object, workloads: Mapping[str, Object]) -> tuple[str, int]:
    """The gang a pod belongs to, with its namespace, and how many pods that needs: by its labels,
    or as the workload it refers to says."""
    metadata = pod["metadata"]
    reference = (pod.get("spec") or {}).get("workloadRef") or {}
    workload = workloads.get(f"{namespace_of(pod)}/{reference.get('name')}")
    if workload is not None:
        for group in (workload.get("spec") or {}).get("podGroups") or ():
            count = ((group.get("policy") or {}).get("gang") or {}).get("minCount")
            if group.get("name") == reference.get("podGroup") and isinstance(count, int):
                parts = (reference["name"], group["name"], reference.get("podGroupReplicaKey"))
                return f"{namespace_of(pod)}/" + ".".join(str(p) for p in parts if p), count
    marks = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    for name, size in GANGS:
        if name in marks:
            told = str(marks.get(size, ""))
            return f"{namespace_of(pod)}/{marks[name]}", int(told) if told.isdigit() else 1
    return "", 1


def _name(kind: str, thing: Object) -> str:
    return name_of(thing) if kind in NAMESPACED else str(thing["metadata"]["name"])


def _is_same(record: PodRecord | None, thing: Object) -> bool:
    return record is not None and record.uid == str(thing["metadata"].get("uid") or name_of(thing))


def _matters(kind: str, thing: Object) -> object:
    """What of an object decides where pods may go; a node's heartbeat does not."""
    if kind != NODE:
        return {k: v for k, v in thing.items() if k != "metadata"}, _marks(thing)
    return _marks(thing), taints_of(thing), allocatable(thing)


def _marks(thing: Object) -> Mapping[str, object]:
    metadata = thing["metadata"]
    return {key: metadata.get(key) for key in ("labels", "annotations")}
