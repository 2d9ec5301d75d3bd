"""A recorded cluster again: the scheduler that wrote the recording, event by event; or any policy,
given the pods as they came and went."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from murmuration.base.errors import InputError
from murmuration.experiments.recordings.history import ClusterHistory, PodHistory, read_history
from murmuration.experiments.recordings.virtual_api import ReplayedApi
from murmuration.kubernetes.recording.log import ClusterLog, RecordedBinding
from murmuration.kubernetes.scheduling.options import SchedulerOptions
from murmuration.schedulers.agent import Do, Effect, Message
from murmuration.schedulers.pods.agent import PodScheduler
from murmuration.schedulers.pods.messages import BindPod
from murmuration.simulation.messages.drive import VirtualDriver
from murmuration.simulation.messages.network import FaultSettings, Network

log = logging.getLogger("murmuration.recordings")
#: How long after the end of a recording pods may still find a node.
AFTER_S = 60.0


class RepeatedDecisions(msgspec.Struct, frozen=True):
    """What the scheduler that wrote a recording decides when it is told the same again."""

    events: int
    recorded: list[tuple[str, str]]
    decided: list[tuple[str, str]]

    @property
    def same(self) -> int:
        pairs = zip(self.recorded, self.decided, strict=False)
        return sum(a == b for a, b in pairs)

    @property
    def agrees(self) -> bool:
        return self.recorded == self.decided

    @property
    def difference(self) -> tuple[int, tuple[str, str] | None, tuple[str, str] | None] | None:
        """The first decision that differs: its number, as recorded, and as decided again."""
        for k in range(max(len(self.recorded), len(self.decided))):
            a = self.recorded[k] if k < len(self.recorded) else None
            b = self.decided[k] if k < len(self.decided) else None
            if a != b:
                return k + 1, a, b
        return None


def repeat_decisions(recording: ClusterLog) -> RepeatedDecisions:
    """Tell a fresh scheduler what the recorded one was told, at the same times of its clock.

    A last turn whose bindings were decided but not written down any more, because the process was
    killed between the two, is not held against it.
    """
    options = recording.header.scheduler
    if options is None:
        raise InputError(f"{recording.path}: an observer wrote this; it has no decisions of ours")
    agent, events = options.make_agent(), 0
    recorded: list[tuple[str, str]] = []
    decided: list[tuple[str, str]] = []
    for line in recording:
        if isinstance(line.what, RecordedBinding):
            recorded.append((line.what.pod, line.what.node))
        else:
            events += 1
            decided += bindings_in(_handle(agent, line.what, line.at_s))
    return RepeatedDecisions(events, recorded, decided)


def _handle(agent: PodScheduler, event: Message, now: float) -> list[Effect]:
    """As the driver does: an event the agent cannot handle is dropped."""
    try:
        return agent.handle(event, now)
    except Exception:
        log.exception("the agent could not handle %r", event)
        return []


def bindings_in(effects: Sequence[Effect]) -> list[tuple[str, str]]:
    acts = [effect.act for effect in effects if isinstance(effect, Do)]
    return [(act.pod, act.node) for act in acts if isinstance(act, BindPod)]


class ScheduleFigures(msgspec.Struct, frozen=True):
    """What became of the pods that waited for a node. Nodes in use are counted as a mean over time,
    and as the most at once."""

    pods: int
    bound: int
    wait_mean_s: float
    wait_p99_s: float
    wait_max_s: float
    nodes_mean: float
    nodes_max: int


class AnotherSchedule(msgspec.Struct, frozen=True):
    """The same pods under another policy, beside what was recorded."""

    placement: str
    seed: int
    seconds: float
    recorded: ScheduleFigures
    replayed: ScheduleFigures
    #: Pods bound in both, and how many of those to the same node.
    compared: int
    same: int
    #: Where each pod went, recorded and replayed; empty for nowhere.
    nodes: dict[str, tuple[str, str]]


def schedule_again(
    recording: ClusterLog,
    options: SchedulerOptions,
    scheduler: str | None = None,
) -> AnotherSchedule:
    """Schedule the recorded pods again: all that were seen to wait, or those of one scheduler."""
    history = read_history(recording)

    def is_ours(pod: PodHistory) -> bool:
        return pod.waited and scheduler in (None, pod.scheduler)

    alone = msgspec.structs.replace(options, elect=False)
    driver = VirtualDriver(Network(FaultSettings(), np.random.default_rng(options.seed)))
    api = ReplayedApi(history, driver, alone.make_agent, is_ours, options.name)
    driver.add(api)
    api.play()
    driver.run(history.end_s + AFTER_S)
    return compare_schedules(api, history, options)


def compare_schedules(
    api: ReplayedApi, history: ClusterHistory, options: SchedulerOptions
) -> AnotherSchedule:
    ours = [pod for pod in history.pods.values() if api.is_ours(pod)]
    recorded = [Stay(p.came_s, p.bound_s, _left_s(p, api), p.node) for p in ours]
    replayed = [Stay(p.came_s, p.bound_s, p.over_s, p.node) for p in api.pods.values()]
    nodes = {p.key: (p.node, api.pods[p.uid].node) for p in ours}
    both = [pair for pair in nodes.values() if all(pair)]
    return AnotherSchedule(
        options.placement,
        options.seed,
        history.end_s,
        figures_of(recorded, history.end_s),
        figures_of(replayed, history.end_s),
        len(both),
        sum(a == b for a, b in both),
        nodes,
    )


def _left_s(pod: PodHistory, api: ReplayedApi) -> float:
    """When a recorded pod left: by itself, or deleted as it was here too."""
    if math.isfinite(pod.ended_s):
        return pod.ended_s
    return api.pods[pod.uid].over_s


@dataclass(frozen=True)
class Stay:
    """A pod from its arrival to its end."""

    came_s: float
    bound_s: float
    over_s: float
    node: str


def figures_of(stays: Sequence[Stay], end_s: float) -> ScheduleFigures:
    """Waits of pods that were bound, and how many nodes held any of them up to a time."""
    bound = [stay for stay in stays if stay.node]
    waits = np.array([stay.bound_s - stay.came_s for stay in bound] or [0.0])
    mean, nodes_max = nodes_in_use(bound, end_s)
    return ScheduleFigures(
        len(stays),
        len(bound),
        float(waits.mean()),
        float(np.quantile(waits, 0.99)),
        float(waits.max()),
        mean,
        nodes_max,
    )


def nodes_in_use(stays: Sequence[Stay], end_s: float) -> tuple[float, int]:
    """The mean over time, and the maximum, of nodes that hold at least one of these pods."""
    changes = [(min(s.bound_s, end_s), 1, s.node) for s in stays]
    changes += [(min(s.over_s, end_s), -1, s.node) for s in stays]
    held: dict[str, int] = {}
    used, nodes_max, area, last_s = 0, 0, 0.0, 0.0
    for at_s, sign, node in sorted(changes, key=lambda change: change[0]):
        area, last_s = area + used * (at_s - last_s), at_s
        before = held.get(node, 0)
        held[node] = before + sign
        used += (held[node] > 0) - (before > 0)
        nodes_max = max(nodes_max, used) if at_s < end_s else nodes_max
    return (area / end_s if end_s else 0.0), nodes_max
