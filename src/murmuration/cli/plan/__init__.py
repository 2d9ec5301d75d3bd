"""`murmur plan`: a better allocation for a real cluster, and the ordered moves to get there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from murmuration.cli import common
from murmuration.cli.plan.question import PlanQuestion

PATH = click.Path(path_type=Path)


@click.command()
@click.argument("snapshot", type=PATH)
@click.option(
    "--place",
    type=PATH,
    metavar="FILE",
    help="Place the pods of this file, moving as few others as possible.",
)
@click.option(
    "--remove",
    multiple=True,
    metavar="NODE",
    help="Plan as if this node, or nodes with labels such as zone=a, were removed; may be given "
    "several times.",
)
@click.option(
    "--only",
    multiple=True,
    metavar="WHICH",
    help="Touch nothing else: a namespace, a node, or labels of pods or nodes such as app=web or "
    "pool!=spot.",
)
@click.option(
    "--exclude", multiple=True, metavar="WHICH", help="Leave these alone; written like --only."
)
@click.option(
    "--rank",
    is_flag=True,
    help="Make no plan, but rank the nodes by what it would take to drain each.",
)
@click.option(
    "--any",
    "any_one",
    type=click.Choice(["node", "zone"]),
    help="Make no plan, but say whether everything still fits if any one of them fails.",
)
@click.option(
    "--add",
    multiple=True,
    metavar="TYPE=COUNT",
    help="Plan with nodes added: an instance type such as m5.large, or a copy of a node.",
)
@click.option(
    "--types",
    type=PATH,
    metavar="FILE",
    help="A catalogue of node types: which mix of them is the cheapest for what runs. With --add: "
    "types to add.",
)
@click.option(
    "--usage",
    type=PATH,
    metavar="FILE",
    help="What kubectl top pods -A prints, or the metrics API's JSON: pods that request nothing "
    "weigh what they use.",
)
@click.option(
    "--objective",
    "objectives",
    multiple=True,
    metavar="NAME[=WEIGHT]",
    help="What to minimise; may be given several times. module:function for your own.",
)
@click.option(
    "--limit",
    "limits",
    multiple=True,
    metavar="NAME=MAX",
    help="An upper limit for an objective, e.g. moves=20.",
)
@click.option("--power-off", is_flag=True, help="Assume that a node without tasks is switched off.")
@click.option(
    "--evaluations",
    type=click.IntRange(1),
    help="Placements the search evaluates (default: by the size of the cluster).",
)
@click.option(
    "--population",
    type=click.IntRange(8, 2000),
    default=92,
    show_default=True,
    help="Placements the search keeps.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0, min_open=True),
    metavar="MB/S",
    help="Speed of a migration when the moves are rehearsed (default: 125; pods of Kubernetes "
    "restart instead).",
)
@click.option(
    "--ready",
    "ready_s",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Until a restarted pod is ready, where the snapshot does not tell (default: the median of "
    "those it tells of, else 30).",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    help="The time there is for the whole plan by the clock, after the snapshot is read.",
)
@click.option(
    "--cpu-seconds",
    type=click.FloatRange(0, min_open=True),
    help="The same in seconds of the processor, which a busy machine gives more slowly.",
)
@click.option(
    "--pymoo",
    is_flag=True,
    help="Show the result of pymoo's NSGA-III from the same start beside it.",
)
@click.option(
    "--assignment",
    type=PATH,
    metavar="FILE",
    help="The assignment that belongs to SNAPSHOT, a ROADEF/EURO 2012 model.",
)
@common.with_options(common.SEED, common.OUT, common.JSON)
def plan(**words: Any) -> None:
    """Plan a better allocation for a real cluster.

    SNAPSHOT is what kubectl get nodes,pods,pdb -A -o json (or yaml) writes, or - for standard
    input; a TOML file of ours; or a folder of an Alibaba trace. The plan is an ordered list of
    moves; nothing is carried out.
    """
    from murmuration.cli.plan import answers

    question = PlanQuestion(**words)
    _compile(question)
    if question.assignment is not None:
        answers.reassign(question)
    elif question.any_one is not None:
        answers.fail_any(question)
    elif question.rank:
        answers.rank(question)
    elif question.types is not None and not question.add:
        answers.mix(question)
    else:
        answers.make(question)


def _compile(question: PlanQuestion) -> None:
    """Compile what the answer calls, before its time begins to count."""
    from murmuration.experiments.execution import warm

    command = "plan" if question.assignment is None else "reassignment"
    if warm.is_compiled(command):
        return
    from murmuration.experiments.execution.warm_plans import compile_plans, compile_reassignment

    common.compile_before(command, compile_plans if command == "plan" else compile_reassignment)
