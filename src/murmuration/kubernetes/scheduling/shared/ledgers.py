"""The commit point of a node: a Lease that lists the pods schedulers are about to bind there.

A binding is a write to the pod; nothing on the way asks whether the node has room. So before a
scheduler binds, it writes the pod into the node's *ledger*, on condition that the ledger still has
the version it decided on. Whoever decided on an older one is refused: that is a conflict.

Why no node is overbooked: a write succeeds only if the scheduler has seen every earlier claim on
the node. It counts a claim until its own watch shows the pod bound or gone, whatever becomes of the
ledger meanwhile, and a claim is only removed by somebody who has seen that. A watch shows every
version of a ledger in order; after a list of ledgers, which skips versions, pods are listed again
before anything of it is believed (`serving.py`). A claim of a pod that was not seen yet closes the
node until the pod is seen, or the API says that there is no such pod.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from murmuration.kubernetes.objects import Object

#: Labels and annotations of the leases that schedulers which share a cluster write.
SCHEDULER, ROLE = "murmuration/scheduler", "murmuration/role"
NODE_MARK, CLAIMS_MARK = "murmuration/node", "murmuration/claims"
LEDGER, MEMBER = "ledger", "member"


class NodeClaim(msgspec.Struct, frozen=True, array_like=True):
    """A pod that a scheduler is about to bind to a node."""

    pod: str
    uid: str
    by: str


_decode = msgspec.json.Decoder(tuple[NodeClaim, ...]).decode


def read_claims(marks: Object) -> tuple[NodeClaim, ...]:
    """The claims in the annotations of a ledger; none if somebody else wrote it."""
    try:
        return _decode(str(marks.get(CLAIMS_MARK) or "[]"))
    except (msgspec.ValidationError, msgspec.DecodeError):
        return ()


@dataclass(frozen=True)
class NodeLedger:
    """The ledger of a node as it was last seen."""

    version: str = ""
    claims: tuple[NodeClaim, ...] = ()


def ledger_name(scheduler: str, node: str) -> str:
    return f"{scheduler}.node.{node}"


def ledger_thing(scheduler: str, node: str, by: str, claims: tuple[NodeClaim, ...]) -> Object:
    """A ledger as the API wants it."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": ledger_name(scheduler, node),
            "labels": {SCHEDULER: scheduler, ROLE: LEDGER},
            "annotations": {
                NODE_MARK: node,
                CLAIMS_MARK: msgspec.json.encode(claims).decode(),
            },
        },
        "spec": {"holderIdentity": by},
    }


def member_of(lease: Object) -> str:
    """The scheduler whose lease this is; empty for a lease of another kind."""
    labels = lease["metadata"].get("labels") or {}
    if labels.get(ROLE) != MEMBER:
        return ""
    return str((lease.get("spec") or {}).get("holderIdentity") or "")
