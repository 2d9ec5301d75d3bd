"""`murmur kube why`: why a pod has no node, whoever schedules it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from murmuration.base.errors import InputError
from murmuration.cli import common
from murmuration.cli.kube.access import CONTEXT, KUBECONFIG, with_client

if TYPE_CHECKING:
    from murmuration.kubernetes.api.client import KubeClient
    from murmuration.schedulers.pods.explain import PodExplanation


@click.command()
@click.argument("pod", required=False)
@click.option("--pending", is_flag=True, help="Every pod without a node.")
@click.option(
    "--placement",
    default="least-allocated",
    show_default=True,
    metavar="NAME",
    help="The policy whose scores are shown.",
)
@common.with_options(KUBECONFIG, CONTEXT, common.JSON)
def why(
    pod: str | None,
    pending: bool,
    placement: str,
    kubeconfig: Path | None,
    context: str | None,
    as_json: bool,
) -> None:
    """Explain why a pod waits: how many nodes each reason rules out, which are best, what would
    unblock it.

    POD is NAMESPACE/NAME, or a name in the context's namespace.
    """
    if (pod is None) != pending:
        raise InputError("expected the name of a pod, or --pending")

    async def ask(client: KubeClient) -> list[PodExplanation]:
        from murmuration.kubernetes.api.snapshot import read_cluster
        from murmuration.kubernetes.scheduling.asking import (
            cluster_from,
            explain_waiting,
            pending_pods,
        )
        from murmuration.placement.registry import resolve

        policy = resolve(placement)
        cluster = cluster_from((await read_cluster(client)).items)
        named = pod if pod is None or "/" in pod else f"{client.access.namespace}/{pod}"
        keys = pending_pods(cluster) if named is None else [named]
        return [explain_waiting(cluster, key, policy) for key in keys]

    answers = with_client(kubeconfig, context, ask)
    if as_json:
        common.print_json({"pods": [document(answer) for answer in answers]})
        return
    for answer in answers:
        show(answer)
    if not answers:
        click.echo("every pod has a node")


def document(answer: PodExplanation) -> dict[str, object]:
    import msgspec

    names = ("node", "free", "score")
    built: dict[str, object] = msgspec.to_builtins(answer)
    built["best"] = [dict(zip(names, each, strict=True)) for each in answer.best]
    return {**built, "sentence": answer.sentence()}


def show(answer: PodExplanation) -> None:
    click.echo(f"{answer.key}: {answer.sentence()}")
    for node, free, score in answer.best:
        points = "" if score is None else f", score {score:g}"
        click.echo(f"  would take it: {node} ({free} free{points})")
    for sentence in answer.unblock:
        click.echo(f"  {sentence}")
