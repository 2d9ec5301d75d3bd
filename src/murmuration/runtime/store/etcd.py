"""The store in etcd: the facts of a cluster on several hosts, none of which may be missed.

A batch is one key, `log/<number of its first line>`, written in a transaction that asks whether the
epoch is still this master's: a batch is there whole or not at all, and a deposed master writes
nothing. One that is too large for a request of etcd's lies in parts, which are written before the
key that makes them count.

There are no tables. What the facts fold to is held in memory, by the same fold that the virtual
disk of the fault schedules has (`schedulers/central/memory.py`). From time to time it is written as
a snapshot, and the log before the snapshot before that is deleted. So a master starts from a
snapshot and a short log, and the newest lines can still be followed and replayed:

```
 deleted ···│ log kept for followers │ log since the snapshot │
            previous snapshot        snapshot                 now
```

**Calls that may have been carried out.** etcd may apply a batch whose answer is lost. `write` says
then that nothing was written, which is not quite so; it is safe because the same batch is tried
again, writes the same bytes to the same key, and nothing that rests on it has left before.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from zlib import crc32

import msgspec

from murmuration.base.errors import InputError
from murmuration.runtime.net import etcd_client as etcd
from murmuration.runtime.net.etcd_client import EtcdClient, EtcdError, KeyValue
from murmuration.runtime.store.interface import (
    SKIPPED_EPOCHS,
    Deposed,
    Entry,
    LoggedFact,
    Side,
    StoreCopy,
    StoredLine,
    StoreError,
)
from murmuration.runtime.store.lines import decode_value, encode_value, kind_of
from murmuration.schedulers.central.memory import Key, MasterMemory, Row
from murmuration.schedulers.central.messages import Recover, Rollout
from murmuration.workload.job_spec import JobSpec

#: 2: tokens and quotas in snapshots. 3: runs that are suspended. A store of an older version
#: becomes one of this version.
VERSION = 3
#: Bytes in one value; etcd takes requests of 1.5 MiB.
PART = 2**20
#: A snapshot is taken after so many bytes of log.
SNAPSHOT_BYTES = 2**24
PAGE = 64
#: Lines of a log that is restored in one batch.
BATCH = 1000
ENCODER = msgspec.msgpack.Encoder()


class LogLine(msgspec.Struct, array_like=True):
    """A line of the log as it is stored."""

    number: int
    at_s: float
    side: Side
    kind: str
    body: bytes


class Document(msgspec.Struct, array_like=True):
    """Bytes under a key: here, or in so many parts under another; the number of the last line that
    is in them."""

    last: int
    sum: int
    data: bytes = b""
    parts: int = 0


class EtcdStore:
    """The store of the cluster `name`. Opening it changes nothing; `recover` makes it ours."""

    def __init__(
        self,
        client: EtcdClient,
        name: str,
        snapshot_bytes: int = SNAPSHOT_BYTES,
        part_bytes: int = PART,
    ) -> None:
        self._client, self._snapshot_bytes, self._part_bytes = client, snapshot_bytes, part_bytes
        self._root = f"/murmuration/{name}/"
        self._epoch = self._root + "epoch"
        self._fence: list[etcd.Operation] = []
        self._memory = MasterMemory()
        #: The last line, that of the snapshot, and the bytes of the log since.
        self._last = self._snapshot = self._bytes = 0

    def close(self) -> None:
        self._client.close()

    # Starting.

    def recover(self, seed: int) -> Recover:
        """Raise the epoch first: from then on nobody else writes, and what is read is all."""
        with _retryable():
            self._take_version()
            epoch = self._next_epoch()
            self._keep_to(epoch)
            self._load()
            return self._memory.recover(epoch, seed)

    def _keep_to(self, epoch: int) -> None:
        """Write in this epoch only."""
        self._fence = [etcd.is_value(self._epoch, b"%d" % epoch)]

    def _take_version(self) -> None:
        """Make the store one of this version, if it is new or older."""
        key, own = self._root + "version", b"%d" % VERSION
        self._client.commit([etcd.is_absent(key)], [etcd.put(key, own)])
        self._check_version()
        for older in range(1, VERSION):
            self._client.commit([etcd.is_value(key, b"%d" % older)], [etcd.put(key, own)])

    def _check_version(self) -> None:
        key = self._root + "version"
        stored = self._client.get(key)
        if stored is None or stored.value not in [b"%d" % known for known in range(1, VERSION + 1)]:
            text = "none" if stored is None else stored.value[:20].decode("ascii", "replace")
            raise InputError(f"{key}: expected a store of version {VERSION} or older, got {text}")

    def _next_epoch(self) -> int:
        while True:
            before = self._client.get(self._epoch)
            epoch = 0 if before is None else int(before.value) + 1
            unchanged = (
                etcd.is_absent(self._epoch)
                if before is None
                else etcd.is_value(self._epoch, before.value)
            )
            if self._client.commit([unchanged], [etcd.put(self._epoch, b"%d" % epoch)]):
                return epoch

    def _load(self) -> None:
        """The snapshot, and what the log has after it."""
        self._memory, self._last, self._bytes = MasterMemory(), 0, 0
        stored = self._client.get(self._root + "snapshot")
        if stored is not None:
            number, data = self._read_document(stored, "snapshots")
            self._memory = _decode_tables(data)
            self._snapshot = self._last = number
        for line, size in self._lines(self._snapshot):
            self._bytes += size
            self._last = line.number
            if line.side == "fact":
                self._memory.apply(decode_value(line.kind, line.body), line.at_s)

    # Copies.

    def copy(self) -> StoreCopy:
        """All of it; a master may go on writing. A snapshot that is taken meanwhile leaves the log
        since the one before, so nothing is missed."""
        with _retryable():
            epoch = self._client.get(self._epoch)
            if epoch is None:
                raise InputError(
                    f"{self._root}: expected the store of a cluster, and there is none"
                )
            self._check_version()
            self._load()
            lines = [
                (line.number, line.at_s, line.side, line.kind, line.body)
                for line, _ in self._lines(0)
                if line.number <= self._last
            ]
            return StoreCopy(self._memory.tables, lines, int(epoch.value))

    def fill(self, copied: StoreCopy, replace: bool = False) -> None:
        """Make this the copy of another store, while nobody leads. What is there is removed if that
        is asked for, else refused."""
        with _retryable():
            if self._client.get(self._root + "leader") is not None:
                raise InputError(f"{self._root}: expected no master; stop all of them first")
            before = self._client.get(self._epoch)
            if before is not None and not replace:
                raise InputError(
                    f"{self._root}: expected no store there; --replace removes it, --cluster names "
                    "another one"
                )
            epoch = max(copied.epoch, 0 if before is None else int(before.value)) + SKIPPED_EPOCHS
            # First of all: from now on no master that was there before can write.
            self._client.commit([], [etcd.put(self._epoch, b"%d" % epoch)])
            self._keep_to(epoch)
            for folder in ("log", "parts", "snapshots"):
                self._commit([etcd.delete(f"{self._root}{folder}/", f"{self._root}{folder}0")])
            self._commit([etcd.delete(self._root + "snapshot")])
            self._commit([etcd.put(self._root + "version", b"%d" % VERSION)])
            self._fill_log(copied)

    def _fill_log(self, copied: StoreCopy) -> None:
        """The log in batches, then the snapshot that makes it count."""
        last = copied.lines[-1][0] if copied.lines else 0
        for k in range(0, len(copied.lines), BATCH):
            batch = [LogLine(*line) for line in copied.lines[k : k + BATCH]]
            data, first = ENCODER.encode(batch), batch[0].number
            self._write_document("log", "parts", first, batch[-1].number, data)
        data = _encode_tables(MasterMemory(copied.tables))
        self._write_document("snapshot", "snapshots", last, last, data)

    # Writing.

    def write(self, entries: Sequence[Entry]) -> None:
        if not entries:
            return
        lines = [
            LogLine(e.number, e.at_s, e.side, kind_of(e.value), encode_value(e.value))
            for e in entries
        ]
        data, last = ENCODER.encode(lines), entries[-1].number
        with _retryable():
            self._write_document("log", "parts", entries[0].number, last, data)
        for entry in entries:
            if entry.side == "fact":
                self._memory.apply(entry.value, entry.at_s)
        self._last = last
        self._bytes += len(data)
        if self._bytes >= self._snapshot_bytes:
            # The batch is written; a snapshot that fails is taken after the next one.
            with contextlib.suppress(EtcdError):
                self._take_snapshot()

    def _write_document(
        self, folder: str, parts_folder: str, number: int, last: int, data: bytes
    ) -> None:
        """One key that makes everything before it count."""
        document = Document(last, crc32(data), data)
        if len(data) > self._part_bytes:
            size = self._part_bytes
            pieces = [data[k : k + size] for k in range(0, len(data), size)]
            for k, piece in enumerate(pieces):
                self._commit([etcd.put(self._part(parts_folder, number, k), piece)])
            document = Document(last, crc32(data), parts=len(pieces))
        key = self._root + folder + (f"/{number:020}" if folder == "log" else "")
        self._commit([etcd.put(key, ENCODER.encode(document))])

    def _commit(self, operations: Sequence[etcd.Operation]) -> None:
        """Only in our own epoch."""
        if not self._client.commit(self._fence, operations):
            raise Deposed(f"a later master uses {self._root}")

    def _part(self, folder: str, number: int, k: int) -> str:
        return f"{self._root}{folder}/{number:020}/{k:06}"

    def _take_snapshot(self) -> None:
        before, self._snapshot, self._bytes = self._snapshot, self._last, 0
        data = _encode_tables(self._memory)
        self._write_document("snapshot", "snapshots", self._last, self._last, data)
        first, kept = self._root + "log/", f"{self._root}log/{before + 1:020}"
        self._commit(
            [
                etcd.delete(first, kept),
                etcd.delete(f"{self._root}parts/", f"{self._root}parts/{before + 1:020}"),
                etcd.delete(f"{self._root}snapshots/", self._part("snapshots", self._last, 0)),
            ]
        )
        self._client.compact()

    def probe(self, size: int) -> None:
        with _retryable():
            self._commit([etcd.put(self._root + "probe", b"")])

    # Reading.

    def last_number(self) -> int:
        with _retryable():
            newest = self._client.scan(self._root + "log/", self._root + "log0", 1, newest=True)
            stored = newest[0] if newest else self._client.get(self._root + "snapshot")
            return 0 if stored is None else self._decode(stored).last

    def entries(self) -> Iterator[Entry]:
        with _retryable():
            for line, _ in self._lines(0):
                value = decode_value(line.kind, line.body)
                yield Entry(line.number, line.at_s, line.side, value)

    def facts(self, after: int, limit: int) -> Iterator[LoggedFact]:
        with _retryable():
            for line, _ in self._lines(after):
                if limit <= 0:
                    return
                if line.side == "fact":
                    limit -= 1
                    yield line.number, line.at_s, line.kind, line.body

    def lines(self, after: int, limit: int) -> Iterator[StoredLine]:
        with _retryable():
            for line, _ in itertools.islice(self._lines(after), limit):
                yield line.number, line.at_s, line.side, line.kind, line.body

    def _lines(self, after: int) -> Iterator[tuple[LogLine, int]]:
        """The lines after a number, in order, each with its share of the stored bytes."""
        end, key = self._root + "log0", self._batch_key(after + 1)
        while page := self._client.scan(key, end, PAGE):
            for stored in page:
                _, data = self._read_document(stored, "parts")
                lines = msgspec.msgpack.decode(data, type=list[LogLine])
                for line in lines:
                    if line.number > after:
                        yield line, len(data) // len(lines)
            key = page[-1].key + "\0"

    def _batch_key(self, number: int) -> str:
        """The key of the batch that has a line, or of the first one after it."""
        first, after = self._root + "log/", f"{self._root}log/{number + 1:020}"
        batches = self._client.scan(first, after, 1, newest=True)
        return batches[0].key if batches else first

    def _read_document(self, stored: KeyValue, parts_folder: str) -> tuple[int, bytes]:
        document = self._decode(stored)
        data = document.data
        if document.parts:
            number = document.last if parts_folder == "snapshots" else int(stored.key[-20:])
            pieces = (
                self._client.get(self._part(parts_folder, number, k)) for k in range(document.parts)
            )
            data = b"".join(piece.value for piece in pieces if piece is not None)
        if crc32(data) != document.sum:
            raise InputError(f"{stored.key}: it is damaged: it has another checksum")
        return document.last, data

    def _decode(self, stored: KeyValue) -> Document:
        try:
            return msgspec.msgpack.decode(stored.value, type=Document)
        except msgspec.DecodeError as error:
            raise InputError(f"{stored.key}: it is damaged: {error}") from error


def _encode_tables(memory: MasterMemory) -> bytes:
    rows = {name: list(table.items()) for name, table in memory.tables.items()}
    return ENCODER.encode(rows)


def _decode_tables(data: bytes) -> MasterMemory:
    stored = msgspec.msgpack.decode(data, type=dict[str, list[tuple[Key, Row]]])
    tables = {name: dict(rows) for name, rows in stored.items()}
    for row in tables["jobs"].values():
        row["spec"] = msgspec.convert(row["spec"], JobSpec)
    for row in tables.get("rollouts", {}).values():
        row["state"] = msgspec.convert(row["state"], Rollout)
    return MasterMemory(tables)


@contextlib.contextmanager
def _retryable() -> Iterator[None]:
    try:
        yield
    except EtcdError as error:
        raise StoreError(f"etcd does not answer: {error}") from error
