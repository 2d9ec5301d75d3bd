"""`murmur kube apply`: the moves of a plan, carried out on the cluster."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from murmuration.base.errors import InputError
from murmuration.cli import common
from murmuration.cli.kube.access import CONTEXT, KUBECONFIG, LEASE, with_client
from murmuration.cli.kube.schedule import make_driver

if TYPE_CHECKING:
    from murmuration.kubernetes.api.client import KubeClient
    from murmuration.kubernetes.applying.moves import MoveJournal, PlanFile, PlannedMove
    from murmuration.kubernetes.applying.run import PlanRun
    from murmuration.kubernetes.scheduling.options import SchedulerOptions


@click.command()
@click.argument("plan", type=click.Path(path_type=Path))
@click.option("--dry-run", is_flag=True, help="Check every move and ask for every eviction only.")
@click.option("--resume", is_flag=True, help="Go on with a plan that was stopped.")
@click.option(
    "--replan/--no-replan",
    default=True,
    show_default=True,
    help="Plan what is left again when the cluster has changed under the plan; or stop.",
)
@click.option("--skip-others", is_flag=True, help="Leave pods of other schedulers where they are.")
@click.option(
    "--as",
    "names",
    multiple=True,
    metavar="PLANNED=NAME",
    help="What a node that the plan added is called in the cluster; may be given several times.",
)
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
@common.with_options(LEASE, KUBECONFIG, CONTEXT)
def apply(**words: Any) -> None:
    """Carry out PLAN, the plan.json of murmur kube plan: wave by wave, each move checked again.

    While it runs it is the scheduler of its pods: one that leads is asked to let it, and takes over
    again afterwards. TERM or Ctrl-C stops it after the moves under way. Nodes that the plan removes
    are closed first, and stay closed.
    """
    from murmuration.kubernetes.scheduling.options import SchedulerOptions

    plan, (kubeconfig, context) = words["plan"], (words["kubeconfig"], words["context"])
    options = SchedulerOptions(
        words["name"], words["placement"], identity=make_identity(), lease_s=words["lease_s"]
    )
    task = ApplyTask(
        plan=plan,
        options=options,
        lease_namespace=words["lease_namespace"],
        dry_run=words["dry_run"],
        resume=words["resume"],
        skip_others=words["skip_others"],
        patience_s=words["patience"],
        replan=words["replan"],
        names=parse_names(words["names"]),
    )
    problems = with_client(kubeconfig, context, task.run)
    for problem in problems:
        common.say(problem)
    if problems:
        again = f"murmur kube apply {plan} --resume"
        common.say(f"the cluster is whole; plan again, or go on with {again}")
        raise SystemExit(1)


def parse_names(texts: Sequence[str]) -> dict[str, str]:
    names = {}
    for text in texts:
        planned, _, name = text.partition("=")
        if not planned or not name:
            raise InputError(f"--as: expected PLANNED=NAME, got {text!r}")
        names[planned] = name
    return names


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
    replan: bool = True
    #: What nodes that the plan added are called in the cluster.
    names: Mapping[str, str] = field(default_factory=dict)

    async def run(self, client: KubeClient) -> list[str]:
        from murmuration.kubernetes.api.snapshot import read_cluster
        from murmuration.kubernetes.applying.checks import (
            check_cluster,
            foreign_pods,
            refuse_foreign,
            refuse_sharing,
            refuse_unknown_nodes,
            rehearse_live,
        )
        from murmuration.kubernetes.applying.moves import (
            JOURNAL,
            MoveJournal,
            read_plan,
            rename_nodes,
        )
        from murmuration.kubernetes.scheduling.asking import cluster_from

        first = read_plan(self.plan)
        await check_cluster(client, self.plan, first)
        await refuse_sharing(client, self.options.name)
        journal = MoveJournal(self.plan.parent / JOURNAL, self.plan)
        if not self.dry_run:
            journal = MoveJournal.open(self.plan, self.resume)
        cluster = cluster_from((await read_cluster(client)).items)
        moves = rename_nodes(read_plan(journal.plan).moves, self.names)
        foreign = set(foreign_pods(cluster, moves, self.options.name))
        if not self.skip_others:
            refuse_foreign(sorted(foreign), self.options.name)
        moves = [move for move in moves if move.task not in foreign]
        refuse_unknown_nodes(cluster, moves)
        made = await self._make(client, moves, journal)
        if self.dry_run:
            made.cluster = cluster
            problems = await rehearse_live(made)
            common.say(f"{len(moves)} moves checked, {len(problems)} would not work")
            return problems
        return await self._carry_out(made, first)

    async def _make(
        self, client: KubeClient, moves: list[PlannedMove], journal: MoveJournal
    ) -> PlanRun:
        from murmuration.kubernetes.api.snapshot import budgets_of
        from murmuration.kubernetes.applying.run import ApplySettings, PlanRun
        from murmuration.kubernetes.scheduling.cluster import LiveCluster

        version = (await budgets_of(client)).version
        settings = ApplySettings(self.patience_s, version, common.say)
        cluster = LiveCluster(self.options.name)
        return PlanRun(client, cluster, moves, journal, settings, asyncio.Event())

    async def _carry_out(self, moves: PlanRun, plan: PlanFile) -> list[str]:
        """The moves, beside the scheduler that puts pods where they say."""
        from murmuration.kubernetes.scheduling.serving import Serving

        agent = self.options.make_agent(moves.cluster)
        settings = self.options.make_hands(self.lease_namespace)
        over, ready = asyncio.Event(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, moves.stop.set)
        agent.leadership.takes_over = True
        serving = Serving(moves.client, agent, settings, make_driver, on_ready=ready.set)

        def leads() -> bool:
            return agent.leadership.leads(serving.clock())

        async def work() -> list[str]:
            await ready.wait()
            while not leads() and not moves.stop.is_set():
                await asyncio.sleep(0.1)
            return await self._move_all(moves, plan)

        moves.settings = replace(moves.settings, leads=leads)
        scheduler, mover = asyncio.create_task(serving.run(over)), asyncio.create_task(work())
        await asyncio.wait([scheduler, mover], return_when=asyncio.FIRST_COMPLETED)
        over.set()
        if not mover.done():
            mover.cancel()
        await scheduler
        return self._conclude(moves, await mover)

    async def _move_all(self, moves: PlanRun, plan: PlanFile) -> list[str]:
        """Make the moves; where the cluster has changed, plan what is left again."""
        from murmuration.cli.kube.replanning import make_replanning
        from murmuration.kubernetes.applying.nodes import close_nodes

        closed = await close_nodes(moves.client, plan.removed)
        if closed:
            common.say(f"closed, for they are to go: {', '.join(closed)}")
        replanning = make_replanning(moves, plan, self.options.name, self.skip_others)
        problems = await moves.run()
        while problems and self.replan and replanning is not None:
            if not await replanning.take_next(problems):
                break
            problems = await moves.run()
        return problems

    def _conclude(self, moves: PlanRun, problems: list[str]) -> list[str]:
        journal = moves.journal
        left = len(moves.moves) - len(journal.ended())
        if not problems and left:
            return [f"stopped; {left} moves are left"]
        made, total = len(journal.ended()) + journal.made, len(moves.moves) + journal.made
        if total:
            common.say(f"{made} of {total} moves made")
        return problems
