"""What `murmur plan` is asked: the options as the command line gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from murmuration.base.errors import InputError
from murmuration.cli import common
from murmuration.workload.formats.source import STANDARD_INPUT, SourceFile, keep_input

if TYPE_CHECKING:
    from murmuration.assignment.problem import Problem
    from murmuration.assignment.snapshots.additions import Added, TypeEntry
    from murmuration.planning.deadline import Deadline
    from murmuration.planning.plan import Options


@dataclass(frozen=True)
class PlanQuestion:
    """The cluster to plan for, what is to be changed in it first, and how far to search."""

    snapshot: Path
    place: Path | None
    remove: tuple[str, ...]
    only: tuple[str, ...]
    exclude: tuple[str, ...]
    rank: bool
    any_one: str | None
    add: tuple[str, ...]
    types: Path | None
    usage: Path | None
    objectives: tuple[str, ...]
    limits: tuple[str, ...]
    power_off: bool
    evaluations: int | None
    population: int
    rate: float | None
    ready_s: float | None
    seconds: float | None
    cpu_seconds: float | None
    pymoo: bool
    assignment: Path | None
    seed: int | None
    out: Path | None
    as_json: bool

    def __post_init__(self) -> None:
        piped = [self.snapshot, self.place, self.types, self.usage].count(Path(STANDARD_INPUT))
        if piped > 1:
            raise InputError(
                "expected - for one of SNAPSHOT, --place, --types and --usage: standard input can "
                "be read only once"
            )

    def words(self) -> dict[str, object]:
        """The question as `plan.json` keeps it, so that it can be asked again."""
        import msgspec

        words: dict[str, object] = msgspec.to_builtins(self, enc_hook=str)
        return {key: value for key, value in words.items() if key not in ("out", "as_json")}

    @classmethod
    def again(cls, words: Mapping[str, object], **changes: object) -> PlanQuestion:
        """A question that was kept, asked of something else."""
        import msgspec

        given = {"out": None, "as_json": False, **words, **changes}
        return msgspec.convert(given, cls, dec_hook=lambda kind, text: kind(text))

    @property
    def seed_number(self) -> int:
        return 1 if self.seed is None else self.seed

    def deadline(self) -> Deadline:
        """How long the answer may take, from now on."""
        from murmuration.planning.deadline import Deadline

        return Deadline(self.seconds or float("inf"), self.cpu_seconds or float("inf"))

    def additions(self) -> list[Added]:
        """The nodes to add, those of the user's own types looked up in the catalogue."""
        if self.types is None:
            return list(self.add)
        from murmuration.assignment.snapshots.additions import Addition, split_addition

        known = {kind.name: kind for kind in self.catalogue}
        added: list[Added] = []
        for text in self.add:
            name, count = split_addition(text)
            added.append(Addition(known[name], count) if name in known else text)
        return added

    @cached_property
    def catalogue(self) -> list[TypeEntry]:
        """The user's own node types."""
        from murmuration.planning.snapshots.types import read_types

        assert self.types is not None, "only with a catalogue"
        return read_types(self.types)

    def open(self) -> Problem:
        """The cluster as the snapshot has it, with what is added and placed, and only what the
        question speaks of free to move."""
        from murmuration.planning.selectors import narrow

        return narrow(self.open_with(self.additions()), self.only, self.exclude)

    def open_with(self, additions: Sequence[Added]) -> Problem:
        """The cluster with these nodes added; may be asked again."""
        from murmuration.planning.snapshots.opening import open_snapshot

        snapshot, place, usage = self._inputs
        assert snapshot is not None, "every question has a snapshot"
        return open_snapshot(snapshot, place, additions, usage)

    @cached_property
    def _inputs(self) -> list[Path | SourceFile | None]:
        return [keep_input(path) for path in (self.snapshot, self.place, self.usage)]

    def options(self, deadline: Deadline) -> Options:
        """What the planner is asked for."""
        from murmuration.assignment.objectives import parse_limit, parse_objective
        from murmuration.base.loading import look_beside
        from murmuration.planning.plan import Options

        look_beside(self.snapshot)
        options = Options(
            objectives=tuple(parse_objective(text) for text in self.objectives),
            limits=tuple(parse_limit(text) for text in self.limits),
            power_off=self.power_off,
            only_place=self.place is not None or bool(self.remove),
            population=self.population,
            evaluations=self.evaluations,
            deadline=deadline,
            seed=self.seed_number,
            rate=self.rate,
            ready_s=self.ready_s,
            pymoo=self.pymoo,
        )
        if len({objective.name for objective in options.objectives}) < len(options.objectives):
            raise InputError("--objective: expected each objective once")
        return options

    def folder(self) -> Path | None:
        """Where the results go."""
        stem = self.snapshot.name.partition(".")[0].strip("-") or "cluster"
        return common.results_folder(self.out, self.as_json, f"plan-{stem}")
