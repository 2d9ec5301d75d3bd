"""An independent judge of plans: would Kubernetes take this pod on this node?

Written from the documentation of kube-scheduler's filters and of the eviction API, version 1.34
unless a comment says otherwise, as plainly as possible and without a line of the planner. Its
parts: what a node itself decides (`checker_nodes`), room (`checker_resources`), rules between pods
(`checker_pods`), volumes and devices (`checker_volumes`), evictions (`checker_eviction`), and whole
plans step by step (`checker_replay`).
"""

from __future__ import annotations

from tests.kubernetes.checker_cluster import Cluster, Thing
from tests.kubernetes.checker_nodes import gate_refusals, node_refusals
from tests.kubernetes.checker_pods import (
    apart_refusals,
    port_refusals,
    spread_refusals,
    together_refusals,
)
from tests.kubernetes.checker_resources import resource_refusals
from tests.kubernetes.checker_volumes import device_refusals, volume_refusals


def refusals(cluster: Cluster, pod: Thing, node: Thing) -> list[str]:
    """Why the scheduler would not put the pod on the node, given all other pods; none if it would.

    The pod itself, if it is in the cluster, does not count against itself.
    """
    return [
        *gate_refusals(pod),
        *node_refusals(pod, node),
        *resource_refusals(cluster, pod, node),
        *port_refusals(cluster, pod, node),
        *apart_refusals(cluster, pod, node),
        *together_refusals(cluster, pod, node),
        *spread_refusals(cluster, pod, node),
        *volume_refusals(cluster, pod, node),
        *device_refusals(cluster, pod, node),
    ]


def takers(cluster: Cluster, pod: Thing) -> list[str]:
    """The nodes that would take the pod now."""
    return [name for name, node in cluster.nodes.items() if not refusals(cluster, pod, node)]
