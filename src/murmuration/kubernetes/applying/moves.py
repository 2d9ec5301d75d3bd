"""The moves of a plan as read from `plan.json`, and the journal of what was made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from murmuration.base.errors import InputError
from murmuration.base.files import why_failed

JOURNAL = "applied.jsonl"
REPLANNED = "replanned"
#: The namespace whose identity is taken for that of the cluster.
SYSTEM = "kube-system"


class PlannedMove(msgspec.Struct, frozen=True, rename={"origin": "from"}):
    """One step of a plan."""

    step: int
    wave: int
    kind: str
    task: str
    to: str
    origin: str | None = None


class PlanFile(msgspec.Struct, frozen=True):
    """What of `plan.json` is needed to carry it out."""

    snapshot: str
    moves: list[PlannedMove]
    #: Nodes that are to go.
    removed: list[str] = []
    #: What the planner was asked, so that it can be asked again.
    question: dict[str, object] | None = None


def read_plan(path: Path) -> PlanFile:
    try:
        return msgspec.json.decode(path.read_bytes(), type=PlanFile)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({why_failed(error)})") from None
    except msgspec.DecodeError as error:
        raise InputError(f"{path}: expected a plan.json of murmur kube plan: {error}") from None


def cluster_identity(path: Path, plan: PlanFile) -> str:
    """The identity of the cluster that a plan was made for, from the snapshot beside it; empty if
    that does not say."""
    for snapshot in (path.parent / "cluster.json", Path(plan.snapshot)):
        if snapshot.is_file():
            try:
                items = msgspec.json.decode(snapshot.read_bytes()).get("items") or ()
            except (msgspec.DecodeError, AttributeError):
                continue
            for item in items:
                if item.get("kind") == "Namespace" and item["metadata"].get("name") == SYSTEM:
                    return str(item["metadata"].get("uid") or "")
    return ""


class JournalLine(msgspec.Struct, frozen=True):
    """One line: a step began on a pod, or ended; or what was left was planned again."""

    step: int
    what: str
    pod: str = ""
    uid: str = ""
    #: Of a step that began: the owner of its pod, and the pods that had then.
    owner: str = ""
    siblings: list[str] = []
    #: Of a new plan: its file, beside the journal.
    plan: str = ""


@dataclass
class MoveJournal:
    """What was made of a plan, on disk before anything rests on it."""

    path: Path
    #: The file of the plan that is being carried out: the first, or one made since.
    plan: Path
    #: What was made of that plan.
    lines: list[JournalLine] = field(default_factory=list)
    #: How many plans there were before it, and the moves made of them.
    plans: int = 0
    made: int = 0

    @classmethod
    def open(cls, plan: Path, resume: bool) -> MoveJournal:
        """The journal beside a plan; one that was begun is only gone on with if asked to."""
        path = plan.parent / JOURNAL
        journal = cls(path, plan)
        if not path.exists():
            if resume:
                raise InputError(f"{path}: nothing to resume: this plan was not begun")
            return journal
        if not resume:
            raise InputError(f"{path}: this plan was begun; go on with --resume, or plan again")
        for line in read_journal(path):
            journal._take(line)
        return journal

    def add(self, line: JournalLine) -> None:
        with self.path.open("a") as file:
            file.write(json.dumps(msgspec.to_builtins(line)) + "\n")
            file.flush()
        self._take(line)

    def _take(self, line: JournalLine) -> None:
        if line.what == REPLANNED:
            self.made += len(self.ended())
            self.plans += 1
            self.plan, self.lines = self.path.parent / line.plan, []
        else:
            self.lines.append(line)

    def ended(self) -> set[int]:
        return {line.step for line in self.lines if line.what in ("done", "skipped")}

    def began(self, step: int) -> JournalLine | None:
        """How a step began that has not ended."""
        began = [line for line in self.lines if line.step == step and line.what == "began"]
        return began[-1] if began and step not in self.ended() else None

    def successor(self, task: str, steps: dict[int, PlannedMove]) -> str:
        """The pod that stands for a task by now: each move leaves it with another name."""
        for line in reversed(self.lines):
            if line.what == "done" and line.pod and steps[line.step].task == task:
                return line.pod
        return task


def read_journal(path: Path) -> list[JournalLine]:
    lines: list[JournalLine] = []
    texts = path.read_text().splitlines()
    for number, text in enumerate(texts, 1):
        try:
            lines.append(msgspec.json.decode(text, type=JournalLine))
        except msgspec.DecodeError:
            # Only the last line may have been cut.
            if number < len(texts):
                raise InputError(f"{path}, line {number}: expected a step") from None
    return lines


def rename_nodes(moves: list[PlannedMove], names: Mapping[str, str]) -> list[PlannedMove]:
    """The moves with nodes that were only planned under the names they have in the cluster."""
    return [
        msgspec.structs.replace(
            move,
            to=names.get(move.to, move.to),
            origin=None if move.origin is None else names.get(move.origin, move.origin),
        )
        for move in moves
    ]
