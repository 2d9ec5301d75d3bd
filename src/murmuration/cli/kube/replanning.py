"""Planning what is left of a plan again, when the cluster is not what it assumed any more."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from murmuration.base.errors import InputError
from murmuration.cli import common

if TYPE_CHECKING:
    from murmuration.kubernetes.applying.moves import PlanFile, PlannedMove
    from murmuration.kubernetes.applying.run import PlanRun

#: Plans in a row of which no move could be made before we give up.
IDLE_MAX = 3
#: How long pods on their way may take before a plan is made without them.
SETTLE_S = 10.0


@dataclass
class Replanning:
    """Asks the plan's question again of the cluster as it is now."""

    run: PlanRun
    question: dict[str, object]
    scheduler: str
    skip_others: bool
    _idle: int = 0

    async def take_next(self, problems: Sequence[str]) -> bool:
        """Give the run a plan for what is left; whether there is one."""
        journal = self.run.journal
        self._idle = 0 if journal.ended() else self._idle + 1
        if self._idle > IDLE_MAX or self.run.stop.is_set() or self._has_placed():
            return False
        for problem in problems:
            common.say(problem)
        await self._settle()
        try:
            moves = await self._plan(journal.plans + 2)
        except InputError as error:
            common.say(f"what is left cannot be planned again: {error}")
            return False
        self.run.take(moves)
        return True

    def _has_placed(self) -> bool:
        """Pods that were to be placed have come: they would be placed twice."""
        done = self.run.journal.ended()
        return bool(self.question.get("place")) and any(
            move.kind == "place" and move.step in done for move in self.run.moves
        )

    async def _settle(self) -> None:
        """Pods that are about to get a node are better planned with it."""
        for _ in range(int(SETTLE_S / 0.1)):
            if not any(self.run.cluster.is_waiting(key) for key in self.run.cluster.records):
                return
            await asyncio.sleep(0.1)

    async def _plan(self, number: int) -> list[PlannedMove]:
        from murmuration.base.files import write_json
        from murmuration.kubernetes.api.snapshot import read_cluster
        from murmuration.kubernetes.applying.checks import foreign_pods, refuse_foreign
        from murmuration.kubernetes.applying.moves import REPLANNED, JournalLine, read_plan

        journal = self.run.journal
        folder = journal.path.parent
        snapshot, path = folder / f"cluster-{number}.json", folder / f"plan-{number}.json"
        write_json(snapshot, (await read_cluster(self.run.client)).document())
        # In a thread, so that the lease is renewed meanwhile.
        write_json(path, await asyncio.to_thread(self._answer, snapshot))
        moves = read_plan(path).moves
        foreign = set(foreign_pods(self.run.cluster, moves, self.scheduler))
        if not self.skip_others:
            refuse_foreign(sorted(foreign), self.scheduler)
        journal.add(JournalLine(0, REPLANNED, plan=path.name))
        common.say(f"planned again: {len(moves)} moves are left ({path})")
        return [move for move in moves if move.task not in foreign]

    def _answer(self, snapshot: Path) -> dict[str, object]:
        from murmuration.cli.plan.answers import compute
        from murmuration.cli.plan.question import PlanQuestion

        made = self.run.journal.made + len(self.run.journal.ended())
        limits = lower_limits(self.question.get("limits") or (), made)
        # Nodes that were added in the plan are in the cluster, or will be when it is planned again.
        changes: dict[str, object] = {"snapshot": snapshot, "limits": limits, "add": ()}
        return compute(PlanQuestion.again(self.question, **changes))[1]


def lower_limits(limits: object, made: int) -> list[str]:
    """The limits of a question, less the moves that were made of its plan."""
    assert isinstance(limits, Sequence)
    lowered = []
    for text in limits:
        name, _, most = str(text).partition("=")
        moves = name == "moves"
        lowered.append(f"moves={max(float(most) - made, 0):g}" if moves else str(text))
    return lowered


def make_replanning(
    run: PlanRun, plan: PlanFile, scheduler: str, skip_others: bool
) -> Replanning | None:
    """None for a plan that does not say what was asked."""
    if plan.question is None:
        return None
    return Replanning(run, plan.question, scheduler, skip_others)
