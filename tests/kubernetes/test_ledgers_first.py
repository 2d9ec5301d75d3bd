"""Ledgers are believed only after a list of pods that is newer than theirs; the server is
scripted."""

from __future__ import annotations

import asyncio

from tests.kubernetes.scripted import Call, listing, scripted, thing

from murmuration.kubernetes.api.client import LEASES, Kind, Listed
from murmuration.kubernetes.api.follow import Change
from murmuration.kubernetes.scheduling.shared.following import LedgersFirst

WAIT_S = 60.0


def test_pods_are_listed_again_whenever_ledgers_are() -> None:
    """The watch of ledgers is told that its moment is forgotten (410): ledgers are listed anew,
    then pods, and pods are told first. What happens to ledgers in between waits its turn."""
    asked: list[str] = []
    told: list[str] = []
    over = asyncio.Event()

    async def answer(call: Call) -> None:
        kind = call.path.rsplit("/", 1)[1]
        if "watch" not in call.query:
            asked.append(kind)
            await call.answer(200, listing(10 * len(asked), thing(f"{kind}-{len(asked)}", 1)))
            return
        await call.begin_stream()
        if kind == "leases" and asked.count("leases") == 1:
            await asyncio.sleep(0.2)
            await call.send("ERROR", {"code": 410, "reason": "Expired"})
            await call.end_stream()
        elif kind == "leases":
            await call.send("MODIFIED", thing("changed", 99))

    def on_list(kind: Kind, listed: Listed) -> None:
        told.append(f"list of {kind.plural}")

    def on_changes(kind: Kind, changes: list[Change]) -> None:
        told.append(f"change of {kind.plural}")
        over.set()

    async def go() -> list[str]:
        async with scripted(answer) as (script, client):
            leases = Kind(LEASES.group, LEASES.version, "leases", "Lease", True, "here", "a=b")
            work = asyncio.create_task(LedgersFirst(client, leases, on_list, on_changes).run())
            await asyncio.wait_for(over.wait(), WAIT_S)
            work.cancel()
            await asyncio.gather(work, return_exceptions=True)
            return [call.path for call in script.calls if call.query.get("labelSelector") == "a=b"]

    paths = asyncio.run(go())
    assert set(paths) == {"/apis/coordination.k8s.io/v1/namespaces/here/leases"}
    assert asked == ["leases", "pods", "leases", "pods"]
    assert told == ["list of pods", "list of leases"] * 2 + ["change of leases"]
