"""`murmur kube rebalance`: plan and apply again and again, where the gain is worth the moves."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from murmuration.base.errors import InputError
from murmuration.cli import common
from murmuration.cli.kube.access import CONTEXT, KUBECONFIG, with_client
from murmuration.cli.kube.apply import ApplyTask, make_identity

if TYPE_CHECKING:
    from murmuration.planning.plan import Options

REPORT = "rebalance.jsonl"
UNITS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_duration(text: str, where: str) -> float:
    """`90`, `90s`, `10m` or `1.5h`, in seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    if match is None:
        raise InputError(f"{where}: expected a time such as 10m, 90s or 1h, got {text!r}")
    return float(match[1]) * UNITS[match[2]]


@click.command()
@click.option("--every", default="10m", show_default=True, metavar="TIME")
@click.option("--cool-down", default="0", metavar="TIME", help="Wait longer after moves were made.")
@click.option(
    "--objective",
    "objectives",
    multiple=True,
    metavar="NAME[=WEIGHT]",
    help="What to minimise, as for murmur plan.",
)
@click.option(
    "--limit", "limits", multiple=True, metavar="NAME=MAX", help="Such as moves=20, for each round."
)
@click.option(
    "--worth",
    type=click.FloatRange(0),
    default=0.05,
    show_default=True,
    metavar="SHARE",
    help="The least mean gain of the objectives that is worth any move.",
)
@click.option("--rounds", type=click.IntRange(1), help="Stop after so many (default: never).")
@click.option("--dry-run", is_flag=True, help="Plan and check, and move nothing.")
@click.option("--skip-others", is_flag=True, help="Leave pods of other schedulers where they are.")
@click.option("--name", default="murmuration", show_default=True, help="Our schedulerName.")
@click.option("--evaluations", type=click.IntRange(1), help="Placements each search evaluates.")
@common.with_options(common.SEED, common.OUT, KUBECONFIG, CONTEXT)
def rebalance(
    every: str,
    cool_down: str,
    objectives: tuple[str, ...],
    limits: tuple[str, ...],
    worth: float,
    rounds: int | None,
    dry_run: bool,
    skip_others: bool,
    name: str,
    evaluations: int | None,
    seed: int | None,
    out: Path | None,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Snapshot, plan, and apply if the gain is worth it; then wait, and look again.

    Each round has a folder of its own; rebalance.jsonl says what was done, round by round.
    """
    from murmuration.assignment.objectives import parse_limit, parse_objective
    from murmuration.base.files import ready_folder
    from murmuration.planning.plan import Options

    pause_s = parse_duration(every, "--every")
    rest_s = max(pause_s, parse_duration(cool_down, "--cool-down"))
    options = Options(
        objectives=tuple(parse_objective(text) for text in objectives),
        limits=tuple(parse_limit(text) for text in limits),
        evaluations=evaluations,
        seed=1 if seed is None else seed,
    )
    folder = ready_folder(out or Path("runs") / "rebalance")
    task = Rebalancing(folder, options, worth, name, dry_run, skip_others, kubeconfig, context)
    number = 0
    while rounds is None or number < rounds:
        number += 1
        moved = task.round(number)
        if rounds is None or number < rounds:
            time.sleep(rest_s if moved else pause_s)


@dataclass(frozen=True)
class Rebalancing:
    """What every round does."""

    folder: Path
    options: Options
    worth: float
    name: str
    dry_run: bool
    skip_others: bool
    kubeconfig: Path | None
    context: str | None

    def round(self, number: int) -> int:
        """One round; how many moves it made."""
        from murmuration.base.files import ready_folder

        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        folder = ready_folder(self.folder / f"{stamp}-{number}")
        moves, gain = self._plan(folder)
        worth = moves > 0 and gain >= self.worth
        problems = self._apply(folder) if worth else []
        made = moves - len(problems) if worth and not self.dry_run else 0
        self._report(number, folder, {"planned": moves, "gain": gain, "moved": made}, problems)
        return made

    def _plan(self, folder: Path) -> tuple[int, float]:
        """How many moves would be made, and the mean gain they bring."""
        from murmuration.base.files import write_json
        from murmuration.kubernetes.api.snapshot import read_cluster
        from murmuration.planning.document import document
        from murmuration.planning.plan import make_plan
        from murmuration.planning.snapshots.opening import open_snapshot

        snapshot = folder / "cluster.json"
        read = with_client(self.kubeconfig, self.context, read_cluster)
        write_json(snapshot, read.document())
        answer = document(make_plan(open_snapshot(snapshot), self.options), str(snapshot))
        write_json(folder / "plan.json", answer)
        return len(answer["moves"]), float(answer["gain"]["mean"] or 0.0)

    def _apply(self, folder: Path) -> list[str]:
        from murmuration.kubernetes.scheduling.options import SchedulerOptions

        options = SchedulerOptions(self.name, "best-fit", identity=make_identity())
        task = ApplyTask(
            plan=folder / "plan.json",
            options=options,
            lease_namespace="kube-system",
            dry_run=self.dry_run,
            resume=False,
            skip_others=self.skip_others,
            patience_s=600.0,
        )
        return with_client(self.kubeconfig, self.context, task.run)

    def _report(
        self, number: int, folder: Path, figures: dict[str, float], problems: list[str]
    ) -> None:
        import json

        line = {"round": number, "folder": folder.name, **figures, "problems": problems}
        with (self.folder / REPORT).open("a") as file:
            file.write(json.dumps(line) + "\n")
        common.say(
            f"round {number}: {figures['planned']:g} moves planned, gain {figures['gain']:.1%}, "
            f"{figures['moved']:g} made"
        )
        for problem in problems:
            common.say(problem)
