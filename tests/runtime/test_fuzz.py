"""Frames and job files made up by chance: each is understood or refused with its own error, and a
master goes on serving those it knows."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.schedulers.central.clusters import Cluster, spec

from murmuration.base.errors import InputError
from murmuration.runtime.master.peers import Peers
from murmuration.runtime.master.usage import UsageMeter
from murmuration.runtime.net import wire
from murmuration.runtime.net.callers import Doorkeeper
from murmuration.schedulers.agent import Message
from murmuration.schedulers.central.messages import FromAgent
from murmuration.schedulers.offers.messages import FromFramework
from murmuration.workload.formats.job_files import read_jobs
from murmuration.workload.job_spec import FieldError, JobSpec, job_from_tables

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**65), 2**65) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
KEYS = st.sampled_from([*JobSpec.__struct_fields__, "retries", "nmae", "", "\x00"])


# Job files.


@settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(st.dictionaries(KEYS, VALUES, max_size=6))
def test_any_table_is_a_job_or_a_sentence_about_a_field(table: dict[str, Any]) -> None:
    try:
        spec = job_from_tables({"name": "a", "command": ["true"], **table})
    except FieldError as error:
        assert str(error).isprintable() or error.sentence
        return
    assert job_from_tables(msgspec.to_builtins(spec)) == spec, "what is taken can be sent on"


@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(st.text(max_size=200) | st.binary(max_size=200))
def test_any_file_is_jobs_or_a_sentence_that_names_it(content: str | bytes) -> None:
    data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "job.toml"
        path.write_bytes(data)
        try:
            assert read_jobs(path)
        except InputError as error:
            assert "job.toml" in str(error)


# Frames.


MESSAGES = st.one_of(
    [st.from_type(kind) for kind in (*get_args(FromAgent), *get_args(FromFramework), wire.Hello)]
)


class FakeTransport:
    """What a connection of `Peers` needs of the network."""

    def __init__(self, receive: Callable[..., None]) -> None:
        self.peer: Any = None
        self.closed = False
        self.receive = receive

    def identify(self) -> None:
        return None

    def trust(self) -> None:
        """Larger frames from now on."""

    def send(self, *_: object) -> None:
        """Nobody listens."""

    answer = send

    def abort(self) -> None:
        self.closed = True

    close = abort


@settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(st.sampled_from(("agent", "scheduler", "nobody")), st.lists(MESSAGES, max_size=5))
def test_any_message_is_handled_or_ends_its_connection(role: str, said: list[Message]) -> None:
    """Whoever says it, in whatever order: no exception leaves, and what the master believes stays
    whole."""
    cluster = Cluster()
    cluster.join("n0")

    def tell(event: Message) -> None:
        cluster.tell(event)

    peers = Peers(cluster.master, UsageMeter(), lambda: cluster.now, Doorkeeper("t"), tell)
    connection = FakeTransport(peers._receive)
    if role != "nobody":
        peers._receive(connection, 1, "", wire.Hello("t", role, "fuzz"))  # type: ignore[arg-type]
    for message in said:
        if connection.closed:
            break
        node = getattr(message, "node", "") or getattr(message, "framework", "")
        peers._receive(connection, 0, node, message)  # type: ignore[arg-type]
    ledger = cluster.master.resource_manager.ledger
    for row in ledger.nodes.values():
        assert all(amount >= 0 for amount in row.available)
    cluster.submit(spec("after"))
    assert cluster.master.jobs.runs, "it places jobs as before"


@settings(
    max_examples=100, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(MESSAGES, st.data())
def test_a_frame_with_flipped_bytes_is_a_frame_or_refused(
    message: Message, data: st.DataObject
) -> None:
    try:
        frame = bytearray(wire.encode(message, "n0", 1))
    except (TypeError, OverflowError, UnicodeEncodeError):
        # Made up, but nothing that could be sent.
        return
    for _ in range(data.draw(st.integers(1, 4))):
        frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(wire.WireError):
        for _, _, got in wire.FrameReader(2**16).feed(bytes(frame)):
            assert type(got) in wire.TYPES.values()
