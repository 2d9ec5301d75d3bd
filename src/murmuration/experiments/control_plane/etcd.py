"""An etcd in virtual time: the calls of `runtime/net/etcd_client.py` with the answers that etcd
gives, so that the store and the election that ship can be run through fault schedules.

It is written from etcd's own rules and shares nothing with the client but the form of requests.
Keys lie in one ordered map; a transaction compares, then carries out all or nothing; a key with a
lease goes when the lease ends. What goes wrong:

- **A client is cut off**, or **the majority is lost**: every call fails. Leases of clients that
  cannot renew them end in the first case. In the second nothing changes, and a new leader of etcd
  gives every lease its whole time again.
- **An answer is lost**: the call fails, and was carried out all the same.

`witness` is told of every put of a key, with the name of the client and before anybody else knows.
"""

from __future__ import annotations

import base64
from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from murmuration.runtime.net.etcd_client import EtcdClient, EtcdError, Fields, KeyValue, Operation

Answer = TypeVar("Answer")
Witness = Callable[[str, str, bytes], None]


@dataclass
class Grant:
    """A lease."""

    lasts_s: float
    ends_s: float
    keys: set[str] = field(default_factory=set)


class VirtualEtcd:
    """The state that a majority agrees on. `now` is asked for the time."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._values: dict[str, KeyValue] = {}
        self._keys: list[str] = []
        self._leases: dict[int, Grant] = {}
        self._revision = self._granted = 0
        self._has_majority = True
        self.witness: Witness = lambda client, key, value: None

    # What goes wrong.

    def lose_majority(self) -> None:
        self._end_leases()
        self._has_majority = False

    def regain_majority(self) -> None:
        if not self._has_majority:
            self._has_majority = True
            for lease in self._leases.values():
                lease.ends_s = self._now() + lease.lasts_s

    @property
    def has_majority(self) -> bool:
        return self._has_majority

    # What clients call.

    def read(self, key: str) -> KeyValue | None:
        self._end_leases()
        return self._values.get(key)

    def range(self, first: str, end: str, limit: int, newest: bool) -> list[KeyValue]:
        self._end_leases()
        if not end:
            return [self._values[first]] if first in self._values else []
        low, high = bisect_left(self._keys, first), bisect_left(self._keys, end)
        keys = self._keys[low:high][:: -1 if newest else 1]
        return [self._values[key] for key in (keys[:limit] if limit else keys)]

    def transact(
        self, client: str, conditions: Sequence[Fields], operations: Sequence[Fields]
    ) -> bool:
        self._end_leases()
        if not all(self._holds(each) for each in conditions):
            return False
        for operation in operations:
            self._check(operation)
        self._revision += 1
        for operation in operations:
            if "requestPut" in operation:
                self._put(client, operation["requestPut"])
            else:
                self._delete(operation["requestDeleteRange"])
        return True

    def grant(self, seconds: float) -> int:
        self._granted += 1
        self._leases[self._granted] = Grant(seconds, self._now() + seconds)
        return self._granted

    def renew(self, number: int) -> float:
        self._end_leases()
        lease = self._leases.get(number)
        if lease is None:
            return 0.0
        lease.ends_s = self._now() + lease.lasts_s
        return lease.lasts_s

    def revoke(self, number: int) -> None:
        for key in self._leases.pop(number, Grant(0.0, 0.0)).keys:
            self._drop(key)

    # Inside.

    def _end_leases(self) -> None:
        if self._has_majority:
            for number in [n for n, lease in self._leases.items() if lease.ends_s <= self._now()]:
                self.revoke(number)

    def _holds(self, condition: Fields) -> bool:
        stored = self._values.get(_text(condition["key"]))
        if condition["target"] == "VALUE":
            return stored is not None and stored.value == base64.b64decode(condition["value"])
        assert condition["target"] == "CREATE" and condition["createRevision"] == "0"
        return stored is None

    def _check(self, operation: Fields) -> None:
        """A transaction with a lease that is over is refused as a whole."""
        lease = int(operation.get("requestPut", {}).get("lease", 0))
        if lease and lease not in self._leases:
            raise EtcdError("requested lease not found")

    def _put(self, client: str, request: Fields) -> None:
        key, value = _text(request["key"]), base64.b64decode(request["value"])
        for lease in self._leases.values():
            lease.keys.discard(key)
        if number := int(request.get("lease", 0)):
            self._leases[number].keys.add(key)
        if key not in self._values:
            insort(self._keys, key)
        self._values[key] = KeyValue(key, value, self._revision)
        self.witness(client, key, value)

    def _delete(self, request: Fields) -> None:
        first, end = _text(request["key"]), _text(request.get("range_end", ""))
        for key in [first] if not end else [k for k in self._keys if first <= k < end]:
            self._drop(key)

    def _drop(self, key: str) -> None:
        if self._values.pop(key, None) is not None:
            self._keys.remove(key)


def _text(encoded: str) -> str:
    return base64.b64decode(encoded).decode()


class VirtualEtcdClient(EtcdClient):
    """One master's way to etcd. `fails` is asked at every call: "" if it goes well, "lost" if it
    does not arrive, "unanswered" if it is carried out and the answer is lost."""

    def __init__(self, etcd: VirtualEtcd, name: str, fails: Callable[[], str]) -> None:
        super().__init__([])
        self._etcd, self._name, self._fails = etcd, name, fails

    def _carry_out(self, call: Callable[[], Answer]) -> Answer:
        fate = self._fails()
        if fate == "lost" or not self._etcd.has_majority:
            raise EtcdError("no member answers")
        answer = call()
        if fate:
            raise EtcdError("the answer was lost")
        return answer

    def scan(self, first: str, end: str, limit: int = 0, newest: bool = False) -> list[KeyValue]:
        return self._carry_out(lambda: self._etcd.range(first, end, limit, newest))

    def commit(self, conditions: Sequence[Operation], operations: Sequence[Operation]) -> bool:
        return self._carry_out(lambda: self._etcd.transact(self._name, conditions, operations))

    def compact(self) -> None:
        """Earlier values are not kept here."""

    def grant(self, seconds: int) -> tuple[int, float]:
        return self._carry_out(lambda: self._etcd.grant(float(seconds))), float(seconds)

    def renew(self, lease: int) -> float:
        return self._carry_out(lambda: self._etcd.renew(lease))

    def revoke(self, lease: int) -> None:
        self._carry_out(lambda: self._etcd.revoke(lease))
