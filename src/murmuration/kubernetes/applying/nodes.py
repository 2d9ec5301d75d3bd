"""Nodes that a plan takes out of use: closed before the first move, so that nothing new comes."""

from __future__ import annotations

from collections.abc import Sequence

from murmuration.kubernetes.api.client import NODES, ApiError, KubeClient


async def close_nodes(client: KubeClient, names: Sequence[str]) -> list[str]:
    """Cordon these nodes; which of them were open. One that is gone already is no fault."""
    closed = []
    for name in names:
        try:
            node = await client.get(NODES.path(None, name))
            if not (node.get("spec") or {}).get("unschedulable"):
                await client.patch(NODES.path(None, name), {"spec": {"unschedulable": True}})
                closed.append(name)
        except ApiError as error:
            if error.status != 404:
                raise
    return closed
