"""Why rows of reproductions fail, where it is known."""

from __future__ import annotations

import re

TOO_EVEN = "Use varies too little from job to job in the generated cell; see masb-google."
TOO_SMALL = "Tasks of the generated cell ask for less memory than Google's."
WANDER = (
    "It would take a rule by which new tasks wander, which the paper does not print; what was "
    "tried is in the notes."
)
#: Why rows fail, where it is known: by experiment, for rows whose name matches.
REASONS: dict[str, tuple[tuple[str, str], ...]] = {
    "dps-model": (
        ("ln k", "The paper writes ln k for the harmonic number, which is larger."),
        ("own tasks of length T", "Its formula takes the work to be divisible at will."),
    ),
    "sharing": (
        ("gang", "The paper's 12 s include the start of Torque's daemons, which is not modelled."),
        ("Spark|ALS", "Not known."),
        (
            "",
            "How much large jobs gain depends on the order of the jobs; the paper ran one, these "
            "are means of twelve.",
        ),
    ),
    "kapellmeister-schedule": (
        (
            "power",
            "Idle power, which no placement changes, is most of it; the authors' program adds up "
            "one node only.",
        ),
        ("^M", "The paper does not say which family its figures show; A1's fit them."),
        ("imbalance", "Theirs compares two different means."),
    ),
    "kapellmeister-reschedule": (
        ("objective", "Theirs stands beside a schedule that left containers out."),
    ),
    "masb-spikes": (
        ("most", "The generator has no events of the whole cell, nor jobs of thousands of tasks."),
    ),
    "masb-benchmark": (
        (
            "requests that find",
            "Jobs of the generated cell are small: few tasks ask at the same time.",
        ),
        (
            r"above kubernetes \(",
            "Not known: least allocated fills nodes as evenly, and overloads ten times as many.",
        ),
        ("", TOO_EVEN),
    ),
    "masb-performance": (
        ("guaranteed", "A twelfth of the cell has not quite its mix of nodes."),
        ("", TOO_EVEN),
    ),
    "masb-compaction": (("", TOO_EVEN),),
    "masb-scalability": (("", TOO_EVEN),),
    "masb-migration-cost": (("SRAS: GB", TOO_SMALL), ("", WANDER)),
    "masb-google-volume": (
        ("SIAS, SRAS: GB", "SIAS without gains moves as little here as with them."),
        ("", WANDER),
    ),
    "masb-google": (
        (
            "idle",
            "The paper puts its idle nodes down to brokers that know a part of the nodes; one "
            "broker knows them all here.",
        ),
        (
            "requests that find",
            "Days differ much: the 95 % interval of the mean of twenty reaches into the band; on a "
            "sixth of the cell, where the same jobs meet fewer nodes, it is 8.0 %.",
        ),
        (
            "rises",
            "Google's own machines, in the one hour whose use is published, rose as often as here "
            "when scaled to the paper's use; the paper's rises are fewer.",
        ),
        ("overloaded", "Not known."),
        ("most", "The paper's is the most of 29 days, here of a tenth of each of 20 days."),
    ),
    "rss-modes": (
        (
            "at least",
            "Steep is read as twice. Over seven days machine granularity alone brings half as much "
            "again, and twice only together with all-or-nothing transactions.",
        ),
    ),
    "swarm-distribution": (
        (
            "mean of the three",
            "The paper does not say which mean it takes: the mean of the three shares is 88 % in "
            "10,000 runs each, all migrations beyond all that are needed are 72 %.",
        ),
    ),
    "masb-google-capacity": (
        (
            "[pd]a nodes",
            "Its text (7.5) says that more load leaves fewer PA nodes and more STA and TA ones, as "
            "here; its tables have it the other way round.",
        ),
        ("", "The level with all nodes is higher here; the paper's does not rise yet at 99 %."),
    ),
}


def explain(experiment: str, quantity: str) -> str:
    """Why a row fails, if that is known."""
    for pattern, why in REASONS.get(experiment, ()):
        if re.search(pattern, quantity):
            return why
    return "Not known."
