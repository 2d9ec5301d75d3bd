"""`murmur kube schedule`: a scheduler for the pods that name it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from murmuration.cli import common
from murmuration.cli.kube.access import CONTEXT, KUBECONFIG, LEASE, with_client

if TYPE_CHECKING:
    from murmuration.kubernetes.api.client import KubeClient
    from murmuration.kubernetes.recording.log import ClusterRecorder
    from murmuration.kubernetes.scheduling.options import SchedulerOptions
    from murmuration.kubernetes.scheduling.serving import CarryOut, MakeDriver
    from murmuration.runtime.drive import LiveDriver
    from murmuration.schedulers.agent import Agent, Message


@click.command()
@click.option(
    "--placement",
    default="least-allocated",
    show_default=True,
    metavar="NAME",
    help="first-fit, a score, or module:name of your own.",
)
@click.option(
    "--architecture",
    type=click.Choice(["monolithic", "shared-state", "genetic"]),
    default="monolithic",
    show_default=True,
    help="One decides and the others stand by; all decide, each on its share of the pods; or one "
    "decides on batches of pods.",
)
@click.option(
    "--batch",
    type=click.FloatRange(0.01, 3600),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="How long pods are gathered for a batch (genetic).",
)
@click.option(
    "--name",
    default="murmuration",
    show_default=True,
    help="The schedulerName of the pods it schedules.",
)
@click.option("--preempt", is_flag=True, help="Evict pods of lower priority, never below a budget.")
@click.option(
    "--preferences/--no-preferences",
    default=True,
    show_default=True,
    help="Of the nodes with room, show the policy those that a pod likes best.",
)
@click.option(
    "--leader-election/--alone",
    "elect",
    default=True,
    show_default=True,
    help="One of several leads, by a Lease; or there is only this one.",
)
@click.option("--lease-namespace", default="kube-system", show_default=True, metavar="NAMESPACE")
@click.option("--identity", metavar="NAME", help="Who we are in the Lease (default: host and pid).")
@click.option(
    "--gang-release",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    metavar="SECONDS",
    help="A gang that is in pieces for this long is released.",
)
@click.option(
    "--record",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Keep everything it was told and decided; murmur replay FOLDER repeats it.",
)
@click.option("-v", "--verbose", is_flag=True, help="Say what is refused and tried again.")
@common.with_options(LEASE, common.SEED, KUBECONFIG, CONTEXT)
def schedule(
    placement: str,
    architecture: str,
    batch: float,
    name: str,
    preempt: bool,
    preferences: bool,
    elect: bool,
    lease_namespace: str,
    identity: str | None,
    gang_release: float,
    record: Path | None,
    verbose: bool,
    lease_s: float,
    seed: int | None,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Schedule the pods that say schedulerName: murmuration, with a policy of Murmuration's.

    It runs until it is stopped (TERM or Ctrl-C). Several may run: one leads, the others stand by;
    with --architecture shared-state each schedules its share of the pods.
    """
    from murmuration.base.errors import InputError
    from murmuration.base.loading import look_beside
    from murmuration.kubernetes.scheduling.options import SchedulerOptions

    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(message)s")
    look_beside(Path.cwd() / "x")
    if architecture == "shared-state" and not elect:
        raise InputError("--alone: expected --leader-election with --architecture shared-state")
    who = identity or f"{socket.gethostname()}-{os.getpid()}".lower()
    options = SchedulerOptions(
        name=name,
        placement=placement,
        seed=1 if seed is None else seed,
        preempt=preempt,
        preferences=preferences,
        gang_release_s=gang_release,
        elect=elect,
        identity=who,
        lease_s=lease_s,
        architecture=architecture,
        batch_s=batch,
        claimant=f"{who}/{time.time_ns():x}",
    )
    with_client(kubeconfig, context, ScheduleTask(options, lease_namespace, record).run)


@dataclass(frozen=True)
class ScheduleTask:
    """A scheduler to be run until it is stopped."""

    options: SchedulerOptions
    lease_namespace: str
    record: Path | None

    async def run(self, client: KubeClient) -> None:
        from murmuration.kubernetes.scheduling.serving import Serving

        options = self.options
        agent = options.make_agent()
        settings = options.make_hands(self.lease_namespace)
        recorder = await start_recording(client, self.record, options)
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)

        def say_ready() -> None:
            common.say(f"{options.identity}: ready to schedule pods of {options.name!r}")

        driver = recording_driver(recorder) if recorder else make_driver
        await Serving(client, agent, settings, driver, on_ready=say_ready).run(stop)
        counts = ", ".join(f"{count} {what}" for what, count in agent.counts.items())
        common.say(f"{options.identity}: stopped; {counts or 'no pods bound'}")


async def start_recording(
    client: KubeClient, folder: Path | None, options: SchedulerOptions | None
) -> ClusterRecorder | None:
    """A recording of the cluster, if one was asked for."""
    from murmuration.kubernetes.api.client import NAMESPACES
    from murmuration.kubernetes.applying.moves import SYSTEM
    from murmuration.kubernetes.recording.log import FORMAT, ClusterRecorder, RecordHeader

    if folder is None:
        return None
    uid = str((await client.get(NAMESPACES.path(None, SYSTEM)))["metadata"]["uid"])
    return ClusterRecorder.create(folder, RecordHeader(FORMAT, uid, time.time(), options))


class NoNotes:
    """Nothing need be kept: what a scheduler of pods knows, the API tells it again."""

    def add_event(self, event: Message, now: float) -> None:
        pass

    def add_fact(self, fact: Message, now: float) -> None:
        raise AssertionError(f"nothing is to be kept: {fact}")

    def write(self) -> None:
        return None


def make_driver(agent: Agent, clock: Callable[[], float], carry_out: CarryOut) -> LiveDriver:
    from murmuration.runtime.drive import LiveDriver

    return LiveDriver(agent, clock, NoNotes(), carry_out)


def recording_driver(recorder: ClusterRecorder) -> MakeDriver:
    """A driver that writes down what the agent is told and what it decides."""

    def make(agent: Agent, clock: Callable[[], float], carry_out: CarryOut) -> LiveDriver:
        from murmuration.runtime.drive import LiveDriver

        return LiveDriver(agent, clock, recorder, recorder.watch_acts(carry_out, clock))

    return make
