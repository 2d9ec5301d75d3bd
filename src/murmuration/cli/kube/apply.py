"""`murmur kube apply`: the moves of a plan, carried out on the cluster."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from murmuration.cli import common
from murmuration.cli.kube.access import CONTEXT, KUBECONFIG, with_client
from murmuration.cli.kube.schedule import make_driver

if TYPE_CHECKING:
    from murmuration.kubernetes.api.client import KubeClient
    from murmuration.kubernetes.applying.moves import PlannedMove
    from murmuration.kubernetes.applying.run import PlanRun
    from murmuration.kubernetes.scheduling.options import SchedulerOptions


@click.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Check every move and ask for every eviction only.")
@click.option("--resume", is_flag=True, help="Go on with a plan that was stopped.")
@click.option("--skip-others", is_flag=True, help="Leave pods of other schedulers where they are.")
@click.option(
    "--placement",
    default="least-allocated",
    show_default=True,
    metavar="NAME",
    help="For pods that are not of the plan.",
)
@click.option("--name", default="murmuration", show_default=True, help="Our schedulerName.")
@click.option("--lease-namespace", default="kube-system", show_default=True, metavar="NAMESPACE")
@click.option(
    "--patience",
    type=click.FloatRange(0, min_open=True),
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="A move that has not arrived by then is given up.",
)
@common.with_options(KUBECONFIG, CONTEXT)
def apply(
    plan: Path,
    dry_run: bool,
    resume: bool,
    skip_others: bool,
    placement: str,
    name: str,
    lease_namespace: str,
    patience: float,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Carry out PLAN, the plan.json of murmur kube plan: wave by wave, each move checked again.

    While it runs it is the scheduler of its pods: one that leads is asked to let it, and takes over
    again afterwards. TERM or Ctrl-C stops it after the moves under way.
    """
    from murmuration.kubernetes.scheduling.options import SchedulerOptions

    options = SchedulerOptions(name, placement, identity=make_identity())
    task = ApplyTask(plan, options, lease_namespace, dry_run, resume, skip_others, patience)
    problems = with_client(kubeconfig, context, task.run)
    for problem in problems:
        common.say(problem)
    if problems:
        again = f"murmur kube apply {plan} --resume"
        common.say(f"the cluster is whole; plan again, or go on with {again}")
        raise SystemExit(1)


def make_identity() -> str:
    return f"apply-{socket.gethostname()}-{os.getpid()}"


@dataclass(frozen=True)
class ApplyTask:
    """A plan to be carried out."""

    plan: Path
    options: SchedulerOptions
    lease_namespace: str
    dry_run: bool
    resume: bool
    skip_others: bool
    patience_s: float

    async def run(self, client: KubeClient) -> list[str]:
        from murmuration.kubernetes.api.snapshot import read_cluster
        from murmuration.kubernetes.applying.checks import (
            check_cluster,
            foreign_pods,
            refuse_foreign,
            rehearse_live,
        )
        from murmuration.kubernetes.applying.moves import JOURNAL, MoveJournal, read_plan
        from murmuration.kubernetes.scheduling.asking import cluster_from

        document = read_plan(self.plan)
        await check_cluster(client, self.plan, document)
        cluster = cluster_from((await read_cluster(client)).items)
        moves = document.moves
        foreign = set(foreign_pods(cluster, moves, self.options.name))
        if self.skip_others:
            moves = [move for move in moves if move.task not in foreign]
        else:
            refuse_foreign(sorted(foreign), self.options.name)
        if self.dry_run:
            made = await self._make(client, moves, MoveJournal(self.plan.parent / JOURNAL))
            made.cluster = cluster
            problems = await rehearse_live(made)
            common.say(f"{len(moves)} moves checked, {len(problems)} would not work")
            return problems
        journal = MoveJournal.open(self.plan.parent / JOURNAL, self.resume)
        return await self._carry_out(client, await self._make(client, moves, journal))

    async def _make(self, client: KubeClient, moves: list[PlannedMove], journal: object) -> PlanRun:
        from murmuration.kubernetes.api.snapshot import budgets_of
        from murmuration.kubernetes.applying.moves import MoveJournal
        from murmuration.kubernetes.applying.run import ApplySettings, PlanRun
        from murmuration.kubernetes.scheduling.cluster import LiveCluster

        assert isinstance(journal, MoveJournal)
        version = (await budgets_of(client)).version
        settings = ApplySettings(self.patience_s, version, common.say)
        cluster = LiveCluster(self.options.name)
        return PlanRun(client, cluster, moves, journal, settings, asyncio.Event())

    async def _carry_out(self, client: KubeClient, moves: PlanRun) -> list[str]:
        """The moves, beside the scheduler that puts pods where they say."""
        from murmuration.kubernetes.scheduling.hands import HandSettings
        from murmuration.kubernetes.scheduling.serving import Serving

        options = self.options
        agent = options.make_agent(moves.cluster)
        settings = HandSettings(options.name, options.identity, options.name, self.lease_namespace)
        over, ready = asyncio.Event(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, moves.stop.set)
        serving = Serving(client, agent, settings, make_driver, on_ready=ready.set, take_over=True)

        async def work() -> list[str]:
            await ready.wait()
            while not agent.leadership.leads(serving.clock()) and not moves.stop.is_set():
                await asyncio.sleep(0.1)
            return await moves.run()

        scheduler, mover = asyncio.create_task(serving.run(over)), asyncio.create_task(work())
        await asyncio.wait([scheduler, mover], return_when=asyncio.FIRST_COMPLETED)
        over.set()
        if not mover.done():
            mover.cancel()
        await scheduler
        problems = await mover
        left = len(moves.moves) - len(moves.journal.ended())
        if not problems and left:
            return [f"stopped; {left} moves are left"]
        if moves.journal.lines:
            common.say(f"{len(moves.journal.ended())} of {len(moves.moves)} moves made")
        return problems
