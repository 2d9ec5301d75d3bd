"""Schedulers from outside: by offers (Table 5.1), or by optimistic transactions on a private copy
of the table (6.1).

Both are plain blocking Python: connect to the cluster of a folder, decide, and hear what became
of it. A task's command, environment and size are given with `new_task`; its name is the scheduler's
own.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from murmuration.base.errors import InputError
from murmuration.runtime.client.requests import ApiClient
from murmuration.runtime.folder import find_folder
from murmuration.runtime.net.directory import FolderDirectory, no_cluster
from murmuration.runtime.net.sockets import dial
from murmuration.runtime.net.wire import (
    FrameReader,
    Hello,
    HelloAnswer,
    WireError,
    YourTurn,
    encode,
)
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
GONE = "the master has gone; connect again"


class OutsideScheduler:
    """A connection to the master under a name of one's own; tasks outlive it until `unregister`."""

    def __init__(
        self,
        name: str,
        folder: Path | str | None = None,
        weight: float = 1.0,
        guaranteed: float = 0.0,
        stand_by: bool = False,
    ) -> None:
        self.name = name
        self._register = Register(name, weight, guaranteed)
        self.folder = find_folder(None if folder is None else Path(folder))
        directory = FolderDirectory(self.folder)
        address, credentials = directory.leader().frames, directory.credentials()
        self._reader, self._waiting = FrameReader(), deque[Any]()
        try:
            self._socket = dial(address, ANSWER_S, credentials.client_tls)
        except OSError as error:
            raise no_cluster(self.folder) from error
        try:
            self._names, self.is_acting = self._greet(credentials.token, stand_by)
            if self.is_acting:
                self.send(self._register)
        except BaseException:
            self.close()
            raise

    def _greet(self, token: str, stand_by: bool) -> tuple[tuple[str, ...], bool]:
        """Say who this is; the names of the cluster's resources, and whether no other one acts."""
        self.send(Hello(token, "scheduler", self.name, stand_by), request=1)
        answer = self._await(HelloAnswer)
        if answer.error:
            raise InputError(f"scheduler {self.name!r}: {answer.error}")
        return answer.resources, not answer.waits

    def await_turn(self, timeout_s: float = float("inf")) -> bool:
        """For one that stands by: wait until the scheduler of this name is gone, and act from then
        on; False if it was not in time. Ask then what became of its tasks (`reconcile`): how
        schedulers of one name know of each other's is their own affair."""
        deadline = time.monotonic() + timeout_s
        while not self.is_acting and (left := deadline - time.monotonic()) > 0.0:
            if isinstance(self.receive(min(left, ANSWER_S)), YourTurn):
                self.is_acting = True
                self.send(self._register)
        return self.is_acting

    @property
    def resources(self) -> Resources:
        from murmuration.base.resources import Resources

        return Resources(self._names)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    # Messages.

    def send(self, message: Any, request: int = 0) -> None:
        try:
            self._socket.sendall(encode(message, request=request))
        except OSError as error:
            raise ConnectionError(GONE) from error

    def receive(self, timeout_s: float = ANSWER_S) -> Any:
        """The next message, or None if none came in time."""
        deadline = time.monotonic() + timeout_s
        while not self._waiting:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                return None
            except OSError as error:
                raise ConnectionError(GONE) from error
            if not data:
                raise ConnectionError(GONE)
            try:
                self._waiting.extend(message for _, _, message in self._reader.feed(data))
            except WireError as error:
                raise ConnectionError(str(error)) from error
        return self._waiting.popleft()

    def _await(self, kind: type) -> Any:
        """The next message of a kind; what came before it waits its turn."""
        passed: list[Any] = []
        while not isinstance(message := self.receive(), kind):
            if message is None:
                raise ConnectionError("the master did not answer in time")
            passed.append(message)
        self._waiting.extendleft(reversed(passed))
        return message

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

    def set_needs_offers(self, needs: bool) -> None:
        self.send(SetNeedsOffers(self.name, needs))

    def set_filters(
        self, nodes: Sequence[str] | None = None, at_least: Mapping[str, str | float] | None = None
    ) -> None:
        """Be offered only these nodes, only nodes with so much free."""
        amount = tuple(int(a) for a in self.resources.vector(at_least)) if at_least else ()
        self.send(
            SetFilters(self.name, Filters(None if nodes is None else frozenset(nodes), amount))
        )

    def get_guaranteed_share(self) -> Vector:
        self.send(GetGuaranteedShare(self.name))
        share = self._await(GuaranteedShare)
        assert isinstance(share, GuaranteedShare)
        return share.amount

    def run(self, seconds: float = float("inf")) -> None:
        """Handle messages for so long, or until `stop` is called in a callback."""
        self._stopped, deadline = False, time.monotonic() + seconds
        while not self._stopped and (left := deadline - time.monotonic()) > 0.0:
            message = self.receive(min(left, 1.0))
            if message is not None:
                self.handle(message)

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
        attributes = {
            row["node"]: row["attributes"] for row in ApiClient(self.folder).get("nodes")["nodes"]
        }
        self._seen = {row.node: row.sequence for row in table.rows}
        names = tuple(row.node for row in table.rows)
        shape = (len(names), len(self._names))
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
