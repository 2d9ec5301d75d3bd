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
from murmuration.kubernetes.claims.volumes import Volumes, limit_attached, limits_of
from murmuration.kubernetes.labels import Namespaces
from murmuration.kubernetes.nodes import allocatable, node_entry, taints_of
from murmuration.kubernetes.objects import Object, controller_of, name_of, namespace_of
from murmuration.kubernetes.scheduling.between import Reason
from murmuration.kubernetes.scheduling.expecting import Expectation
from murmuration.kubernetes.scheduling.groups import (
    POD_GROUP,
    WORKLOAD,
    gang_of,
    group_of,
    missing_group,
)
from murmuration.kubernetes.scheduling.local_volumes import (
    Pair,
    VolumePromises,
    nodes_with_all,
    unbound_claims,
)
from murmuration.kubernetes.scheduling.preempting.budgets import BUDGET, BudgetIndex
from murmuration.kubernetes.scheduling.preempting.levels import Levels
from murmuration.kubernetes.scheduling.preempting.search import Lying, Preemption
from murmuration.kubernetes.scheduling.records import ALONE, PodRecord, needs_others, read_pod
from murmuration.kubernetes.scheduling.shared.sharing import LEASE, Sharing
from murmuration.kubernetes.scheduling.table import LiveTable
from murmuration.kubernetes.snapshot import is_alive, make_reader
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
from murmuration.schedulers.pods.messages import NodeCommit

NODE, POD = "Node", "Pod"
CSI_NODE = "CSINode"
#: Kinds that tell of volumes.
VOLUME_KINDS = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")
#: Kinds whose objects are in no namespace.
CLUSTER_WIDE = (NODE, CSI_NODE, "Namespace", "PersistentVolume", "StorageClass", "ResourceSlice")


@dataclass
class LiveCluster:
    """Everything the API told, and the table made of it."""

    scheduler: str = "murmuration"
    records: dict[str, PodRecord] = field(default_factory=dict)
    #: All other objects by kind and name.
    things: dict[str, dict[str, Object]] = field(default_factory=dict)
    #: What a plan awaits, by its step.
    expectations: dict[str, Expectation] = field(default_factory=dict)
    #: The commit points of nodes, where several schedulers share a cluster.
    sharing: Sharing | None = None
    _table: LiveTable | None = None
    #: Pods by the node they lie on or go to, whether there is such a node or not.
    _on: dict[str, dict[str, PodRecord]] = field(default_factory=dict)
    #: Pods that other objects tell more of.
    _reading_others: dict[str, PodRecord] = field(default_factory=dict)
    #: Claims, volumes or classes have changed since those pods were read.
    _volumes_changed: bool = False
    _promised: VolumePromises = field(default_factory=VolumePromises)
    _budgets: BudgetIndex | None = None

    # What happened.

    def replace(self, kind: str, things: Sequence[Object]) -> list[PodFact]:
        """These are all objects of a kind there are."""
        if kind == POD:
            there = {name_of(thing) for thing in things}
            facts = [fact for key in self.records.keys() - there for fact in self._drop(key)]
            return facts + [fact for thing in things for fact in self.see(kind, thing)]
        if kind == LEASE and self.sharing is not None:
            return self.sharing.replace(things, self.records, self._claim)
        self.things[kind] = {_name(kind, thing): thing for thing in things}
        self._change_kind(kind)
        return [*self._members(kind), RoomChanged()]

    def see(self, kind: str, thing: Object) -> list[PodFact]:
        """An object is there, new or changed."""
        if kind == POD:
            return self._see_pod(thing)
        if kind == LEASE and self.sharing is not None:
            return self.sharing.see(thing, self.records, self._claim)
        known = self.things.setdefault(kind, {})
        name = _name(kind, thing)
        before, known[name] = known.get(name), thing
        if before is not None and _matters(kind, before) == _matters(kind, thing):
            return []
        self._change_thing(kind, name)
        return [*self._members(kind, name), RoomChanged()]

    def lose(self, kind: str, thing: Object) -> list[PodFact]:
        """An object is gone."""
        if kind == POD:
            key = name_of(thing)
            return self._drop(key) if key in self.records and self.records[key].is_of(thing) else []
        if kind == LEASE and self.sharing is not None:
            return self.sharing.lose(thing)
        name = _name(kind, thing)
        if self.things.setdefault(kind, {}).pop(name, None) is not None:
            self._change_thing(kind, name)
        return [*self._members(kind, name), RoomChanged()]

    def _members(self, kind: str, name: str | None = None) -> list[PodFact]:
        """The pods of ours that wait and name an object as their group: it decides how many of them
        there must be."""
        if kind not in (WORKLOAD, POD_GROUP):
            return []
        waiting = [(k, r) for k, r in self.records.items() if not r.node and self._is_ours(r)]
        named = [(key, record, group_of(record.thing)) for key, record in waiting]
        return [
            PodWaits(self._info(key, record))
            for key, record, group in named
            if group[0] == kind and name in (None, group[1])
        ]

    def _change_kind(self, kind: str) -> None:
        """Objects of a kind have changed: what must be rebuilt when it is next asked for."""
        if kind == BUDGET:
            self._budgets = None
        elif kind in VOLUME_KINDS:
            self._volumes_changed = True
        elif kind not in (WORKLOAD, POD_GROUP):
            self._table = None

    def _change_thing(self, kind: str, name: str) -> None:
        """One object has changed. A node concerns its own row, as do the limits of its drivers."""
        if kind not in (NODE, CSI_NODE):
            self._change_kind(kind)
        elif self._table is not None and not self._change_row(self._table, name):
            self._table = None

    def _change_row(self, table: LiveTable, name: str) -> bool:
        """A node has come, changed or gone; False if the table has no columns for that."""
        thing, limits = self.things.get(NODE, {}).get(name), self._limits(name)
        if self.things.get("ResourceSlice") or not limits.keys() <= table.reader.volumes.limited:
            return False
        lying = list(self._on.get(name, {}).values())
        for record in lying:
            self._take_off(record)
        if thing is not None:
            node = node_entry(thing)
            limit_attached(node, limits, table.reader.volumes.limited)
            if not table.put_node(thing, node):
                return False
        elif name in table.rows:
            table.delete_node(name)
        for record in lying:
            self._put_on(record)
        return True

    def _limits(self, node: str) -> dict[str, float]:
        return limits_of(self.things.get(CSI_NODE, {}).get(node, {}))

    def _see_pod(self, thing: Object) -> list[PodFact]:
        key, node = name_of(thing), str((thing.get("spec") or {}).get("nodeName") or "")
        record = self.records.get(key)
        facts: list[PodFact] = []
        if record is not None and (not record.is_of(thing) or not is_alive(thing)):
            facts, record = self._drop(key), None
        if not is_alive(thing):
            return facts
        if record is None:
            return facts + self._add(key, thing, node)
        return self._change(key, record, thing, node)

    def _add(self, key: str, thing: Object, node: str) -> list[PodFact]:
        metadata = thing["metadata"]
        uid = str(metadata.get("uid") or key)
        if node and self.sharing is not None:
            self.sharing.settle(uid)
        record = PodRecord(
            uid,
            thing,
            self._read(thing),
            node,
            leaving=bool(metadata.get("deletionTimestamp")),
            claimed=frozenset() if self.sharing is None else self.sharing.know(uid),
        )
        self.records[key] = record
        if needs_others(thing):
            self._reading_others[key] = record
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
            and not record.claimed
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
        if node and self.sharing is not None:
            self.sharing.settle(record.uid)
            record.claimed = frozenset()
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
        if self.sharing is not None:
            self.sharing.settle(self.records[key].uid)
        self._uncount(self.records.pop(key))
        self._reading_others.pop(key, None)
        self._volumes_changed |= self._promised.end(key)
        return [gone, RoomChanged()]

    def _gone(self, key: str) -> PodGone:
        return PodGone(key, self.records[key].uid)

    def _is_ours(self, record: PodRecord) -> bool:
        spec = record.thing.get("spec") or {}
        return spec.get("schedulerName") == self.scheduler and not record.leaving

    def _gang(self, record: PodRecord) -> tuple[str, int]:
        return gang_of(record.thing, self.things)

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
        if record.planned or record.claimed or not table.is_simple(record.task):
            return None
        if self._waiting_claims(record):
            return None
        penalty = table.penalty(record.task)
        # Pods that like the same nodes are decided on together; the array is shared by them.
        likes = 0 if penalty is None else id(penalty)
        return record.task.wants, table.request(record.task).tobytes(), likes

    def blocked(self, key: str) -> str:
        """Why a pod goes nowhere, whatever room there is; empty if it may."""
        record = self.records[key]
        return record.task.pinned or missing_group(record.thing, self.things)

    def request(self, key: str) -> Amounts:
        return self.table.request(self.records[key].task)

    def view(self, key: str, now: float) -> View:
        record, table = self.records[key], self.table
        if record.claimed:
            # What others claim for this very pod does not stand in its way.
            self._take_off(record)
        view = table.view(record.task, now)
        if record.claimed:
            self._put_on(record)
        if self._waiting_claims(record) > 1:
            allowed = nodes_with_all(table.reader, record.thing, view.allowed)
            view = replace(view, allowed=allowed)
        if record.planned:
            view = replace(view, allowed=view.allowed & self._only(record.planned))
        if self.sharing is not None and (closed := self.sharing.closed()):
            view = replace(view, allowed=view.allowed & ~self.mask(closed))
        return view

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
        if self.sharing is not None:
            rules.append(("another scheduler is at work on it", ~self.mask(self.sharing.closed())))
        return [*(planned if record.planned else ()), *rules]

    def _only(self, node: str) -> Flags:
        return self.mask([node])

    def mask(self, nodes: Collection[str]) -> Flags:
        """The rows of these nodes."""
        rows = self.table.rows
        mask = np.zeros(len(rows), dtype=np.bool_)
        mask[[rows[node] for node in nodes if node in rows]] = True
        return mask

    def assume(self, key: str, node: str) -> None:
        """A pod goes to a node; it counts there from now on."""
        record = self.records[key]
        assert not record.node, f"{key} lies on {record.node} already"
        self._uncount(record)
        record.node, record.assumed = node, True
        self._count(record)
        table = self.table
        if key in self._reading_others and node in table.rows:
            promised = self._promised.make(key, table.reader, record.thing, table.rows[node])
            self._volumes_changed |= promised

    def forget(self, key: str) -> None:
        """It does not go there after all."""
        record = self.records.get(key)
        if record is not None and record.assumed:
            self._uncount(record)
            record.node, record.assumed = "", False
            self._count(record)
            self._volumes_changed |= self._promised.end(key)

    def replicas(self, services: Collection[str]) -> list[tuple[str, str]]:
        """The pods of these jobs that have a node: the job and the node of each."""
        return [
            (record.task.service, record.node)
            for record in self.records.values()
            if record.node and record.task.service in services
        ]

    def claims_to_bind(self, key: str) -> list[Pair]:
        """The claims of a pod that wait for it to get a node, which it has now, each with the
        volume it gets; empty for one that its class makes."""
        return self._promised.of.get(key, [])

    def _waiting_claims(self, record: PodRecord) -> int:
        """How many claims of a pod wait for it to get a node."""
        if not needs_others(record.thing):
            return 0
        return len(unbound_claims(self.table.reader.volumes, record.thing))

    def victims(self, key: str, taken: Collection[str]) -> Victims | None:
        """Whom a pod may drive out, and from where, but for nodes that are taken; None if that
        would not help."""
        if self._budgets is None:
            kinds = self._kinds()
            self._budgets = BudgetIndex(kinds, lambda: [r.task for r in self.records.values()])
        table = self.table
        if table.levels is None:
            table.levels = self._make_levels(table)
        task, allowed = self.records[key].task, self._budgets.allowed
        rows = self.mask(taken)
        return Preemption(table, table.levels, task, rows, self._lying, allowed).find()

    def _make_levels(self, table: LiveTable) -> Levels:
        levels = Levels(len(table.names), len(table.resources))
        for record in self.records.values():
            for node in record.counted if not record.leaving else ():
                request = table.request(record.task)
                levels.place(record.task.priority, table.rows[node], request, 1)
        return levels

    def _lying(self, row: int) -> list[Lying]:
        """The pods on a row. One that is only on its way to it cannot be evicted from it."""
        assert self._budgets is not None
        node = self.table.names[row]
        return [
            Lying(key, record.uid, record.task, self._budgets.of(record.task))
            for key, record in self._on[node].items()
            if record.node == node and not record.assumed and not record.leaving
        ]

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

    # Other schedulers.

    def _claim(self, key: str, nodes: frozenset[str]) -> None:
        """Others are about to bind a pod to these nodes, and to no others."""
        record = self.records[key]
        self._uncount(record)
        record.claimed = nodes
        self._count(record)

    def commit(self, node: str) -> NodeCommit | None:
        """What a binding to a node rests on; None if nobody else binds anything."""
        return None if self.sharing is None else self.sharing.commit(node, self.records)

    def on_conflict(self, node: str, version: str) -> None:
        """A binding to a node was decided on a version of its ledger that is out of date."""
        if self.sharing is not None:
            self.sharing.on_conflict(node, version)

    def unknown_pods(self) -> Sequence[tuple[str, str]]:
        """Pods that others claim and that were never seen: names and identities."""
        return [] if self.sharing is None else self.sharing.unknown_pods()

    def never(self, uid: str) -> list[PodFact]:
        """There is no such pod, and will be none."""
        if self.sharing is not None:
            self.sharing.know(uid)
            self.sharing.settle(uid)
        return [RoomChanged()]

    # The table.

    @property
    def table(self) -> LiveTable:
        if self._table is not None and self._volumes_changed:
            self._read_volumes(self._table)
        if self._table is None:
            self._build()
        assert self._table is not None
        return self._table

    def _read_volumes(self, table: LiveTable) -> None:
        """Read the pods that have volumes again."""
        self._volumes_changed = False
        for record in self._reading_others.values():
            self._take_off(record)
        limited = sorted(table.reader.volumes.limited)
        table.put_volumes(Volumes(self._kinds(), limited, self._promised.volumes()))
        for record in self._reading_others.values():
            record.task = self._read(record.thing)
            if not table.knows(record.task.amounts):
                self._table = None
                return
        for record in self._reading_others.values():
            self._put_on(record)

    def _kinds(self) -> dict[str, list[Object]]:
        return {kind: list(things.values()) for kind, things in self.things.items()}

    def _read(self, pod: Object) -> TaskEntry:
        """A pod as a task. Most are read without a look at other objects, so that a table that is
        out of date is not rebuilt for each of them."""
        return read_pod(self.table.reader if needs_others(pod) else ALONE, pod)

    def _build(self) -> None:
        # Promised volumes are read after that.
        self._volumes_changed = bool(self._promised.of)
        kinds = self._kinds()
        reader = make_reader({**kinds, NODE: kinds.get(NODE, [])})
        for record in self._reading_others.values():
            record.task = read_pod(reader, record.thing)
        tasks = [record.task for record in self.records.values()]
        spaces = {namespace_of(record.thing) for record in self.records.values()}
        self._table = LiveTable(reader, Namespaces(kinds.get("Namespace", ()), spaces), tasks)
        for record in self.records.values():
            record.counted = ()
            self._put_on(record)

    def _count(self, record: PodRecord) -> None:
        record.places = record.where()
        for node in record.places:
            self._on.setdefault(node, {})[record.task.name] = record
        self._put_on(record)

    def _uncount(self, record: PodRecord) -> None:
        self._take_off(record)
        for node in record.places:
            lying = self._on[node]
            del lying[record.task.name]
            if not lying:
                del self._on[node]
        record.places = ()

    def _put_on(self, record: PodRecord) -> None:
        """Let the table count a pod on its nodes, as far as there are such nodes."""
        table = self._table
        if table is None or record.counted:
            return
        record.counted = tuple(node for node in record.places if node in table.rows)
        for node in record.counted:
            table.place(record.task, table.rows[node], 1, record.leaving)

    def _take_off(self, record: PodRecord) -> None:
        if self._table is not None:
            for node in record.counted:
                self._table.place(record.task, self._table.rows[node], -1, record.leaving)
        record.counted = ()


def _name(kind: str, thing: Object) -> str:
    return str(thing["metadata"]["name"]) if kind in CLUSTER_WIDE else name_of(thing)


def _matters(kind: str, thing: Object) -> object:
    """What of an object decides where pods may go; a node's heartbeat does not."""
    if kind != NODE:
        return {k: v for k, v in thing.items() if k != "metadata"}, _marks(thing)
    return _marks(thing), taints_of(thing), allocatable(thing)


def _marks(thing: Object) -> Mapping[str, object]:
    metadata = thing["metadata"]
    return {key: metadata.get(key) for key in ("labels", "annotations")}
