"""`murmur kube schedule`: a scheduler for the pods that name it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from murmuration.cli import common
from murmuration.cli.kube.access import CONTEXT, KUBECONFIG, with_client

if TYPE_CHECKING:
    from murmuration.kubernetes.api.client import KubeClient
    from murmuration.kubernetes.scheduling.cluster import LiveCluster
    from murmuration.kubernetes.scheduling.serving import CarryOut
    from murmuration.runtime.drive import LiveDriver
    from murmuration.schedulers.agent import Agent, Message
    from murmuration.schedulers.pods.agent import PodScheduler


@click.command()
@click.option(
    "--placement",
    default="least-allocated",
    show_default=True,
    metavar="NAME",
    help="first-fit, a score, or module:name of your own.",
)
@click.option(
    "--name",
    default="murmuration",
    show_default=True,
    help="The schedulerName of the pods it schedules.",
)
@click.option("--preempt", is_flag=True, help="Evict pods of lower priority, never below a budget.")
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
@click.option("-v", "--verbose", is_flag=True, help="Say what is refused and tried again.")
@common.with_options(common.SEED, KUBECONFIG, CONTEXT)
def schedule(
    placement: str,
    name: str,
    preempt: bool,
    elect: bool,
    lease_namespace: str,
    identity: str | None,
    gang_release: float,
    verbose: bool,
    seed: int | None,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Schedule the pods that say schedulerName: murmuration, with a policy of Murmuration's.

    It runs until it is stopped (TERM or Ctrl-C). Several may run: one leads, the others stand by.
    """
    from murmuration.base.loading import look_beside

    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(message)s")
    look_beside(Path.cwd() / "x")
    who = identity or f"{socket.gethostname()}-{os.getpid()}"
    duty = Duty(name, who, lease_namespace, elect, preempt, gang_release, seed or 1, placement)
    with_client(kubeconfig, context, duty.run)


@dataclass(frozen=True)
class Duty:
    """What a scheduler was asked to do."""

    name: str
    identity: str
    lease_namespace: str
    elect: bool
    preempt: bool
    gang_release_s: float
    seed: int
    placement: str

    def agent(self, cluster: LiveCluster | None = None) -> PodScheduler:
        import numpy as np

        from murmuration.kubernetes.api.client import BUDGETS
        from murmuration.kubernetes.scheduling.cluster import LiveCluster
        from murmuration.kubernetes.scheduling.serving import KINDS
        from murmuration.placement.compiled import with_compiled_score
        from murmuration.placement.registry import resolve
        from murmuration.schedulers.pods.agent import PodScheduler, PodSettings
        from murmuration.schedulers.pods.leadership import AlwaysLeads, Leadership

        kinds = frozenset(kind.name for kind in (*KINDS, BUDGETS))
        return PodScheduler(
            LiveCluster(self.name) if cluster is None else cluster,
            with_compiled_score(resolve(self.placement)),
            np.random.default_rng(self.seed),
            Leadership(self.identity) if self.elect else AlwaysLeads(),
            PodSettings(kinds, self.preempt, self.gang_release_s),
        )

    async def run(self, client: KubeClient) -> None:
        from murmuration.kubernetes.scheduling.hands import HandSettings
        from murmuration.kubernetes.scheduling.serving import Serving

        agent = self.agent()
        lease = self.name if self.elect else ""
        settings = HandSettings(self.name, self.identity, lease, self.lease_namespace)
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)

        def say_ready() -> None:
            common.say(f"{self.identity}: ready to schedule pods of {self.name!r}")

        await Serving(client, agent, settings, make_driver, on_ready=say_ready).run(stop)
        counts = ", ".join(f"{count} {what}" for what, count in agent.counts.items())
        common.say(f"{self.identity}: stopped; {counts or 'no pods bound'}")


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
