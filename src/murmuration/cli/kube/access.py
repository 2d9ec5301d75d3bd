"""What every command on a cluster needs: which one, and one sentence when it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import click

from murmuration.kubernetes.api.access import find_access
from murmuration.kubernetes.api.client import ApiError, KubeClient, explain
from murmuration.kubernetes.api.http import UnreachableError

Result = TypeVar("Result")

KUBECONFIG = click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Which cluster (default: KUBECONFIG, the pod's account, ~/.kube/config).",
)
CONTEXT = click.option("--context", metavar="NAME", help="A context of the kubeconfig.")
LEASE = click.option(
    "--lease",
    "lease_s",
    type=click.FloatRange(1.0),
    default=15.0,
    show_default=True,
    metavar="SECONDS",
    help="A leader that has been silent for this long is followed by another; the same for all.",
)


def with_client(
    kubeconfig: Path | None,
    context: str | None,
    work: Callable[[KubeClient], Awaitable[Result]],
    connections: int = 32,
) -> Result:
    """Do something with a cluster; a refusal that reaches here is one sentence."""
    access = find_access(kubeconfig, context)

    async def run() -> Result:
        async with KubeClient(access, connections) as client:
            return await work(client)

    try:
        return asyncio.run(run())
    except (ApiError, UnreachableError) as error:
        raise explain(error, access) from None
