"""What a scheduler knows of those it shares a cluster with: their leases, and their claims on
nodes (`ledgers.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from murmuration.kubernetes.objects import Object
from murmuration.kubernetes.scheduling.records import PodRecord
from murmuration.kubernetes.scheduling.shared.ledgers import (
    NODE_MARK,
    NodeClaim,
    NodeLedger,
    member_of,
    read_claims,
)
from murmuration.schedulers.pods.cluster import PodFact, RoomChanged, SchedulerGone, SchedulerSeen
from murmuration.schedulers.pods.messages import NodeCommit

LEASE = "Lease"
Records = Mapping[str, PodRecord]
#: Count a pod on these nodes, to which others are about to bind it.
Count = Callable[[str, frozenset[str]], None]


@dataclass
class Sharing:
    """The other schedulers of a cluster."""

    #: Who we are: our own claims are counted as what we decided, not as claims.
    me: str
    ledgers: dict[str, NodeLedger] = field(default_factory=dict)
    _members: set[str] = field(default_factory=set)
    #: Nodes on which others claim a pod, by its identity, until it is seen bound or gone.
    _foreign: dict[str, set[str]] = field(default_factory=dict)
    #: Nodes where we met a conflict: closed until another version of the ledger is seen.
    _conflicts: set[str] = field(default_factory=set)
    #: Claims on pods that were never seen, by node: closed until they are.
    _unknown: dict[str, set[NodeClaim]] = field(default_factory=dict)

    # What the API shows.

    def replace(self, leases: Sequence[Object], records: Records, count: Count) -> list[PodFact]:
        """These are all leases there are."""
        there = {member_of(lease) for lease in leases}
        gone = [SchedulerGone(name) for name in self._members - there]
        self._members &= there
        self.ledgers.clear()
        self._unknown.clear()
        return [*gone, *(fact for each in leases for fact in self.see(each, records, count))]

    def see(self, lease: Object, records: Records, count: Count) -> list[PodFact]:
        """A lease is there, new or changed."""
        if member := member_of(lease):
            self._members.add(member)
            return [SchedulerSeen(member)]
        metadata = lease["metadata"]
        marks = metadata.get("annotations") or {}
        node = str(marks.get(NODE_MARK) or "")
        if not node:
            return []
        claims = read_claims(marks)
        self.ledgers[node] = NodeLedger(str(metadata.get("resourceVersion") or ""), claims)
        self._conflicts.discard(node)
        self._unknown.pop(node, None)
        for claim in claims:
            if claim.by != self.me:
                self._see_claim(node, claim, records, count)
        return [RoomChanged()]

    def _see_claim(self, node: str, claim: NodeClaim, records: Records, count: Count) -> None:
        record = records.get(claim.pod)
        known = record is not None and record.uid == claim.uid
        if known and record is not None and record.is_bound():
            return
        self._foreign.setdefault(claim.uid, set()).add(node)
        if known:
            count(claim.pod, frozenset(self._foreign[claim.uid]))
        else:
            self._unknown.setdefault(node, set()).add(claim)

    def lose(self, lease: Object) -> list[PodFact]:
        """A lease is gone. Claims of a ledger that is gone are still counted."""
        if member := member_of(lease):
            self._members.discard(member)
            return [SchedulerGone(member)]
        node = str((lease["metadata"].get("annotations") or {}).get(NODE_MARK) or "")
        self.ledgers.pop(node, None)
        self._conflicts.discard(node)
        return [RoomChanged()]

    # Pods.

    def know(self, uid: str) -> frozenset[str]:
        """A pod is seen, or known never to be seen: the nodes on which others claim it."""
        for node, claims in list(self._unknown.items()):
            claims.difference_update([claim for claim in claims if claim.uid == uid])
            if not claims:
                del self._unknown[node]
        return frozenset(self._foreign.get(uid, ()))

    def settle(self, uid: str) -> None:
        """A pod was seen bound, or is gone: nobody's claim on it counts any more."""
        self._foreign.pop(uid, None)

    def unknown_pods(self) -> list[tuple[str, str]]:
        """Pods that others claim and that were never seen: names and identities."""
        return [(claim.pod, claim.uid) for claims in self._unknown.values() for claim in claims]

    # Binding.

    def closed(self) -> set[str]:
        """The nodes of which we do not know enough to bind anything there."""
        return {*self._conflicts, *self._unknown}

    def on_conflict(self, node: str, version: str) -> None:
        """A write on this version was refused. If another was seen meanwhile, that is why."""
        if self.ledgers.get(node, NodeLedger()).version == version:
            self._conflicts.add(node)

    def commit(self, node: str, records: Records) -> NodeCommit:
        """What a write of a node's ledger rests on, with the claims that must stay in it."""
        ledger = self.ledgers.get(node, NodeLedger())
        keep = [claim for claim in ledger.claims if self._is_open(claim, records)]
        return NodeCommit(ledger.version, tuple((c.pod, c.uid, c.by) for c in keep))

    def _is_open(self, claim: NodeClaim, records: Records) -> bool:
        """Whether nobody has shown us yet what became of a claim."""
        record = records.get(claim.pod)
        if record is None or record.uid != claim.uid:
            return claim.uid in self._foreign
        return not record.is_bound()
