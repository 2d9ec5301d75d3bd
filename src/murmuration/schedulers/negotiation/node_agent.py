"""The node agent: keeps its own node stable, and decides what comes to it (Sliwko and Getov, 4.2).

It is told what its tasks use, reports to its broker, and gives tasks away when its node is
overloaded. Asked for room, it counts what it has, what comes, and what is still leaving. Reserved
room is dropped when the task does not come; whatever is dropped or refused once is refused
forever, so that old messages change nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from murmuration.base.random import save
from murmuration.cluster.allocation_types import DA, allocation_type
from murmuration.placement.allocation_scores import sras_bands
from murmuration.schedulers.agent import Message, Wake
from murmuration.schedulers.negotiation import messages as m
from murmuration.schedulers.negotiation import selection
from murmuration.schedulers.negotiation.broker import meets
from murmuration.schedulers.negotiation.giver import Giver, Negotiation
from murmuration.schedulers.negotiation.memory import (
    MigrationSeen,
    NegotiationMemory,
    OwnedTask,
    SourceReleased,
    TaskState,
    TaskTaken,
)
from murmuration.schedulers.negotiation.messages import Attributes, Migration, MobileTask, Vector
from murmuration.schedulers.negotiation.phases import NegotiationPhase
from murmuration.schedulers.negotiation.rules import accepts, fits_at_all, is_overloaded, suspend
from murmuration.schedulers.negotiation.settings import NegotiationSettings
from murmuration.schedulers.negotiation.sums import Sums


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room for a task that is to come, until a time."""

    task: MobileTask
    use: Vector
    until: float
    forced: bool


@dataclass(frozen=True)
class Searches:
    """How sets of tasks are searched: plain, or the same functions compiled."""

    select: Callable[..., float] = selection.select
    tabu: Callable[..., float] = selection.tabu


class NegotiatingNode(Giver):
    """One node: its tasks, and what comes to it."""

    def __init__(
        self,
        name: str,
        brokers: Sequence[str],
        total: Vector,
        settings: NegotiationSettings,
        rng: np.random.Generator,
        memory: NegotiationMemory,
        authorities: Collection[str] = (),
        attributes: Attributes | None = None,
        searches: Searches | None = None,
    ) -> None:
        super().__init__(name, brokers, len(total), settings, rng, memory, authorities)
        self.total, self.attributes = total, attributes or {}
        #: Room that is reserved for migrations towards this node; lost in a crash, which refuses
        #: them.
        self.reserved: dict[Migration, Reservation] = {}
        #: What tasks here and those with a reservation use and request.
        self.sums = self._add_up()
        self._amounts = np.array(total, np.int64)
        self._searches = searches or Searches()
        self._reported = False
        #: Tasks that are suspended; not known at the start.
        self._suspended: tuple[str, ...] | None = None if memory.tasks else ()
        #: A task that was forced on this node is not given away before this time.
        self._stays_until: dict[str, float] = {}
        #: Tasks that no other node could hold, and until when that is believed.
        self._stuck: dict[str, float] = {}

    def _dispatch(self, event: Message, now: float) -> None:
        """All that a node agent hears (`ToNode`), and who takes it."""
        match event:
            case Wake():
                self._on_wake(now)
            case m.Measured():
                self._on_measured(event)
            case m.TaskFinished():
                self._on_ended(event)
            case m.TaskMigrationRequest():
                self._on_request(event)
            case m.TaskMigrationProcessRequest():
                self._on_process(event)
            case m.TakeOver():
                self._on_take_over(event)
            case m.Released():
                self._on_released(event)
            case m.MigrationCancelled():
                self._on_cancelled(event)
            case m.NodeGone():
                self._on_gone(event)
            case _:
                self._dispatch_answer(event)

    def _dispatch_answer(self, event: Message) -> None:
        """The rest: answers to what the node asked to give tasks away (`giver.py`)."""
        match event:
            case m.GetCandidateNodesResponse():
                self._on_candidates(event)
            case m.TaskMigrationAcceptanceResponse():
                self._on_acceptance(event)
            case m.TaskMigrationRejectionResponse():
                self._on_rejection(event)
            case m.TaskMigrationProcessConfirmationResponse():
                self._on_confirmation(event)
            case m.TaskMigrationProcessErrorResponse():
                self._on_error(event)
            case m.MigrationFinished():
                self._on_finished(event)
            case m.TakenOver():
                self._on_taken_over(event)
            case m.NotTaken():
                self._on_not_taken(event)
            case _:
                raise AssertionError(f"{self.name} may not hear {event.key}")

    def _add_up(self) -> Sums:
        """The sums of all tasks here and of all reservations."""
        sums = Sums(len(self.total))
        for name, owned in self.memory.tasks.items():
            sums.add(owned.task, self.use[name])
        for reservation in self.reserved.values():
            sums.add(reservation.task, reservation.use)
        return sums

    def check(self) -> None:
        """The sums are those of the tasks here and coming, to the last digit."""
        assert self._add_up().same(self.sums), f"{self.name}: the sums are not those of its tasks"

    def overloaded(self) -> bool:
        return is_overloaded(self._amounts, self.sums.used, self.sums.guaranteed)

    # Time: reports, and what was waited for too long.

    def _start(self) -> None:
        if self.memory.tasks:
            running = self.memory.in_state(TaskState.RUNNING)
            self._do(m.KeepRunning(tuple(owned.task for owned in running)))
            for owned in self.memory.in_state(TaskState.STOPPED):
                self._do(m.HaltTask(owned.task.name))
        super()._start()
        self._when_report(None)
        for migration in self.memory.taken:
            self._when_taken(migration)
        period = self.settings.offload_s
        if self.settings.moves and period > 0:
            self._set_timer(self._now + self._rng.random() * period, self._when_offload)

    def _when_report(self, _: None) -> None:
        report = m.NodeReport(
            self.name, self._number(), self.sums.load(self.total), self.attributes
        )
        self._send(self._brokers[0], report)
        # The first period is cut short at random, so that nodes started together do not report
        # together.
        period = self.settings.report_s * (1.0 if self._reported else self._rng.random())
        self._reported = True
        self._set_timer(self._now + period, self._when_report)

    def _when_reserved(self, migration: Migration) -> None:
        """Room that was not used in time is free again."""
        if migration in self.reserved and self.reserved[migration].until <= self._now:
            self._drop_reservation(migration)

    def _when_taken(self, migration: Migration) -> None:
        """Tell the source once more, until it has forgotten the task."""
        if migration in self.memory.taken:
            self._send(migration[0], m.TakenOver(self.name, migration))
            self._set_timer(self._now + self.settings.retry_max_s, self._when_taken, migration)

    # What comes.

    def _allows(self, task: MobileTask, use: Vector, forced: bool) -> bool:
        """Accept or deny (4.2.2). A forced task is judged by the node's totals and its constraints
        alone (6.6)."""
        request = np.array(task.request, np.int64)
        if not meets(task.constraints, self.attributes):
            return False
        if forced:
            return fits_at_all(self._amounts, request)
        free, unreserved = self._amounts - self.sums.used, self._amounts - self.sums.guaranteed
        return accepts(self._amounts, free, unreserved, np.array(use), request, task.production)

    def _on_request(self, request: m.TaskMigrationRequest) -> None:
        if self._allows(request.task, request.use, False):
            load = self.sums.load(self.total)
            answer = m.TaskMigrationAcceptanceResponse(self.name, request.number, load)
            self._send(request.sender, answer)
        else:
            rejection = m.TaskMigrationRejectionResponse(self.name, request.number)
            self._send(request.sender, rejection)

    def _on_process(self, request: m.TaskMigrationProcessRequest) -> None:
        """The final check (6.5). A migration is decided once; asked again, the answer is the same
        or no.

        Only its source may ask for a migration. Its number is noted before it is answered: a node
        that crashed and forgot it might reserve room again for a migration it has refused.
        """
        migration, (source, number) = request.migration, request.migration
        if migration not in self.reserved:
            known = number <= self.memory.highest.get(source, 0)
            if not known:
                self._note(MigrationSeen(source, number))
            if (
                known
                or source != request.sender
                or source in self._gone
                or not self._allows(request.task, request.use, request.forced)
            ):
                error = m.TaskMigrationProcessErrorResponse(self.name, migration)
                self._send(request.sender, error)
                return
            self._reserve(request)
        confirmation = m.TaskMigrationProcessConfirmationResponse(self.name, migration)
        self._send(request.sender, confirmation)

    def _reserve(self, request: m.TaskMigrationProcessRequest) -> None:
        transfer_s = request.megabytes / self.settings.mb_per_s
        until = self._now + self.settings.hold_s + 2 * transfer_s
        reservation = Reservation(request.task, request.use, until, request.forced)
        self.reserved[request.migration] = reservation
        self.sums.add(request.task, request.use)
        self._set_timer(until, self._when_reserved, request.migration)

    def _drop_reservation(self, migration: Migration) -> None:
        reservation = self.reserved.pop(migration, None)
        if reservation is not None:
            self.sums.add(reservation.task, reservation.use, -1)

    def _on_cancelled(self, cancelled: m.MigrationCancelled) -> None:
        source, number = cancelled.migration
        if source == cancelled.sender:
            if number > self.memory.highest.get(source, 0):
                self._note(MigrationSeen(source, number))
            self._drop_reservation(cancelled.migration)

    def _on_take_over(self, order: m.TakeOver) -> None:
        """The source has stopped the task: run it if room is reserved for it, otherwise say that
        none is."""
        migration = order.migration
        if order.sender != migration[0]:
            return
        reservation = self.reserved.pop(migration, None)
        if reservation is not None:
            self._take_task(migration, reservation)
        known = migration in self.memory.taken
        self._send(order.sender, (m.TakenOver if known else m.NotTaken)(self.name, migration))

    def _take_task(self, migration: Migration, reservation: Reservation) -> None:
        name = reservation.task.name
        self._note(TaskTaken(reservation.task, migration))
        self.use[name] = reservation.use
        if reservation.forced:
            self._stays_until[name] = self._now + self.settings.recommendation_s
        self._set_timer(self._now + self.settings.retry_max_s, self._when_taken, migration)
        self._do(m.RunTask(reservation.task))

    def _on_released(self, released: m.Released) -> None:
        """The source has forgotten the task: it may move on from here."""
        if released.migration in self.memory.taken and released.sender == released.migration[0]:
            self._note(SourceReleased(released.migration))

    def _on_gone(self, gone: m.NodeGone) -> None:
        super()._on_gone(gone)
        if gone.node in self._gone:
            for migration in [m for m in self.reserved if m[0] == gone.node]:
                self._drop_reservation(migration)
            for migration in [m for m in self.memory.taken if m[0] == gone.node]:
                self._note(SourceReleased(migration))

    # What is here.

    def _on_measured(self, measured: m.Measured) -> None:
        changes = [0] * len(self.total)
        for name, use in measured.use.items():
            owned = self.memory.tasks.get(name)
            if owned is not None and owned.state is TaskState.RUNNING:
                for r, before in enumerate(self.use[name]):
                    changes[r] += use[r] - before
                self.use[name] = use
                self.measured.add(name)
        self.sums.used += changes
        self._suspend()
        self._monitor()

    def _on_ended(self, ended: m.TaskFinished) -> None:
        owned = self.memory.tasks.get(ended.task)
        if owned is None or owned.state is not TaskState.RUNNING:
            return
        negotiation = self.negotiations.get(ended.task)
        if negotiation is not None:
            if negotiation.phase in (NegotiationPhase.ROOM, NegotiationPhase.TRANSFER):
                self._cancel(negotiation)
            self._end(negotiation)
        self._forget(owned)

    def _forget(self, owned: OwnedTask) -> None:
        if owned.state is TaskState.STOPPED:
            self.counts["megabytes"] += round(self.megabytes(owned))
        self.sums.add(owned.task, self.use[owned.task.name], -1)
        self._stuck.pop(owned.task.name, None)
        self._stays_until.pop(owned.task.name, None)
        super()._forget(owned)
        self._suspend()

    def _give_up(self, negotiation: Negotiation, nowhere: bool) -> None:
        if nowhere:
            self._stuck[negotiation.task] = self._now + self.settings.recommendation_s
        super()._give_up(negotiation, nowhere)

    # A spike: others are suspended before a production task is short.

    def _suspend(self) -> None:
        if self._suspended == () and not (self.sums.used > self._amounts).any():
            return
        here = self.memory.in_state(TaskState.RUNNING)
        use = np.array([self.use[owned.task.name] for owned in here], np.int64).reshape(
            len(here), len(self.total)
        )
        production = np.array([owned.task.production for owned in here], np.bool_)
        used, flags = use.sum(axis=0), np.zeros(len(here), np.bool_)
        suspend(self._amounts, used, use, production, flags)
        suspended = tuple(owned.task.name for owned, flag in zip(here, flags, strict=True) if flag)
        if suspended != self._suspended:
            self.counts["suspended"] += len(set(suspended) - set(self._suspended or ()))
            self._suspended = suspended
            self._do(m.SuspendTasks(suspended))

    # Step 1: which tasks to give away.

    def _monitor(self) -> None:
        """Tasks that may not be here leave; if the node is overloaded without them, so does a set
        that relieves it."""
        if not self.settings.moves:
            return
        staying = [
            owned for name, owned in self.memory.tasks.items() if name not in self.negotiations
        ]
        for owned in [h for h in staying if not self._may_stay(h.task)]:
            if self._movable(owned):
                self._ask_broker(Negotiation(owned.task.name))
                staying.remove(owned)
        if not self.overloaded():
            return
        used, guaranteed = self.sums.used.copy(), self.sums.guaranteed.copy()
        for name in self.negotiations:
            owned = self.memory.tasks[name]
            used -= self.use[name]
            if owned.task.production:
                guaranteed -= owned.task.request
        if is_overloaded(self._amounts, used, guaranteed):
            for owned in self._select_tasks(staying, used, guaranteed):
                self._ask_broker(Negotiation(owned.task.name))

    def _may_stay(self, task: MobileTask) -> bool:
        is_too_large = any(map(operator.gt, task.request, self.total))
        return not is_too_large and meets(task.constraints, self.attributes)

    def _movable(self, owned: OwnedTask) -> bool:
        """Whether the task may leave: its last move is over, it was not forced here just now
        (others make room for it, 6.6), and some node may have room."""
        name = owned.task.name
        until = max(self._stays_until.get(name, -np.inf), self._stuck.get(name, -np.inf))
        return until <= self._now and name not in self.memory.taken.values()

    def _columns(self, staying: Sequence[OwnedTask]) -> selection.Tasks:
        return selection.Tasks(
            np.array([self.use[owned.task.name] for owned in staying], np.int64),
            np.array([owned.task.request for owned in staying], np.int64),
            np.array([owned.task.production for owned in staying], np.bool_),
            np.array([self.megabytes(owned) for owned in staying]),
            np.array([self._movable(owned) for owned in staying], np.bool_),
        )

    def _select_tasks(
        self, staying: Sequence[OwnedTask], used: Any, guaranteed: Any
    ) -> list[OwnedTask]:
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
        return [owned for owned, leaves in zip(staying, chosen, strict=True) if leaves]

    def _when_offload(self, _: None) -> None:
        """A disproportional node moves the one task whose leaving raises its score most per
        megabyte (an option)."""
        if self.settings.offload_s <= 0:
            return
        self._set_timer(self._now + self.settings.offload_s, self._when_offload)
        free = self._amounts - self.sums.used
        kind = allocation_type(self._amounts, free, self.sums.guaranteed, not self.memory.tasks)
        if kind != DA or self.negotiations:
            return
        before, best, chosen = self._score(self.sums.used), 0.0, ""
        for name, owned in self.memory.tasks.items():
            gain = self._score(self.sums.used - self.use[name]) - before
            if self._movable(owned) and gain / self.megabytes(owned) > best:
                best, chosen = gain / self.megabytes(owned), name
        if chosen:
            self.counts["offloads"] += 1
            self._ask_broker(Negotiation(chosen))

    def _score(self, used: Any) -> float:
        return sras_bands(np.where(self._amounts > 0, used / np.maximum(self._amounts, 1), -1.0))
