"""Ways to break the control plane, each a change of one function. The fault schedules of several
masters must notice every one of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from murmuration.experiments.control_plane import masters
from murmuration.runtime.net.etcd_client import EtcdClient, put
from murmuration.runtime.store import etcd
from murmuration.runtime.store.etcd import EtcdStore
from murmuration.runtime.store.interface import Entry, StoreError
from murmuration.schedulers.agent import Disconnected, Message, Note
from murmuration.schedulers.central import jobs, node_agent, state
from murmuration.schedulers.central import master as central_master
from murmuration.schedulers.central.leader_lease import LeaderLease
from murmuration.schedulers.central.leases import Leases
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.memory import MasterMemory
from murmuration.schedulers.central.messages import (
    HeartbeatSeen,
    JobSubmitted,
    Launch,
    Recover,
    RunEnded,
    TaskEnded,
    TaskPlaced,
)
from murmuration.schedulers.central.node_agent import CentralNodeAgent
from murmuration.schedulers.offers import master as offers_master
from murmuration.schedulers.offers.master import Master
from murmuration.schedulers.offers.messages import (
    CommitTasks,
    NodeJoined,
    Reconcile,
    Register,
    ReplyToOffer,
)
from murmuration.schedulers.offers.work import WorkFramework, WorkTried

#: Sets an attribute of an object until the test is over.
Patch = Callable[[Any, str, Any], None]
MUTANTS: dict[str, Callable[[Patch], None]] = {}


def mutant(apply: Callable[[Patch], None]) -> Callable[[Patch], None]:
    MUTANTS[apply.__name__] = apply
    return apply


def without(kind: type, function: Any) -> Any:
    """The function, deaf to one kind of message in its first argument."""

    def deaf(self: Any, message: Any, *rest: Any) -> Any:
        return None if isinstance(message, kind) else function(self, message, *rest)

    return deaf


# Who leads.


@mutant
def a_leader_believes_in_its_lease_for_twice_its_time(patch: Patch) -> None:
    def renew(self: LeaderLease, asked_s: float, lasts_s: float) -> None:
        self.until_s = asked_s + 2.0 * lasts_s

    patch(LeaderLease, "renew", renew)


@mutant
def a_deposed_leader_goes_on_acting(patch: Patch) -> None:
    patch(LeaderLease, "is_leading", lambda self, now: self.until_s > 0.0)


@mutant
def the_key_is_taken_though_somebody_has_it(patch: Patch) -> None:
    def campaign(client: EtcdClient, key: str, seconds: int) -> tuple[int, float]:
        lease, lasts_s = client.grant(seconds)
        client.commit([], [put(key, b"", lease)])
        return lease, lasts_s

    patch(masters, "campaign", campaign)


# The store.


@mutant
def the_epoch_is_not_checked(patch: Patch) -> None:
    patch(EtcdStore, "_commit", lambda self, operations: self._client.commit([], operations))


@mutant
def an_epoch_is_not_raised(patch: Patch) -> None:
    def same(self: EtcdStore) -> int:
        before = self._client.get(self._epoch)
        if before is None:
            self._client.commit([], [put(self._epoch, b"0")])
        return 0 if before is None else int(before.value)

    patch(EtcdStore, "_next_epoch", same)


@mutant
def a_batch_is_dropped_now_and_then(patch: Patch) -> None:
    write, count = EtcdStore.write, [0]

    def forgetful(self: EtcdStore, entries: Sequence[Entry]) -> None:
        count[0] += 1
        if count[0] % 7:
            write(self, entries)

    patch(EtcdStore, "write", forgetful)


@mutant
def a_failed_write_counts_as_written(patch: Patch) -> None:
    write = EtcdStore.write

    def careless(self: EtcdStore, entries: Sequence[Entry]) -> None:
        try:
            write(self, entries)
        except StoreError:
            return

    patch(EtcdStore, "write", careless)


@mutant
def a_snapshot_loses_a_row(patch: Patch) -> None:
    def lossy(memory: MasterMemory) -> bytes:
        rows = {name: list(table.items()) for name, table in memory.tables.items()}
        rows["tasks"] = rows["tasks"][:-1]
        return msgspec.msgpack.encode(rows)

    patch(etcd, "_encode_tables", lossy)


@mutant
def the_log_is_cut_without_a_snapshot(patch: Patch) -> None:
    write = EtcdStore._write_document

    def skip(self: EtcdStore, folder: str, *rest: Any) -> None:
        if folder != "snapshot":
            write(self, folder, *rest)

    patch(EtcdStore, "_write_document", skip)


@mutant
def the_log_after_a_snapshot_is_not_read(patch: Patch) -> None:
    lines = EtcdStore._lines
    patch(EtcdStore, "_lines", lambda self, after: iter(()) if after else lines(self, after))


@mutant
def the_last_part_of_a_large_batch_is_not_written(patch: Patch) -> None:
    part = EtcdStore._part
    patch(EtcdStore, "_part", lambda self, folder, number, k: part(self, folder, number, k % 2))


@mutant
def a_new_master_numbers_from_the_snapshot(patch: Patch) -> None:
    patch(EtcdStore, "last_number", lambda self: self._snapshot)


@mutant
def placements_are_forgotten(patch: Patch) -> None:
    patch(MasterMemory, "apply", without(TaskPlaced, MasterMemory.apply))


@mutant
def jobs_are_forgotten(patch: Patch) -> None:
    patch(MasterMemory, "apply", without(JobSubmitted, MasterMemory.apply))


@mutant
def ends_are_forgotten(patch: Patch) -> None:
    patch(MasterMemory, "apply", without(TaskEnded, MasterMemory.apply))


# The master.


@mutant
def what_rests_on_a_fact_does_not_wait_for_it(patch: Patch) -> None:
    handle = CentralMaster.handle

    def hasty(self: CentralMaster, event: Message, now: float) -> list[Any]:
        effects = handle(self, event, now)
        return sorted(effects, key=lambda effect: isinstance(effect, Note))

    patch(CentralMaster, "handle", hasty)


@mutant
def a_new_master_gives_no_lease_to_nodes_it_has_not_heard(patch: Patch) -> None:
    def expect(self: Leases, nodes: Any, now: float) -> None:
        return old(self, nodes, now - self.lease_s)

    old = Leases.expect
    patch(Leases, "expect", expect)


@mutant
def a_lease_is_never_ended(patch: Patch) -> None:
    def expire(self: Leases, now: float, tasks: Any = None) -> dict[str, Any]:
        self.due = math.inf
        return {}

    patch(Leases, "expire", expire)


@mutant
def the_term_is_not_said(patch: Patch) -> None:
    def join(self: Leases, event: Any, now: float) -> Any:
        return msgspec.structs.replace(old(self, event, now), term=0)

    old = Leases.join
    patch(Leases, "join", join)


@mutant
def an_end_is_not_recorded(patch: Patch) -> None:
    patch(CentralMaster, "_on_end", lambda self, node, ended: None)


# Node agents.


@mutant
def an_agent_does_not_end_its_tasks_with_its_lease(patch: Patch) -> None:
    def renew(self: CentralNodeAgent, sent_s: float) -> None:
        old(self, sent_s + 1000.0)

    old = CentralNodeAgent._renew
    patch(CentralNodeAgent, "_renew", renew)


@mutant
def a_lease_counts_from_the_answer(patch: Patch) -> None:
    def seen(self: CentralNodeAgent, event: HeartbeatSeen, now: float) -> None:
        self._beats[event.serial] = now + self.agent_timeout_s / 2
        old(self, event, now)

    old = CentralNodeAgent._on_seen
    patch_table(patch, node_agent, HeartbeatSeen, seen)


@mutant
def an_order_of_an_old_connection_is_obeyed(patch: Patch) -> None:
    def launch(self: CentralNodeAgent, event: Launch, now: float) -> None:
        return old(self, msgspec.structs.replace(event, session=self.session), now)

    old = CentralNodeAgent._on_launch
    patch_table(patch, node_agent, Launch, launch)
    patch(CentralNodeAgent, "_is_of_leader", lambda self, event, now: True)


@mutant
def a_doubled_order_starts_twice(patch: Patch) -> None:
    def launch(self: CentralNodeAgent, event: Launch, now: float) -> None:
        self.runs.pop(event.run, None)
        return old(self, event, now)

    old = CentralNodeAgent._on_launch
    patch_table(patch, node_agent, Launch, launch)


@mutant
def an_agent_does_not_say_what_runs(patch: Patch) -> None:
    def send(self: CentralNodeAgent, message: Any) -> None:
        if hasattr(message, "running"):
            message = msgspec.structs.replace(message, running=())
        old(self, message)

    old = CentralNodeAgent._send
    patch(CentralNodeAgent, "_send", send)


@mutant
def an_end_is_told_once(patch: Patch) -> None:
    def send(self: CentralNodeAgent, message: Any) -> None:
        old(self, message)
        if isinstance(message, RunEnded):
            self.runs.pop(message.ended.run, None)

    old = CentralNodeAgent._send
    patch(CentralNodeAgent, "_send", send)


# Offers, transactions and frameworks.


@mutant
def an_offer_is_never_rescinded(patch: Patch) -> None:
    patch(offers_master, "_WHEN", {**offers_master._WHEN, "offer": lambda self, offer: None})


@mutant
def the_ledger_forgets_what_runs_on_a_node_that_joins(patch: Patch) -> None:
    def joined(self: Master, event: NodeJoined) -> None:
        return old(self, msgspec.structs.replace(event, running=()))

    old = Master._on_joined
    patch_table(patch, offers_master, NodeJoined, joined)


@mutant
def a_new_master_says_at_once_that_it_does_not_know_a_task(patch: Patch) -> None:
    def recover(self: CentralMaster, event: Any) -> None:
        old(self, event)
        self.resource_manager.knows_all_s = self._now

    old = CentralMaster._on_recover
    patch_table(patch, central_master, Recover, recover)


@mutant
def a_framework_is_not_told_what_became_of_its_tasks(patch: Patch) -> None:
    patch_table(patch, offers_master, Reconcile, lambda self, event: None)


@mutant
def a_reply_that_comes_twice_is_lost(patch: Patch) -> None:
    def reply(self: Master, event: ReplyToOffer) -> None:
        old(self, event)
        self.clients[event.framework].replied = 0

    old = Master._on_reply
    patch_table(patch, offers_master, ReplyToOffer, reply)


@mutant
def a_transaction_that_comes_twice_is_refused(patch: Patch) -> None:
    def commit(self: Master, event: CommitTasks) -> None:
        old(self, event)
        self.clients[event.framework].commit = None

    old = Master._on_commit
    patch_table(patch, offers_master, CommitTasks, commit)


@mutant
def a_framework_that_comes_back_is_forgotten(patch: Patch) -> None:
    patch_table(patch, offers_master, Register, lambda self, event: self._on_unregister(event))


@mutant
def the_allocator_favours_the_first(patch: Patch) -> None:
    def choose(self: Master, part: Any) -> str | None:
        looks = [name for name, c in self.clients.items() if c.looks_at(part, self._now)]
        return min(looks, default=None)

    patch(Master, "_choose", choose)


@mutant
def a_transaction_is_accepted_without_room(patch: Patch) -> None:
    def accept(ledger: Any, event: Any) -> list[Any]:
        running = {name for _, name in ledger.tasks}
        return [t for t in event.tasks if t.node in ledger.nodes and t.task not in running]

    patch(offers_master, "accept_tasks", accept)


@mutant
def a_framework_does_not_note_its_tries(patch: Patch) -> None:
    def note(self: WorkFramework, fact: Message) -> None:
        old(self, fact)
        if isinstance(fact, WorkTried):
            self._out.pop()

    old = WorkFramework._note
    patch(WorkFramework, "_note", note)


@mutant
def a_framework_takes_its_runs_for_lost_with_the_connection(patch: Patch) -> None:
    def handle(self: WorkFramework, event: Message, now: float) -> list[Any]:
        effects = old(self, event, now)
        if isinstance(event, Disconnected):
            self._out = []
            for each in [each for each in self.memory.pieces.values() if each.is_out]:
                self._free(each.run)
            effects += self._out
        return effects

    old = WorkFramework.handle
    patch(WorkFramework, "handle", handle)


@mutant
def a_job_is_launched_twice(patch: Patch) -> None:
    """A run that is lost is placed again under its own number."""

    def place(self: jobs.JobTable, job: Any, task: Any, node: str, now: float) -> None:
        task.run = max(0, task.run - 1)
        old(self, job, task, node, now)

    def next_run_name(job: Any, task: Any) -> str:
        return f"{job.name}.{task.index}.{max(1, task.run)}"

    old = jobs.JobTable.place
    patch(jobs.JobTable, "place", place)
    patch(state, "next_run_name", next_run_name)


def patch_table(patch: Patch, module: Any, kind: type, function: Any) -> None:
    """Replace what a state machine does with one kind of message."""
    patch(module, "_ON", {**module._ON, kind: function})
