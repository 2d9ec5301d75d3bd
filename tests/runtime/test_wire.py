"""Frames: what is sent arrives, in any pieces; what is malformed or too large is refused before it
is believed."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration.runtime.net import wire
from murmuration.runtime.net.transport import HELLO_MAX, Connection
from murmuration.schedulers.central import messages as live
from murmuration.schedulers.offers import messages as offers
from murmuration.schedulers.offers.messages import Status

EXAMPLES = [
    wire.Hello("token", "agent"),
    live.AgentJoined(
        "n",
        "id",
        3,
        {"cpu": 1},
        {"zone": "a", "rank": 2.0},
        (live.Running("jobs", "a.0.1", (1, 2)),),
        (live.Ended("jobs", "a.1.1", Status.FAILED, None, 9, "out of memory"),),
    ),
    live.Heartbeat("n", 1, 2, {"a.0.1": (0.5, 7)}),
    live.Launch(1, "jobs", "a.0.1", (1, 2), live.Order(("sh", "-c", "x"), {"A": "b"}, 3.0, (80,))),
    offers.ResourceOffer("f", 1, (offers.Slice("n", (1, 2), (1, 2)),), None),
    offers.SetFilters("f", offers.Filters(frozenset({"a", "b"}), (1, 2))),
    wire.Output(b"\x00\xff", 2),
]


@given(st.lists(st.sampled_from(EXAMPLES), min_size=1, max_size=6), st.data())
def test_frames_arrive_whole_however_they_are_cut(sent: list[Any], data: st.DataObject) -> None:
    stream = b"".join(wire.encode(message, f"node-{k}", k) for k, message in enumerate(sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader, got = wire.FrameReader(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += list(reader.feed(stream[start:end]))
    assert got == [(k, f"node-{k}", message) for k, message in enumerate(sent)]


def frame(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


@pytest.mark.parametrize(
    "stream",
    [
        frame(b"nonsense"),
        frame(msgspec.msgpack.encode([0, "", "NoSuchMessage", {}])),
        frame(msgspec.msgpack.encode([0, "", "Hello", {"token": 1, "role": "agent"}])),
        frame(msgspec.msgpack.encode([0, ""])),
        frame(msgspec.msgpack.encode(["x", "", "Hello", {}])),
        frame(b"\x91" * 5000),
        struct.pack(">I", 2**31) + b"x",
        b"GET / HTTP/1.1\r\n\r\n",
        frame(b""),
    ],
)
def test_what_breaks_the_protocol_is_refused(stream: bytes) -> None:
    with pytest.raises(wire.WireError):
        list(wire.FrameReader().feed(stream))


@given(st.binary(max_size=200))
def test_no_bytes_do_anything_but_be_refused(data: bytes) -> None:
    try:
        for _, _, message in wire.FrameReader(4096).feed(data):
            assert type(message) in wire.TYPES.values()
    except wire.WireError:
        pass


def test_a_frame_too_large_to_receive_is_not_sent() -> None:
    with pytest.raises(wire.WireError, match="at most"):
        wire.encode(wire.Output(bytes(wire.FRAME_MAX)))


async def pair(answer: Any) -> tuple[Connection, list[Any], asyncio.Server, asyncio.Event]:
    got: list[Any] = []
    lost = asyncio.Event()

    def receive(connection: Connection, request: int, node: str, message: Any) -> None:
        got.append((node, message))
        if request and answer is not None:
            connection.answer(answer, node, request)

    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: Connection(receive, lambda c: lost.set(), HELLO_MAX), "127.0.0.1", 0
    )
    port = server.sockets[0].getsockname()[1]
    _, client = await loop.create_connection(
        lambda: Connection(receive, lambda c: None), "127.0.0.1", port
    )
    return client, got, server, lost


def test_requests_are_answered_by_their_numbers() -> None:
    async def story() -> None:
        client, _, server, _ = await pair(wire.Output(b"x", 1))
        asked = [
            client.ask(wire.ReadOutput(f"run-{k}", "stdout", 0, 1), f"n{k}") for k in range(50)
        ]
        assert await asyncio.gather(*asked) == [wire.Output(b"x", 1)] * 50
        client.close()
        server.close()

    asyncio.run(story())


def test_who_says_too_much_before_hello_is_let_go() -> None:
    async def story() -> None:
        client, got, server, lost = await pair(None)
        client.send(wire.Output(bytes(HELLO_MAX)))
        await asyncio.wait_for(lost.wait(), 5.0)
        assert got == []
        server.close()

    asyncio.run(story())


def test_an_answer_that_never_comes_is_not_waited_for_for_ever() -> None:
    async def story() -> None:
        client, _, server, _ = await pair(None)
        with pytest.raises(TimeoutError):
            await client.ask(wire.ReadOutput("a", "stdout", 0, 1), timeout_s=0.05)
        waiting = asyncio.create_task(client.ask(wire.ReadOutput("a", "stdout", 0, 1)))
        await asyncio.sleep(0)
        client.abort()
        with pytest.raises(ConnectionError):
            await waiting
        server.close()

    asyncio.run(story())
