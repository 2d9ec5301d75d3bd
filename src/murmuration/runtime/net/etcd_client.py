"""A client of etcd's JSON gateway: the few calls that a store and an election need.

Keys and values travel as base64 in JSON over HTTP, so nothing but the standard library is needed.
The client knows several members and goes on to the next when one does not answer. A call that
raises `EtcdError` may or may not have been carried out: etcd applies what it has taken, answer or
not. Callers must therefore make calls that can be repeated.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from murmuration.base.errors import InputError
from murmuration.runtime.net.addresses import Address, parse_address
from murmuration.runtime.net.sockets import dial

SCHEME = "etcd://"
TIMEOUT_S = 5.0
#: What an answer may be at most: a page of the log is far smaller.
ANSWER_MAX = 2**26


class EtcdError(Exception):
    """No member answered, or the answer was a refusal. The call may have been carried out."""


@dataclass(frozen=True, slots=True)
class KeyValue:
    """A key as it is stored, with the revision of the store that wrote it last."""

    key: str
    value: bytes
    revision: int


#: An object of JSON; an operation or a condition of a transaction is one.
Fields = dict[str, Any]
Operation = Fields


def parse_members(url: str) -> list[Address]:
    """`etcd://host:port,host:port`, as a user names a store."""
    places = url.removeprefix(SCHEME).rstrip("/")
    try:
        return [parse_address(place) for place in places.split(",")]
    except ValueError as error:
        raise InputError(f"--store {url}: expected {SCHEME}HOST:PORT,…, {error}") from error


def put(key: str, value: bytes, lease: int = 0) -> Operation:
    """The operation that sets a key; with a lease it goes when the lease does."""
    request = {"key": _encode(key.encode()), "value": _encode(value)}
    return {"requestPut": request | ({"lease": str(lease)} if lease else {})}


def delete(first: str, end: str = "") -> Operation:
    """The operation that deletes a key, or all from `first` up to `end`, without it."""
    request = {"key": _encode(first.encode())}
    return {"requestDeleteRange": request | ({"range_end": _encode(end.encode())} if end else {})}


def is_value(key: str, value: bytes) -> Operation:
    """The condition that a key has this value."""
    target = {"target": "VALUE", "value": _encode(value)}
    return {"key": _encode(key.encode()), "result": "EQUAL", **target}


def is_absent(key: str) -> Operation:
    """The condition that a key does not exist."""
    target = {"target": "CREATE", "createRevision": "0"}
    return {"key": _encode(key.encode()), "result": "EQUAL", **target}


class EtcdClient:
    """Calls, one at a time, from any thread."""

    def __init__(
        self,
        members: Sequence[Address],
        tls: ssl.SSLContext | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._members, self._tls, self._timeout_s = list(members), tls, timeout_s
        self._connection: http.client.HTTPConnection | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        with self._lock:
            self._drop()

    # Keys.

    def get(self, key: str) -> KeyValue | None:
        """A key as the majority has it now."""
        values = self.scan(key, "", 1)
        return values[0] if values else None

    def scan(self, first: str, end: str, limit: int = 0, newest: bool = False) -> list[KeyValue]:
        """Keys from `first` up to `end`, in order of their names; the last ones with `newest`."""
        request: Fields = {"key": _encode(first.encode()), "limit": str(limit)}
        if end:
            request["range_end"] = _encode(end.encode())
        if newest:
            request |= {"sort_order": "DESCEND", "sort_target": "KEY"}
        answer = self._call("kv/range", request)
        return [
            KeyValue(
                _decode(item["key"]).decode(),
                _decode(item.get("value", "")),
                int(item["mod_revision"]),
            )
            for item in answer.get("kvs", ())
        ]

    def commit(self, conditions: Sequence[Operation], operations: Sequence[Operation]) -> bool:
        """Carry out all operations if all conditions hold; whether they did."""
        answer = self._call("kv/txn", {"compare": list(conditions), "success": list(operations)})
        return bool(answer.get("succeeded", False))

    def compact(self) -> None:
        """Forget earlier values of keys."""
        revision = self._call("kv/range", {"key": _encode(b"\0")})["header"]["revision"]
        # Somebody else may have compacted further.
        with contextlib.suppress(EtcdError):
            self._call("kv/compaction", {"revision": revision})

    # Leases.

    def grant(self, seconds: int) -> tuple[int, float]:
        """A new lease, and how long it lasts: etcd may make it longer."""
        answer = self._call("lease/grant", {"TTL": str(seconds)})
        return int(answer["ID"]), float(answer["TTL"])

    def renew(self, lease: int) -> float:
        """How long the lease lasts from now; 0 if it is over."""
        answer = self._call("lease/keepalive", {"ID": str(lease)})
        return float(answer.get("result", {}).get("TTL", 0.0))

    def revoke(self, lease: int) -> None:
        """End a lease; its keys go."""
        self._call("lease/revoke", {"ID": str(lease)})

    # The wire.

    def _call(self, path: str, request: Fields) -> Fields:
        """Ask the member that answered last; if it does not answer, each of the others once."""
        body, errors = json.dumps(request).encode(), []
        with self._lock:
            for _ in range(len(self._members)):
                try:
                    return self._ask(path, body)
                except (OSError, http.client.HTTPException, ValueError) as error:
                    errors.append(f"{self._members[0]}: {error}")
                    self._drop()
                    self._members.append(self._members.pop(0))
        raise EtcdError("; ".join(errors))

    def _ask(self, path: str, body: bytes) -> Fields:
        connection = self._connect()
        connection.request("POST", f"/v3/{path}", body, {"content-type": "application/json"})
        response = connection.getresponse()
        text = response.read(ANSWER_MAX)
        if response.status != 200:
            raise ValueError(f"{response.status} {_message(text)}")
        # A stream of one object, as keepalive answers, is one line.
        answer: Fields = json.loads(text.split(b"\n", 1)[0] if text else b"{}")
        return answer

    def _connect(self) -> http.client.HTTPConnection:
        if self._connection is None:
            address = self._members[0]
            connection = http.client.HTTPConnection(address.host, address.port)
            connection.sock = dial(address, self._timeout_s, self._tls)
            connection.auto_open = 0  # a connection that has ended is dialled again here alone
            self._connection = connection
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _message(text: bytes) -> str:
    try:
        return str(json.loads(text).get("message", ""))[:200]
    except (ValueError, AttributeError):
        return text[:200].decode("utf-8", "replace")


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _decode(text: str) -> bytes:
    return base64.b64decode(text)
