"""The settings of DEPAS agents: the rules that the bulk form has too, and the times of the message
protocol."""

from __future__ import annotations

from dataclasses import dataclass

from murmuration.autoscaling.depas import HETEROGENEOUS


@dataclass(frozen=True)
class DepasSettings:
    """The settings of every node and the entry point; the names mean what they mean in a
    scenario."""

    target_load: float = 0.7
    band: float = 0.1
    cycle_s: float = 60.0
    window_s: int = 60
    formula: int = HETEROGENEOUS
    execution_s: float = 1.0
    # The overlay.
    degree: int = 50
    overlay_s: float = 0.5
    exchange: int = 5
    probes: int = 10
    # The balancer.
    queue_max: float = 2.0
    hops_max: int = 8
    entry_min: int = 50
    entry_s: float = 120.0
    # The messages. A question is repeated twice after this time, and then given up.
    answer_s: float = 0.5
    #: A node asks the entry point for a link this often: gossip alone never joins two halves of an
    #: overlay that a broken network has made forget each other.
    introduce_s: float = 60.0
    #: A request without an outcome after this time is given up.
    outcome_s: float = 120.0
