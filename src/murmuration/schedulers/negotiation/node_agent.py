"""The node agent: keeps its own node stable, and decides what comes to it (Sliwko and Getov, 4.2).

It is told what its tasks use, reports to its broker, and gives tasks away when its node is
overloaded. Asked for room, it counts what it has, what comes, and what is still leaving. Room set
aside is dropped when the task does not come; whatever is dropped or refused once is refused for
ever, so that old messages change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from murmuration.base.random import save
from murmuration.cluster.allocation_types import DA, allocation_type
from murmuration.placement.allocation_scores import sras
from murmuration.schedulers.negotiation import selection
from murmuration.schedulers.negotiation.books import Books, Held, Status, level_of
from murmuration.schedulers.negotiation.broker import meets
from murmuration.schedulers.negotiation.messages import (
    Measured,
    Migration,
    MigrationCancelled,
    NodeGone,
    NodeReport,
    NotTaken,
    Released,
    RunTask,
    StandStill,
    TakenOver,
    TakeOver,
    Task,
    TaskEnded,
    TaskMigrationAcceptanceResponse,
    TaskMigrationProcessConfirmationResponse,
    TaskMigrationProcessErrorResponse,
    TaskMigrationProcessRequest,
    TaskMigrationRejectionResponse,
    TaskMigrationRequest,
    Vector,
)
from murmuration.schedulers.negotiation.rules import accepts, fits_at_all, is_overloaded, suspend
from murmuration.schedulers.negotiation.settings import NegotiationSettings
from murmuration.schedulers.negotiation.source import Negotiation, Phase, Source


@dataclass(frozen=True, slots=True)
class Coming:
    """Room set aside for a task."""

    task: Task
    use: Vector
    until: float
    forced: bool


@dataclass(frozen=True)
class Searches:
    """How sets of tasks are searched: plain, or the same functions compiled."""

    select: Callable[..., float] = selection.select
    tabu: Callable[..., float] = selection.tabu


class NodeAgent(Source):
    """One node: its books, and what comes to it."""

    home = Status.RUNNING

    def __init__(
        self,
        name: str,
        brokers: Sequence[str],
        total: Vector,
        settings: NegotiationSettings,
        rng: np.random.Generator,
        books: Books,
        attributes: dict[str, str | float] | None = None,
        searches: Searches | None = None,
    ) -> None:
        super().__init__(name, brokers, len(total), settings, rng, books)
        self.total, self.attributes = total, attributes or {}
        self.coming: dict[Migration, Coming] = {}
        #: What the tasks of the books and those coming use and request.
        self.sums = books.sums(len(total))
        self._amounts = np.array(total, np.int64)
        self._searches = searches or Searches()
        self._reported = False
        #: Tasks that stand still; not known at the start.
        self._still: tuple[str, ...] | None = None if books.tasks else ()
        #: Tasks that no other node could hold, and until when that is believed.
        self._stuck: dict[str, float] = {}
        self._on |= {
            TaskMigrationRequest: self._on_request,
            TaskMigrationProcessRequest: self._on_process,
            TakeOver: self._on_take_over,
            Released: self._on_released,
            MigrationCancelled: self._on_cancelled,
            Measured: self._on_measured,
            TaskEnded: self._on_ended,
        }

    def check(self) -> None:
        """The sums are those of the tasks here and coming, to the last digit."""
        sums = self.books.sums(len(self.total))
        for coming in self.coming.values():
            sums.add(coming.task, coming.use)
        assert sums.same(self.sums), f"{self.name}: the sums are not those of its tasks"

    def overloaded(self) -> bool:
        return is_overloaded(self._amounts, self.sums.used, self.sums.guaranteed)

    # Time: reports, and what was waited for too long.

    def _start(self) -> None:
        super()._start()
        if self.books.tasks:
            self._suspend()
        self._when_report(None)
        for migration in self.books.taken:
            self._when_taken(migration)
        if self.settings.moves and self.settings.offload_s > 0:
            self._set_timer(self._now + self._rng.random() * self.settings.offload_s, "offload")

    def _when_report(self, _: None) -> None:
        report = NodeReport(self.name, self._now, level_of(self.total, self.sums), self.attributes)
        self._send(self._brokers[0], report)
        # The first period is cut short at random, so that nodes started together do not report
        # together.
        period = self.settings.report_s * (1.0 if self._reported else self._rng.random())
        self._reported = True
        self._set_timer(self._now + period, "report")

    def _when_coming(self, migration: Migration) -> None:
        """Room that was not used in time is free again."""
        if migration in self.coming and self.coming[migration].until <= self._now:
            self._drop_coming(migration)

    def _when_taken(self, migration: Migration) -> None:
        """Tell the source once more, until it has forgotten the task."""
        if migration in self.books.taken:
            self._send(migration[0], TakenOver(self.name, migration))
            self._set_timer(self._now + self.settings.retry_max_s, "taken", migration)

    # What comes.

    def _allows(self, task: Task, use: Vector, forced: bool) -> bool:
        """Accept or deny (4.2.2). By force only the node's totals and the task's constraints count
        (6.6)."""
        request = np.array(task.request, np.int64)
        if not meets(task.constraints, self.attributes):
            return False
        if forced:
            return fits_at_all(self._amounts, request)
        free, firm = self._amounts - self.sums.used, self._amounts - self.sums.guaranteed
        return accepts(self._amounts, free, firm, np.array(use), request, task.production)

    def _on_request(self, request: TaskMigrationRequest) -> None:
        if self._allows(request.task, request.use, False):
            level = level_of(self.total, self.sums)
            self._send(
                request.sender, TaskMigrationAcceptanceResponse(self.name, request.number, level)
            )
        else:
            self._send(request.sender, TaskMigrationRejectionResponse(self.name, request.number))

    def _on_process(self, request: TaskMigrationProcessRequest) -> None:
        """The final check (6.5). A migration is decided once; asked again, the answer is the same
        or no."""
        migration, (source, number) = request.migration, request.migration
        if migration not in self.coming:
            known = number <= self.books.highest.get(source, 0)
            self.books.highest[source] = max(number, self.books.highest.get(source, 0))
            if (
                known
                or source in self._gone
                or not self._allows(request.task, request.use, request.forced)
            ):
                self._send(request.sender, TaskMigrationProcessErrorResponse(self.name, migration))
                return
            transfer_s = request.megabytes / self.settings.mb_per_s
            until = self._now + self.settings.hold_s + 2 * transfer_s
            self.coming[migration] = Coming(request.task, request.use, until, request.forced)
            self.sums.add(request.task, request.use)
            self._set_timer(until, "coming", migration)
        self._send(request.sender, TaskMigrationProcessConfirmationResponse(self.name, migration))

    def _drop_coming(self, migration: Migration) -> None:
        coming = self.coming.pop(migration, None)
        if coming is not None:
            self.sums.add(coming.task, coming.use, -1)

    def _on_cancelled(self, cancelled: MigrationCancelled) -> None:
        source, number = cancelled.migration
        self.books.highest[source] = max(number, self.books.highest.get(source, 0))
        self._drop_coming(cancelled.migration)

    def _on_take_over(self, order: TakeOver) -> None:
        """The source has stopped the task: run it if room is set aside for it, otherwise say that
        none is."""
        migration = order.migration
        coming = self.coming.pop(migration, None)
        if coming is not None:
            held = Held(coming.task, coming.use, Status.RUNNING, came_by=migration)
            if coming.forced:
                held.stays_until = self._now + self.settings.recommendation_s
            self.books.tasks[coming.task.name] = held
            self.books.taken[migration] = coming.task.name
            self._set_timer(self._now + self.settings.retry_max_s, "taken", migration)
            self._send(None, RunTask(coming.task))
        known = migration in self.books.taken
        self._send(order.sender, (TakenOver if known else NotTaken)(self.name, migration))

    def _on_released(self, released: Released) -> None:
        """The source has forgotten the task: it may move on from here."""
        held = self.books.tasks.get(self.books.taken.pop(released.migration, ""))
        if held is not None and held.came_by == released.migration:
            held.came_by = None

    def _on_gone(self, gone: NodeGone) -> None:
        super()._on_gone(gone)
        for migration in [m for m in self.coming if m[0] == gone.node]:
            self._drop_coming(migration)
        for migration in [m for m in self.books.taken if m[0] == gone.node]:
            self._on_released(Released(gone.node, migration))

    # What is here.

    def _on_measured(self, measured: Measured) -> None:
        for name, use in measured.use.items():
            held = self.books.tasks.get(name)
            if held is not None and held.status is Status.RUNNING:
                self.sums.change_use(held.use, use)
                held.use, held.measured = use, True
        self._suspend()
        self._monitor()

    def _on_ended(self, ended: TaskEnded) -> None:
        held = self.books.tasks.get(ended.task)
        if held is None or held.status is not Status.RUNNING:
            return
        negotiation = self.negotiations.get(ended.task)
        if negotiation is not None:
            if negotiation.phase in (Phase.ROOM, Phase.TRANSFER):
                self._cancel(negotiation)
            self._end(negotiation)
        self._forget(held)

    def _forget(self, held: Held) -> None:
        if held.status is Status.STOPPED:
            self.counts["megabytes"] += round(self.megabytes(held))
        self.sums.add(held.task, held.use, -1)
        self._stuck.pop(held.task.name, None)
        super()._forget(held)
        self._suspend()

    def _give_up(self, negotiation: Negotiation, nowhere: bool) -> None:
        if nowhere:
            self._stuck[negotiation.task] = self._now + self.settings.recommendation_s
        super()._give_up(negotiation, nowhere)

    # A spike: others stand still before a production task is short.

    def _suspend(self) -> None:
        if self._still == () and not (self.sums.used > self._amounts).any():
            return
        here = [held for held in self.books.tasks.values() if held.status is Status.RUNNING]
        use = np.array([held.use for held in here], np.int64).reshape(len(here), len(self.total))
        production = np.array([held.task.production for held in here], np.bool_)
        used, flags = use.sum(axis=0), np.zeros(len(here), np.bool_)
        suspend(self._amounts, used, use, production, flags)
        still = tuple(held.task.name for held, stands in zip(here, flags, strict=True) if stands)
        if still != self._still:
            self.counts["suspended"] += len(set(still) - set(self._still or ()))
            self._still = still
            self._send(None, StandStill(still))

    # Step 1: which tasks to give away.

    def _monitor(self) -> None:
        """Tasks that may not be here leave; if the node is overloaded without them, so does a set
        that relieves it."""
        if not self.settings.moves:
            return
        staying = [held for name, held in self.books.tasks.items() if name not in self.negotiations]
        for held in [h for h in staying if not self._may_stay(h.task)]:
            if self._movable(held):
                self._begin(held.task.name)
                staying.remove(held)
        if not self.overloaded():
            return
        used, guaranteed = self.sums.used.copy(), self.sums.guaranteed.copy()
        for name in self.negotiations:
            held = self.books.tasks[name]
            used -= held.use
            if held.task.production:
                guaranteed -= held.task.request
        if is_overloaded(self._amounts, used, guaranteed):
            for held in self._selected(staying, used, guaranteed):
                self._begin(held.task.name)

    def _may_stay(self, task: Task) -> bool:
        return all(a <= b for a, b in zip(task.request, self.total, strict=True)) and meets(
            task.constraints, self.attributes
        )

    def _movable(self, held: Held) -> bool:
        """Whether the task may leave: its last move is over, it did not just come by force (others
        make room for it, 6.6), and some node may have room."""
        until = max(held.stays_until, self._stuck.get(held.task.name, 0.0))
        return held.came_by is None and until <= self._now

    def _columns(self, staying: Sequence[Held]) -> selection.Tasks:
        return selection.Tasks(
            np.array([held.use for held in staying], np.int64),
            np.array([held.task.request for held in staying], np.int64),
            np.array([held.task.production for held in staying], np.bool_),
            np.array([self.megabytes(held) for held in staying]),
            np.array([self._movable(held) for held in staying], np.bool_),
        )

    def _selected(self, staying: Sequence[Held], used: Any, guaranteed: Any) -> list[Held]:
        """The fittest set of tasks to give away; empty if none makes the node stable."""
        if not staying:
            return []
        tasks, chosen = self._columns(staying), np.zeros(len(staying), np.bool_)
        arguments = (
            self._amounts,
            used,
            guaranteed,
            tasks,
            chosen,
            selection.work(len(staying), len(self.total)),
        )
        settings = self.settings
        if settings.selection == "tabu":
            state = np.zeros(4, np.uint64)
            save(np.random.SFC64(int(self._rng.integers(2**62))), state)
            tabu = settings.tabu
            visited = np.zeros(tabu.restarts * (tabu.steps + 1), np.int64)
            limits = (tabu.restarts, tabu.steps, tabu.patience)
            with np.errstate(over="ignore"):
                self._searches.tabu(*arguments, state, *limits, tabu.counts_restarts, visited)
        else:
            self._searches.select(*arguments, settings.exact_max)
        return [held for held, leaves in zip(staying, chosen, strict=True) if leaves]

    def _when_offload(self, _: None) -> None:
        """A disproportional node moves the one task whose leaving raises its score most per
        megabyte (an option)."""
        if self.settings.offload_s <= 0:
            return
        self._set_timer(self._now + self.settings.offload_s, "offload")
        free = self._amounts - self.sums.used
        kind = allocation_type(self._amounts, free, self.sums.guaranteed, not self.books.tasks)
        if kind != DA or self.negotiations:
            return
        before, best, chosen = self._score(self.sums.used), 0.0, ""
        for name, held in self.books.tasks.items():
            gain = self._score(self.sums.used - held.use) - before
            if self._movable(held) and gain / self.megabytes(held) > best:
                best, chosen = gain / self.megabytes(held), name
        if chosen:
            self.counts["offloads"] += 1
            self._begin(chosen)

    def _score(self, used: Any) -> float:
        return sras(np.where(self._amounts > 0, used / np.maximum(self._amounts, 1), -1.0))
