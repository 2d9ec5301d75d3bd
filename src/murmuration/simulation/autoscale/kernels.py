"""The decision functions of `autoscaling/`, compiled for the loop."""

from __future__ import annotations

from murmuration.autoscaling import balancer, baselines, depas, load, overlay
from murmuration.autoscaling.overlay import GossipRules, OverlayNodes
from murmuration.autoscaling.views import Array, Averages, Views
from murmuration.base.jit import helper, loop_kernel, tree

admits = helper(balancer.admits)
draw_weighted = tree(balancer.draw_weighted)
forget = helper(balancer.forget)
draw_some = tree(balancer.draw_some)

indicator = helper(depas.indicator)
act = helper(depas.act)
work_of = helper(load.work_of)

proportional = helper(baselines.proportional)
stabilise = helper(baselines.stabilise)
perfect = helper(baselines.perfect)

drop = tree(overlay.drop)
join = tree(overlay.join)
neighbourhood_load = helper(overlay.neighbourhood_load)
_gossip = tree(overlay.gossip)


@loop_kernel
def gossip(
    views: Views, averages: Averages, peers: OverlayNodes, rules: GossipRules, now: int, rng: Array
) -> None:
    """One round of every live node."""
    _gossip(views, averages, peers, rules, now, rng)
