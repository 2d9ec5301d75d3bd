"""Schedulers from outside: by offers (Table 5.1), or by optimistic transactions on a private copy
of the table (6.1).

Both are plain blocking Python: connect to the cluster of a folder, decide, and hear what became
of it. A task's command, environment and size are given with `new_task`; its name is the scheduler's
own.
"""

from __future__ import annotations

import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from murmuration.base.errors import InputError
from murmuration.runtime.client.line import MasterGoneError, MasterLine
from murmuration.runtime.client.links import RefusedError
from murmuration.runtime.client.requests import HERE, ApiClient, Reach
from murmuration.runtime.folder import find_folder
from murmuration.runtime.net.addresses import parse_address
from murmuration.runtime.net.directory import FolderDirectory, JoinDirectory, no_cluster
from murmuration.runtime.net.sockets import check_loopback
from murmuration.runtime.net.wire import Hello, YourTurn
from murmuration.schedulers.agent import Message
from murmuration.schedulers.central.messages import Order
from murmuration.schedulers.offers.messages import (
    CommitTasks,
    Committed,
    Filters,
    GetGuaranteedShare,
    GuaranteedShare,
    KillTask,
    NodeLost,
    OfferRescinded,
    Reconcile,
    Register,
    ReplyToOffer,
    ResourceOffer,
    SetFilters,
    SetNeedsOffers,
    StatusUpdate,
    SyncTable,
    Table,
    Task,
    Unregister,
    Vector,
)

if TYPE_CHECKING:
    from murmuration.base.resources import Resources
    from murmuration.placement.view import View

ANSWER_S = 30.0


class OutsideScheduler:
    """A connection to the master under a name of one's own; tasks outlive it until `unregister`.

    Where there are several, `masters` says where each listens for node agents (`HOST:PORT`):
    connections to those that stand by are kept, and `reconnect` goes on with the next that leads.
    Without, the master is found by the folder, also after it has started again."""

    def __init__(
        self,
        name: str,
        folder: Path | str | None = None,
        weight: float = 1.0,
        guaranteed: float = 0.0,
        stand_by: bool = False,
        *,
        masters: Sequence[str] = (),
    ) -> None:
        self.name, self.is_acting = name, False
        self.folder = find_folder(None if folder is None else Path(folder))
        self._waiting = deque[Any]()
        #: What every master must be told: who this is, and what it wants.
        self._wishes: dict[type[Message], Message] = {}
        self._wishes[Register] = Register(name, weight, guaranteed)
        hello = Hello("", "scheduler", name, stand_by, waits=True)
        self._is_here = not masters
        self._line = MasterLine(_find_directory(self.folder, masters), hello)
        # A scheduler that is dropped without `close` does not keep its name.
        self._end = weakref.finalize(self, self._line.close)
        try:
            self._join(is_patient=False)
        except ConnectionError as error:
            self.close()
            raise (InputError(str(error)) if masters else no_cluster(self.folder)) from error
        except BaseException:
            self.close()
            raise

    def _join(self, timeout_s: float = ANSWER_S, is_patient: bool = True) -> None:
        """Come in at the master that leads."""
        try:
            answer = self._line.connect(timeout_s, is_patient)
        except RefusedError as error:
            raise InputError(f"scheduler {self.name!r}: {error}") from error
        except OSError as error:
            raise ConnectionError(f"no master can be reached: {error}") from error
        self._waiting.clear()
        self._answer, self.is_acting = answer, False
        if not answer.waits:
            self._act()

    def _act(self) -> None:
        self.is_acting = True
        for wish in self._wishes.values():
            self.send(wish)

    def _wish(self, message: Message) -> None:
        """Say what the next master must be told, too."""
        self._wishes[type(message)] = message
        if self.is_acting:
            self.send(message)

    def reconnect(self, timeout_s: float = ANSWER_S) -> None:
        """After a ConnectionError: go on with the master that leads now, or that leads in time. It
        knows what is wanted (offers, filters); ask it what became of tasks (`reconcile`), because
        what was said last may not have been heard. ConnectionError says why there is none."""
        try:
            self._join(timeout_s)
        except InputError as error:
            raise ConnectionError(str(error)) from error

    def await_turn(self, timeout_s: float = float("inf")) -> bool:
        """For one that stands by: wait until the scheduler of this name is gone, and act from then
        on; False if it was not in time. Ask then what became of its tasks (`reconcile`): how
        schedulers of one name know of each other's is their own affair."""
        deadline = time.monotonic() + timeout_s
        while not self.is_acting and (left := deadline - time.monotonic()) > 0.0:
            self.receive(min(left, ANSWER_S))
        return self.is_acting

    @property
    def resources(self) -> Resources:
        from murmuration.base.resources import Resources

        return Resources(self._answer.resources)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._end()

    # Messages.

    def send(self, message: Message) -> None:
        self._line.send(message)

    def receive(self, timeout_s: float = ANSWER_S) -> Any:
        """The next message, or None if none came in time. ConnectionError if the master is gone."""
        if self._waiting:
            return self._waiting.popleft()
        message = self._line.receive(timeout_s)
        if isinstance(message, YourTurn):
            self._act()
        return message

    def _await(self, kind: type) -> Any:
        """The next message of a kind; what came before it waits its turn."""
        passed: list[Any] = []
        while not isinstance(message := self.receive(), kind):
            if message is None:
                raise ConnectionError("the master did not answer in time")
            passed.append(message)
        self._waiting.extendleft(reversed(passed))
        return message

    def _ask_api(self, *path: str) -> Any:
        """What the API of the master that is served says."""
        reach = HERE if self._is_here else Reach((self._answer.api,))
        return ApiClient(self.folder, reach).get(*path)

    # Actions of both kinds of schedulers.

    def new_task(
        self,
        name: str,
        node: str,
        command: Sequence[str],
        resources: Mapping[str, str | float],
        environment: Mapping[str, str] | None = None,
        time_limit_s: float | None = None,
    ) -> Task:
        """A task to launch on a node."""
        request = tuple(int(amount) for amount in self.resources.vector(resources))
        order = Order(tuple(command), dict(environment or {}), time_limit_s)
        return Task(name, node, request, payload=order)

    def kill_task(self, task: str) -> None:
        self.send(KillTask(self.name, task))

    def reconcile(self, tasks: Sequence[str]) -> None:
        """Ask which of these tasks are not alive any more: their ends come as status updates, those
        of tasks that no node has as lost. For a scheduler that was away, or whose master was; ask
        again until nothing is in doubt, because a new master may not know yet."""
        self.send(Reconcile(self.name, tuple(tasks)))

    def unregister(self) -> None:
        """Leave for good: its tasks are killed."""
        self.send(Unregister(self.name))


def _find_directory(folder: Path, masters: Sequence[str]) -> FolderDirectory:
    if not masters:
        return FolderDirectory(folder)
    try:
        addresses = [parse_address(text) for text in masters]
    except ValueError as error:
        raise InputError(f"masters: expected HOST:PORT, {error}") from error
    directory = JoinDirectory(folder, addresses)
    if directory.credentials().client_tls is None:
        # A token is never sent over a network in clear text.
        for address in addresses:
            check_loopback(address.host)
    return directory


class OfferScheduler(OutsideScheduler):
    """A framework scheduler: override the callbacks, then `run`. `resource_offer` answers with the
    tasks to launch."""

    def resource_offer(self, offer: ResourceOffer) -> Sequence[Task]:
        return ()

    def offer_rescinded(self, offer: int) -> None:
        """The offer no longer stands."""

    def status_update(self, update: StatusUpdate) -> None:
        """A task is running, or has ended."""

    def node_lost(self, node: str) -> None:
        """A node has gone; updates on its tasks come too."""

    def reconnected(self) -> None:
        """Another master leads, and knows this scheduler: ask it for tasks in doubt
        (`reconcile`)."""

    def set_needs_offers(self, needs: bool) -> None:
        self._wish(SetNeedsOffers(self.name, needs))

    def set_filters(
        self, nodes: Sequence[str] | None = None, at_least: Mapping[str, str | float] | None = None
    ) -> None:
        """Be offered only these nodes, only nodes with so much free."""
        amount = tuple(int(a) for a in self.resources.vector(at_least)) if at_least else ()
        self._wish(
            SetFilters(self.name, Filters(None if nodes is None else frozenset(nodes), amount))
        )

    def get_guaranteed_share(self) -> Vector:
        self.send(GetGuaranteedShare(self.name))
        share = self._await(GuaranteedShare)
        assert isinstance(share, GuaranteedShare)
        return share.amount

    def run(self, seconds: float = float("inf")) -> None:
        """Handle messages for so long, or until `stop` is called in a callback. If the master is
        gone, go on with the next; ConnectionError if none leads within 30 s."""
        self._stopped, deadline, is_gone = False, time.monotonic() + seconds, False
        while not self._stopped and (left := deadline - time.monotonic()) > 0.0:
            try:
                if is_gone:
                    self._resume(left)
                    is_gone = False
                elif (message := self.receive(min(left, 1.0))) is not None:
                    self.handle(message)
            except MasterGoneError:
                # Also of the next one, while it was told what it must know.
                is_gone = True

    def _resume(self, left: float) -> None:
        deadline = time.monotonic() + left
        self.reconnect(min(left, ANSWER_S))
        if self.await_turn(deadline - time.monotonic()):
            self.reconnected()

    def stop(self) -> None:
        self._stopped = True

    def handle(self, message: Any) -> None:
        match message:
            case ResourceOffer():
                tasks = tuple(self.resource_offer(message))
                self.send(ReplyToOffer(self.name, message.offer, tasks))
            case OfferRescinded():
                self.offer_rescinded(message.offer)
            case StatusUpdate():
                self.status_update(message)
            case NodeLost():
                self.node_lost(message.node)


class SharedStateScheduler(OutsideScheduler):
    """A scheduler of shared state: `sync`, decide on the view, `commit`; what conflicts is refused
    and tried again."""

    _transaction = 0

    def sync(self) -> View:
        """A private copy of the table, in the shape every policy reads."""
        import numpy as np

        from murmuration.placement.view import View

        self.send(SyncTable(self.name))
        table = self._await(Table)
        attributes = {row["node"]: row["attributes"] for row in self._ask_api("nodes")["nodes"]}
        self._seen = {row.node: row.sequence for row in table.rows}
        names = tuple(row.node for row in table.rows)
        shape = (len(names), len(self._answer.resources))
        return View(
            self.resources,
            names,
            tuple(attributes.get(name, {}) for name in names),
            np.array([row.total for row in table.rows], dtype=np.int64).reshape(shape),
            np.array([row.free for row in table.rows], dtype=np.int64).reshape(shape),
            np.ones(len(names), dtype=np.bool_),
            time.time(),
        )

    def commit(
        self, tasks: Sequence[Task], conflict: str = "resource", transaction: str = "incremental"
    ) -> Committed:
        """The transaction of one job on the table as it was synced."""
        self._transaction += 1
        seen = tuple(self._seen.get(task.node, -1) for task in tasks)
        machine, atomic = conflict == "machine", transaction == "all-or-nothing"
        self.send(CommitTasks(self.name, self._transaction, tuple(tasks), seen, machine, atomic))
        outcome = self._await(Committed)
        assert isinstance(outcome, Committed)
        return outcome

    def wait_for(
        self, tasks: Sequence[str], timeout_s: float = ANSWER_S
    ) -> dict[str, StatusUpdate]:
        """The ends of these tasks."""
        ended: dict[str, StatusUpdate] = {}
        deadline = time.monotonic() + timeout_s
        while set(tasks) - set(ended) and (left := deadline - time.monotonic()) > 0.0:
            message = self.receive(left)
            if isinstance(message, StatusUpdate) and message.status != "running":
                ended[message.task] = message
        return ended
