"""The invariants of a cluster that negotiates, as checkers of the driver.

They compare what is on the agents' *disks* with what their hosts really run. A disk may be ahead of
its host, or the host of its disk, only while an effect of the agent is on its way there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from murmuration.schedulers.agent import Effect, Message, Send, speaker_of
from murmuration.schedulers.negotiation.memory import OwnedTask, TaskState
from murmuration.simulation.messages.drive import BrokenError, Checker, VirtualDriver

if TYPE_CHECKING:
    from murmuration.simulation.messages.negotiation.cluster import NegotiatingCluster


class HostsObey(Checker):
    """A node's sums add up, and what its memory says runs is what runs."""

    def __init__(self, cluster: NegotiatingCluster) -> None:
        self._cluster = cluster

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        if name in self._cluster.nodes:
            driver.agent(name).check()
            if driver.has_sent_all(name):
                self.check_node(name)

    def check_node(self, name: str) -> None:
        hosts, memory = self._cluster.hosts, self._cluster.memories[name]
        remembered = {owned.task.name for owned in memory.in_state(TaskState.RUNNING)}
        # What has ended, and the agent is about to hear of.
        remembered -= hosts.finished[name]
        different = remembered ^ set(hosts.tasks_on(name))
        if different:
            raise BrokenError(
                f"{name}: its memory differs from what it runs in {', '.join(sorted(different))}"
            )


class OneOwner(Checker):
    """Every task that was submitted and has not ended has exactly one owner."""

    def __init__(self, cluster: NegotiatingCluster) -> None:
        self._cluster = cluster
        self._changes = 0

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        if self._cluster.hosts.changes != self._changes:
            self._changes = self._cluster.hosts.changes
            self.check_owners()

    def check_owners(self) -> None:
        cluster, hosts = self._cluster, self._cluster.hosts
        owners: dict[str, list[str]] = {}
        for name, memory in cluster.memories.items():
            if name not in cluster.dead:
                for task, owned in memory.tasks.items():
                    if owns(cluster, owned):
                        owners.setdefault(task, []).append(name)
        for task in cluster.arrivals:
            names = owners.get(task, [])
            if len(names) > 1:
                raise BrokenError(f"{task} has {len(names)} owners: {', '.join(names)}")
            if not names and task in hosts.started and task not in hosts.ended | hosts.lost:
                raise BrokenError(f"{task} is owned by nobody")


def owns(cluster: NegotiatingCluster, owned: OwnedTask) -> bool:
    """Whether a task is its agent's: not if it was handed over and the target has it, heard of or
    not."""
    if owned.state is not TaskState.STOPPED:
        return True
    assert owned.migration is not None
    taken = cluster.memories[owned.target].taken
    return owned.target in cluster.dead or owned.migration not in taken


class TrueSpeakers(Checker):
    """Nobody speaks in another's name."""

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        for effect in effects:
            if isinstance(effect, Send) and speaker_of(effect.message) not in (None, name):
                raise BrokenError(f"{name} speaks as {speaker_of(effect.message)}")


class TasksSettled(Checker):
    """In the end every task that neither ended nor went down with its node runs on exactly one, and
    nothing is left over: no hand-over under way, no room reserved, no task waiting."""

    def __init__(self, cluster: NegotiatingCluster) -> None:
        self._cluster = cluster
        self._hosts_obey, self._one_owner = HostsObey(cluster), OneOwner(cluster)

    def end(self, driver: VirtualDriver) -> None:
        cluster = self._cluster
        self._one_owner.check_owners()
        for name in [name for name in cluster.nodes if name not in cluster.dead]:
            self._hosts_obey.check_node(name)
            reserved = len(cluster.agents[name].reserved)
            if reserved:
                raise BrokenError(f"{name} still keeps room for {reserved} tasks")
            taken = len(cluster.memories[name].taken)
            if taken:
                raise BrokenError(f"{name} still waits for {taken} sources to forget a task")
        for task in cluster.arrivals:
            self._check_task(task)

    def _check_task(self, task: str) -> None:
        cluster, hosts = self._cluster, self._cluster.hosts
        holders = [
            name
            for name, memory in cluster.memories.items()
            if task in memory.tasks and name not in cluster.dead
        ]
        if task in hosts.ended:
            if holders or task in hosts.runs:
                raise BrokenError(f"{task} has ended and is still at {', '.join(holders)}")
        elif task not in hosts.lost and holders != [hosts.runs.get(task)]:
            raise BrokenError(
                f"{task} runs on {hosts.runs.get(task)} and is remembered by {', '.join(holders)}"
            )
