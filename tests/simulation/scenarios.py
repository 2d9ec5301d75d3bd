"""Small random scenarios: a few unequal nodes, a few dozen jobs at times that often coincide, every
feature in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from murmuration.placement.registry import NAMES

Tables = dict[str, Any]
HEADER = (
    "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task,"
    "priority,gang,production,constraints"
)
WORKLOADS = ("batch", "service")
HORIZON_S = 60.0
#: Nodes on which every job of a scenario can run.
ROOMY: Tables = {"count": 2, "cpu": 4, "memory": "8G", "attributes": {"zone": "a", "gen": 2.0}}

MONOLITHIC: list[Tables] = [
    {"kind": "monolithic", "paths": "single"},
    {"kind": "monolithic", "paths": "multi"},
]
PARTITIONED: list[Tables] = [
    {"kind": "partitioned", "partition": shares}
    for shares in ({}, {"batch": 0.3}, {"batch": 0.5, "service": 0.4})
]
SHARED_STATE: list[Tables] = [
    {"kind": "shared-state", "conflict": conflict, "transaction": transaction, "policy": policy}
    for conflict in ("resource", "machine")
    for transaction in ("incremental", "all-or-nothing")
    for policy in (
        {},
        {},
        {"batch": {"quota": 0.5}},
        {"service": {"headroom": 0.25}, "batch": {"quota": 0.75}},
    )
]
OFFERS: list[Tables] = [
    {
        "kind": "offers",
        "offers": {"allocator": allocator, "framework": {"service": {"weight": 3.0}}},
    }
    for allocator in ("drf", "priority", "lottery")
]


class Draw:
    """Values drawn from lists, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def some(self, *values: Any) -> Any:
        return values[int(self.rng.integers(len(values)))]

    def upto(self, least: int, most: int) -> int:
        return int(self.rng.integers(least, most + 1))


def job_line(index: int, draw: Draw) -> str:
    fields = [
        f"j{index}",
        WORKLOADS[index] if index < 2 else draw.some(*WORKLOADS),
        draw.upto(0, 100) / 4,
        draw.upto(1, 6),
        draw.some(0, 0.5, 1, 3, 10, 40),
        draw.some(0.5, 1, 2),
        draw.some(0, 1, 2),
        draw.some(0, 0, 0, 1, -1),
        draw.some("false", "false", "true"),
        draw.some("false", "true"),
        draw.some("", "", "zone = a", "gen > 1"),
    ]
    return ",".join(map(str, fields))


def cluster(draw: Draw) -> Tables:
    groups = [
        {
            "count": draw.upto(1, 3),
            "cpu": draw.some(1, 2, 4),
            "memory": draw.some("2G", "4G", "8G"),
            "attributes": {"zone": draw.some("a", "b"), "gen": draw.some(1.0, 2.0)},
        }
        for _ in range(draw.upto(1, 3))
    ]
    return {"group": groups}


def scheduler(draw: Draw, kinds: list[Tables]) -> Tables:
    decisions = {
        name: {"job_time_s": draw.some(0.0, 0.25, 1.0, 3.0), "task_time_s": draw.some(0.0, 0.25)}
        for name in ("default", *WORKLOADS)
        if name == "default" or draw.some(True, False)
    }
    return {
        **draw.some(*kinds),
        "placement": draw.some(*NAMES),
        "decision": decisions,
        "agents": {name: draw.upto(1, 3) for name in WORKLOADS},
        "retry_s": draw.some(0.0, 0.0, 0.5),
        "attempts_max": draw.some(0, 3, 20),
        "empty_attempts_max": draw.some(0, 2, 10),
        **draw.some({}, {}, {"unplaced": "back-off", "retry_max_s": draw.some(0.5, 4.0, 9.0)}),
    }


def random_tables(seed: int, kinds: list[Tables], folder: Path, jobs_max: int = 60) -> Tables:
    """The tables of a scenario whose jobs lie in a file. Both workloads are in it, so that tables
    may name them."""
    draw = Draw(seed)
    path = folder / "jobs.csv"
    path.write_text(
        "\n".join([HEADER, *(job_line(k, draw) for k in range(draw.upto(2, jobs_max)))]) + "\n"
    )
    return {
        "name": "random",
        "seed": seed,
        "days": HORIZON_S / 86_400.0,
        "cluster": cluster(draw),
        "workload": {"trace": str(path)},
        "scheduler": scheduler(draw, kinds),
    }
