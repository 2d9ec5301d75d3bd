"""Every reproduction by name; each is imported when it is run."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from murmuration.experiments.result import Reproduction, ReproductionSettings


@dataclass(frozen=True)
class PaperEntry:
    """Where a reproduction lies, what it reproduces, and how much of that its quick form runs
    (said where the whole takes hours)."""

    title: str
    module: str
    function: str = "run"
    quick: str = ""

    def load(self) -> Callable[[ReproductionSettings], Reproduction]:
        module = importlib.import_module(f"murmuration.experiments.papers.{self.module}")
        function: Callable[[ReproductionSettings], Reproduction] = getattr(module, self.function)
        return function


#: The quick form on Google's cell: a whole day of all of it takes minutes, for each run.
SIXTH = "a sixth of the cell, 2.4 hours of each day"
#: And on the generated cells.
PART = "8 % of the cell, 2.4 hours"

EXPERIMENTS = {
    "mss-single": PaperEntry(
        "Figure 3.3, left: single-path monolithic scheduling", "omega.figures", "mss_single"
    ),
    "mss-multi": PaperEntry(
        "Figure 3.3, right: multi-path monolithic scheduling", "omega.figures", "mss_multi"
    ),
    "mss-arrivals": PaperEntry(
        "Figure 3.4: single-path scheduling as jobs arrive faster", "omega.figures", "mss_arrivals"
    ),
    "dps": PaperEntry("Figure 4.4: two-level scheduling with offers", "omega.figures", "dps"),
    "rss": PaperEntry("Figure 6.4: shared-state scheduling", "omega.figures", "rss"),
    "rss-modes": PaperEntry(
        "Figure 6.5: conflict detection and transaction granularity", "omega.figures", "rss_modes"
    ),
    "dps-model": PaperEntry(
        "Table 4.1, lottery shares, fragmentation and starvation under offers", "mesos.partitioning"
    ),
    "sharing": PaperEntry(
        "Tables 5.3 and 5.4: four frameworks, shared against static partitions", "mesos.sharing"
    ),
    "locality": PaperEntry("Figure 5.7: data locality by delay scheduling", "mesos.locality"),
    "swarm-three-nodes": PaperEntry(
        "Figure 1: three nodes and three ways to choose a destination",
        "swarm.figures",
        "three_nodes",
    ),
    "swarm-distribution": PaperEntry(
        "Figure 2: times to equilibrium of a swarm on 1,000 nodes", "swarm.figures", "distribution"
    ),
    "swarm-scaling": PaperEntry(
        "Figure 3: a swarm against the number of nodes, and two searches",
        "swarm.figures",
        "scaling",
    ),
    "swarm-model": PaperEntry(
        "Section 3: the swarm as differential equations", "swarm.equations", "equations"
    ),
    "swarm-fidelities": PaperEntry(
        "A swarm in bulk and message by message, on 50 nodes", "swarm.fidelities"
    ),
    "kapellmeister-schedule": PaperEntry(
        "Kapellmeister, figures 12 and 13: placed by NSGA-III against Kubernetes",
        "kapellmeister.placement",
        "schedule",
    ),
    "kapellmeister-reschedule": PaperEntry(
        "Kapellmeister, figure 15: a container that fits nowhere, fewest moves against from "
        "scratch",
        "kapellmeister.placement",
        "reschedule",
    ),
    "masb-spikes": PaperEntry(
        "Table 2: how often a node's load rises within a minute", "masb.tables", "spikes", PART
    ),
    "masb-benchmark": PaperEntry(
        "Table 3: negotiation beside placements without migration",
        "masb.tables",
        "benchmark",
        PART,
    ),
    "masb-performance": PaperEntry(
        "Table 4: 100 to 106 % of the load", "masb.tables", "performance", PART
    ),
    "masb-compaction": PaperEntry(
        "Table 5: 97 to 100 % of the nodes", "masb.tables", "compaction", PART
    ),
    "masb-migration-cost": PaperEntry(
        "Table 6: four pairs of scores, and what they move", "masb.volume", "generated", PART
    ),
    "masb-scalability": PaperEntry(
        "Table 7: 12,500 to 100,000 nodes",
        "masb.tables",
        "scalability",
        "8 % of the two smaller cells, 2.4 hours",
    ),
    "masb-options": PaperEntry(
        "Section 9: idle nodes shared, off-loading, silent nodes left out",
        "masb.options",
        "run",
        PART,
    ),
    "masb-google": PaperEntry(
        "Table 3 on Google's own cell, a replicate for each real day",
        "masb.google",
        "table_3",
        SIXTH,
    ),
    "masb-google-capacity": PaperEntry(
        "Tables 4 and 5 on Google's own cell: more load, fewer nodes",
        "masb.google",
        "tables_4_and_5",
        SIXTH,
    ),
    "masb-google-volume": PaperEntry(
        "Table 6 on Google's own cell: what four pairs of scores place and move",
        "masb.volume",
        "on_google",
        SIXTH,
    ),
    "masb-google-options": PaperEntry(
        "Section 9 on Google's own cell", "masb.options", "run_google", SIXTH
    ),
    "masb-optimum": PaperEntry(
        "Negotiation beside a search that sees the whole table and makes as many moves",
        "masb.optimum",
        quick="a sixth of the cell, four minutes of one day",
    ),
    "masb-fidelities": PaperEntry(
        "Negotiation in bulk and message by message, on 200 nodes", "masb.fidelities"
    ),
    "depas": PaperEntry(
        "DEPAS, figures 2 and 3: auto-scaling without a centre; crash, losses, 10,000 nodes",
        "depas.track",
    ),
    "depas-fidelities": PaperEntry(
        "DEPAS in bulk and message by message, on 30 to 60 nodes", "depas.fidelities"
    ),
}
