"""The hands of a scheduler against a scripted server: what came of a binding, an eviction and a
claim on a node, whatever the server answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest
from tests.kubernetes.scripted import Call, Handler, scripted

from murmuration.kubernetes.api.client import ApiError
from murmuration.kubernetes.scheduling.hands import Hands, HandSettings
from murmuration.kubernetes.scheduling.shared.ledgers import CLAIMS_MARK
from murmuration.schedulers.agent import Do, Message
from murmuration.schedulers.pods.messages import (
    BindingEnded,
    BindPod,
    EvictionEnded,
    EvictPod,
    NodeCommit,
)

WAIT_S = 60.0
SETTINGS = HandSettings(request_s=30.0, claimant="me/1")


def bind(name: str, commit: NodeCommit | None = None) -> BindPod:
    return BindPod(f"default/{name}", f"uid-{name}", "n0", float("inf"), commit=commit)


def run(handler: Handler, *rounds: list[Message]) -> tuple[list[Message], list[Call]]:
    """Carry out acts, those of a round side by side; what was told, and what the server heard."""

    async def go() -> tuple[list[Message], list[Call]]:
        async with scripted(handler) as (script, client):
            told: list[Message] = []
            hands = Hands(client, SETTINGS, told.append)
            for acts in rounds:
                wanted = len(told) + len(acts)
                for act in acts:
                    hands.carry_out(Do(act))
                async with asyncio.timeout(WAIT_S):
                    while len(told) < wanted and not hands.failure.done():
                        await asyncio.sleep(0.01)
            if hands.failure.done():
                hands.failure.result()
            await hands.settle()
            return told, script.calls

    return asyncio.run(go())


@pytest.mark.parametrize(
    ("status", "outcome"), [(201, "bound"), (409, "refused"), (404, "refused"), (500, "unknown")]
)
def test_what_came_of_a_binding(status: int, outcome: str) -> None:
    async def answer(call: Call) -> None:
        await call.answer(status, {"kind": "Status", "message": "so it is"})

    (ended,), _ = run(answer, [bind("a")])
    assert isinstance(ended, BindingEnded) and ended.outcome == outcome


def test_a_binding_whose_answer_is_lost_may_have_happened() -> None:
    async def answer(call: Call) -> None:
        call.cut()

    (ended,), _ = run(answer, [bind("a")])
    assert isinstance(ended, BindingEnded) and ended.outcome == "unknown"


def test_a_missing_right_ends_the_scheduler() -> None:
    async def answer(call: Call) -> None:
        await call.refuse(403, "no right")

    with pytest.raises(ApiError, match="no right"):
        run(answer, [bind("a")])


def test_an_eviction_is_asked_for_until_the_budget_allows_it() -> None:
    answers = [429, 500, 429, 201]

    async def answer(call: Call) -> None:
        status = answers.pop(0) if call.path.endswith("/eviction") else 201
        if status == 201:
            await call.answer(201, {})
        else:
            await call.refuse(status, "later", details={"retryAfterSeconds": 1})

    (ended,), calls = run(answer, [EvictPod("default/a", "uid-a", "it goes", float("inf"))])
    assert isinstance(ended, EvictionEnded) and ended.outcome == "gone" and answers == []
    assert all(
        call.body["deleteOptions"]["preconditions"] == {"uid": "uid-a"}
        for call in calls
        if call.path.endswith("/eviction")
    )


class LedgerServer:
    """A server with the ledger of one node, which it writes by versions."""

    def __init__(self) -> None:
        self.version = 0
        self.claims: list[list[str]] = []
        self.bound: list[str] = []
        self.writes = 0
        #: Called before a write is looked at.
        self.before: Callable[[], None] = lambda: None

    async def answer(self, call: Call) -> None:
        if call.path.endswith("/binding"):
            self.bound.append(call.body["metadata"]["name"])
            # Whoever is bound is in the ledger by then.
            names = [pod for pod, _, _ in self.claims]
            assert f"default/{self.bound[-1]}" in names
            await call.answer(201, {})
        elif "leases" in call.path:
            self.before()
            await self._write(call)
        else:
            await call.answer(201, {})

    async def _write(self, call: Call) -> None:
        await asyncio.sleep(0.05)
        metadata = call.body["metadata"]
        if metadata.get("resourceVersion", "") != (str(self.version) if self.version else ""):
            await call.refuse(409, "the object has been modified")
            return
        self.writes += 1
        self.version += 1
        self.claims = json.loads(metadata["annotations"][CLAIMS_MARK])
        await call.answer(200, {"metadata": {"resourceVersion": str(self.version)}})


def test_claims_that_come_together_are_one_write_and_our_own_are_no_conflict() -> None:
    """Ten decisions on a node without a ledger, in two rounds, both made before anything of the
    first was seen: a write for the first, one for those that came meanwhile, one for the rest."""
    server, commit = LedgerServer(), NodeCommit("")
    first = [bind(f"a{k}", commit) for k in range(5)]
    second = [bind(f"b{k}", commit) for k in range(5)]
    told, _ = run(server.answer, list(first), list(second))
    assert [ended.outcome for ended in told if isinstance(ended, BindingEnded)] == ["bound"] * 10
    assert server.writes < 10 and len(server.claims) == 10


def test_claims_of_others_stay_and_what_was_seen_settled_goes() -> None:
    """A decision on what we wrote ourselves keeps only the claims it says."""
    server = LedgerServer()
    kept = ("default/theirs", "uid-theirs", "you/1")
    told, _ = run(
        server.answer,
        [bind("a", NodeCommit("", (kept,)))],
        # By now the API has shown that a is bound.
        [bind("b", NodeCommit("1", (kept,)))],
    )
    assert len(told) == 2
    assert [claim[0] for claim in server.claims] == ["default/theirs", "default/b"]


def test_a_decision_on_an_older_ledger_is_a_conflict_and_binds_nothing() -> None:
    server = LedgerServer()
    server.version = 7
    told, _ = run(server.answer, [bind("a", NodeCommit("6"))])
    (ended,) = told
    assert isinstance(ended, BindingEnded) and ended.outcome == "conflict"
    assert server.bound == [] and server.version == 7


def test_somebody_else_between_two_of_our_writes_is_a_conflict() -> None:
    """The first is in time; then another scheduler writes; the second rests on our own version,
    which is not the last any more."""
    server = LedgerServer()

    def interfere() -> None:
        if server.version == 1:
            server.version = 2

    server.before = interfere
    told, _ = run(server.answer, [bind("a", NodeCommit(""))], [bind("b", NodeCommit(""))])
    outcomes = [ended.outcome for ended in told if isinstance(ended, BindingEnded)]
    assert outcomes == ["bound", "conflict"] and server.bound == ["a"]


def test_a_ledger_that_cannot_be_written_binds_nothing() -> None:
    async def answer(call: Call) -> None:
        assert "leases" in call.path
        call.cut()

    (ended,), _ = run(answer, [bind("a", NodeCommit("3"))])
    assert isinstance(ended, BindingEnded) and ended.outcome == "refused"
