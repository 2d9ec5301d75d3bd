"""Following objects through everything that breaks a watch; the server is scripted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.kubernetes.scripted import Call, Handler, listing, scripted, thing

from murmuration.kubernetes.api import follow
from murmuration.kubernetes.api.client import PODS, ApiError, Kind, KubeClient, Listed
from murmuration.kubernetes.api.follow import Change, Follower
from murmuration.kubernetes.api.http import UnreachableError

WAIT_S = 60.0


class Seen:
    """What a follower has told, as a set of names: the state a cache would have."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.lists = 0
        self._changed = asyncio.Event()

    def on_list(self, kind: Kind, listed: Listed) -> None:
        self.lists += 1
        self.names = {name_of(item) for item in listed.items}
        self._changed.set()

    def on_changes(self, kind: Kind, changes: list[Change]) -> None:
        for change in changes:
            if change.type == "DELETED":
                self.names.discard(name_of(change.thing))
            else:
                self.names.add(name_of(change.thing))
        self._changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async def wait() -> None:
            while not condition():
                self._changed.clear()
                await self._changed.wait()

        await asyncio.wait_for(wait(), WAIT_S)


def name_of(item: dict[str, object]) -> str:
    metadata = item["metadata"]
    assert isinstance(metadata, dict)
    return str(metadata["name"])


def run(handler: Handler, names: set[str], silence_s: float = 30.0) -> tuple[list[Call], Seen]:
    """Follow a script until these names are there."""

    async def go() -> tuple[list[Call], Seen]:
        async with scripted(handler) as (script, client):
            seen = Seen()
            follower = Follower(client, PODS, seen.on_list, seen.on_changes, silence_s)
            task = asyncio.create_task(follower.run())
            waiting = asyncio.create_task(seen.until(lambda: seen.names == names))
            await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                waiting.cancel()
                task.result()
            await waiting
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            return script.calls, seen

    return asyncio.run(go())


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "PAUSE_MIN_S", 0.001)


def test_a_watch_goes_on_from_the_last_bookmark() -> None:
    async def handle(call: Call) -> None:
        if "watch" not in call.query:
            await call.answer(200, listing(5, thing("a", 3)))
            return
        assert call.query["allowWatchBookmarks"] == "true"
        await call.begin_stream()
        if call.query["resourceVersion"] == "5":
            await call.send("ADDED", thing("b", 8))
            await call.send("BOOKMARK", thing("", 20))
            await call.end_stream()
        else:
            await call.send("DELETED", thing("a", 21))

    calls, seen = run(handle, {"b"})
    assert seen.lists == 1
    assert [call.query["resourceVersion"] for call in calls[1:]] == ["5", "20"]


@pytest.mark.parametrize("how", ["status", "stream"])
def test_a_forgotten_version_is_listed_again(how: str) -> None:
    """A pod that went while nobody looked is gone afterwards."""
    lists = 0

    async def handle(call: Call) -> None:
        nonlocal lists
        if "watch" not in call.query:
            lists += 1
            old, new = listing(5, thing("a", 3)), listing(90, thing("c", 70))
            await call.answer(200, old if lists == 1 else new)
        elif lists > 1:
            assert call.query["resourceVersion"] == "90"
            await call.begin_stream()
        elif how == "status":
            await call.refuse(410, "too old resource version", "Expired")
        else:
            await call.begin_stream()
            await call.send("ADDED", thing("b", 8))
            await call.send("ERROR", {"kind": "Status", "code": 410, "message": "too old"})

    _, seen = run(handle, {"c"})
    assert seen.lists == 2


def test_a_broken_watch_is_taken_up_where_it_broke() -> None:
    async def handle(call: Call) -> None:
        if "watch" not in call.query:
            await call.answer(200, listing(5))
            return
        await call.begin_stream()
        if call.query["resourceVersion"] == "5":
            await call.send("ADDED", thing("a", 6))
            # In the middle of a line, as a lost connection would be.
            call.writer.write(b'40\r\n{"type": "ADDED", "obj')
            await call.writer.drain()
            await asyncio.sleep(0.05)
            call.cut()
        else:
            assert call.query["resourceVersion"] == "6"
            await call.send("ADDED", thing("b", 7))

    _, seen = run(handle, {"a", "b"})
    assert seen.lists == 1


def test_a_watch_that_stalls_is_given_up() -> None:
    async def handle(call: Call) -> None:
        if "watch" not in call.query:
            await call.answer(200, listing(5))
            return
        await call.begin_stream()
        if call.query["resourceVersion"] == "5":
            await call.send("ADDED", thing("a", 6))
        else:
            await call.send("ADDED", thing("b", 7))

    _, seen = run(handle, {"a", "b"}, silence_s=0.2)
    assert seen.lists == 1


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_in_trouble_is_asked_again(status: int) -> None:
    refused = 0

    async def handle(call: Call) -> None:
        nonlocal refused
        if refused < 3:
            refused += 1
            await call.refuse(status, "busy")
        elif "watch" not in call.query:
            await call.answer(200, listing(5, thing("a", 3)))
        else:
            await call.begin_stream()

    run(handle, {"a"})
    assert refused == 3


@pytest.mark.parametrize("status", [401, 403, 404])
def test_what_will_not_go_away_is_raised(status: int) -> None:
    async def handle(call: Call) -> None:
        await call.refuse(status, "never")

    with pytest.raises(ApiError, match="never"):
        run(handle, {"a"})


def with_client(handler: Handler, work: Callable[[KubeClient], object]) -> None:
    async def go() -> None:
        async with scripted(handler) as (_, client):
            await work(client)  # type: ignore[misc]

    asyncio.run(go())


def test_pages_of_a_list_are_of_one_moment() -> None:
    async def handle(call: Call) -> None:
        if call.query.get("continue") == "next":
            assert "resourceVersion" not in call.query
            await call.answer(200, listing(9, thing("b", 4)))
        else:
            assert call.query["resourceVersionMatch"] == "Exact"
            await call.answer(200, listing(9, thing("a", 3), more="next"))

    async def work(client: KubeClient) -> None:
        listed = await client.list_at(PODS, "9")
        assert [name_of(item) for item in listed.items] == ["a", "b"]
        assert listed.items[0]["kind"] == "Pod"

    with_client(handle, work)


def test_a_page_that_is_too_old_begins_the_list_again() -> None:
    async def handle(call: Call) -> None:
        if "continue" in call.query:
            await call.refuse(410, "expired", "Expired")
        elif "limit" in call.query:
            await call.answer(200, listing(9, thing("a", 3), more="next"))
        else:
            await call.answer(200, listing(12, thing("c", 3), thing("d", 4)))

    async def work(client: KubeClient) -> None:
        listed = await client.list_all(PODS)
        assert (listed.version, len(listed.items)) == ("12", 2)

    with_client(handle, work)


def test_a_kept_connection_that_was_closed_is_replaced_for_reading_only() -> None:
    """A binding may have been carried out although its answer is lost: nobody sends it twice."""
    calls = 0

    async def handle(call: Call) -> None:
        nonlocal calls
        calls += 1
        if calls in (2, 4):
            call.cut()
        else:
            await call.answer(200, {"ok": calls})

    async def work(client: KubeClient) -> None:
        assert (await client.get("/a"))["ok"] == 1
        assert (await client.get("/a"))["ok"] == 3
        with pytest.raises(UnreachableError):
            await client.create("/a", {})
        assert calls == 4
        assert (await client.get("/a"))["ok"] == 5

    with_client(handle, work)


def test_an_answer_that_does_not_come_is_not_waited_for() -> None:
    async def handle(call: Call) -> None:
        await asyncio.sleep(WAIT_S)

    async def work(client: KubeClient) -> None:
        with pytest.raises(UnreachableError, match=r"no answer for 0\.1 s"):
            await client.ask("GET", "/a", timeout_s=0.1)

    with_client(handle, work)


def test_the_server_says_how_long_to_wait() -> None:
    async def handle(call: Call) -> None:
        if call.path == "/header":
            await call.answer(429, {"message": "later"}, "retry-after: 7\r\n")
        else:
            await call.refuse(429, "later", details={"retryAfterSeconds": 3})

    async def work(client: KubeClient) -> None:
        for path, wait_s in (("/header", 7.0), ("/body", 3.0)):
            with pytest.raises(ApiError) as refused:
                await client.get(path)
            assert (refused.value.status, refused.value.retry_s) == (429, wait_s)

    with_client(handle, work)


def test_what_is_no_http_is_a_broken_server() -> None:
    async def handle(call: Call) -> None:
        call.writer.write(b"SSH-2.0-OpenSSH\r\n\r\n")
        await call.writer.drain()

    async def work(client: KubeClient) -> None:
        with pytest.raises(UnreachableError, match="no HTTP"):
            await client.get("/a")

    with_client(handle, work)


def test_a_server_that_is_away_is_spoken_of_once(caplog: pytest.LogCaptureFixture) -> None:
    """Three followers lose their server, try several times, and it comes back."""
    down = {"calls": 0}

    async def answer(call: Call) -> None:
        down["calls"] += 1
        if down["calls"] <= 12:
            call.cut()
        elif "watch" in call.query:
            await call.begin_stream()
            await call.send("ADDED", thing("late", 2))
        else:
            await call.answer(200, listing(1))

    async def go() -> None:
        async with scripted(answer) as (_, client):
            everybody = [Seen() for _ in range(3)]
            tasks = [
                asyncio.create_task(Follower(client, PODS, s.on_list, s.on_changes).run())
                for s in everybody
            ]
            for seen in everybody:
                await seen.until(lambda seen=seen: seen.names == {"late"})  # type: ignore[misc]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    with caplog.at_level("WARNING", logger="murmuration.kubernetes"):
        asyncio.run(go())
    told = [record.message.partition(",")[0] for record in caplog.records]
    # One that was cut off may hear of it after another was answered.
    assert 1 <= told.count("the API server does not answer") <= 2, told
    assert told[-1] == "the API server answers again"
