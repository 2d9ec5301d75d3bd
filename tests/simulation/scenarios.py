"""Small random scenarios: a few unequal nodes, a few dozen jobs at times that often coincide, every feature mixed in."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from murmuration.placement.registry import NAMES

Tables = dict[str, Any]
HEADER = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task,priority,gang,production,constraints"
WORKLOADS = ("batch", "service")
HORIZON_S = 60.0

#: Where the job lists of one process lie; each is written over the one before.
FOLDER = Path(tempfile.mkdtemp(prefix="murmur-jobs-"))

MODES = [
    {"kind": "shared-state", "conflict": conflict, "transaction": transaction}
    for conflict in ("resource", "machine")
    for transaction in ("incremental", "all-or-nothing")
]


def some(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


def job_line(index: int, draw: st.DrawFn) -> str:
    fields = [
        f"j{index}", draw(some(*WORKLOADS)), draw(st.integers(0, 60)) / 4, draw(st.integers(1, 6)),
        draw(some(0, 0.5, 1, 3, 10, 40)), draw(some(0.5, 1, 2)), draw(some(0, 1, 2)), draw(some(0, 0, 0, 1, -1)),
        draw(some("false", "false", "true")), draw(some("false", "true")), draw(some("", "", "zone = a", "gen > 1")),
    ]  # fmt: skip
    return ",".join(map(str, fields))


@st.composite
def clusters(draw: st.DrawFn) -> Tables:
    groups = [
        {
            "count": draw(st.integers(1, 3)), "cpu": draw(some(1, 2, 4)), "memory": draw(some("2G", "4G", "8G")),
            "attributes": {"zone": draw(some("a", "b")), "gen": draw(some(1.0, 2.0))},
        }
        for _ in range(draw(st.integers(1, 3)))
    ]  # fmt: skip
    return {"group": groups}


@st.composite
def schedulers(draw: st.DrawFn, kinds: list[Tables]) -> Tables:
    decisions = {
        name: {"job_time_s": draw(some(0.0, 0.25, 1.0, 3.0)), "task_time_s": draw(some(0.0, 0.25))}
        for name in ("default", *WORKLOADS)
        if name == "default" or draw(st.booleans())
    }
    return {
        **draw(st.sampled_from(kinds)), "placement": draw(st.sampled_from(NAMES)), "decision": decisions,
        "retry_s": draw(some(0.0, 0.0, 0.5)), "attempts_max": draw(some(0, 3, 20)),
        "empty_attempts_max": draw(some(0, 2, 10)),
    }  # fmt: skip


@st.composite
def scenarios(draw: st.DrawFn, kinds: list[Tables], jobs_most: int = 30) -> Tables:
    """The tables of a scenario whose jobs lie in a file. Both workloads are in it, so that tables may name them."""
    lines = [job_line(index, draw) for index in range(draw(st.integers(2, jobs_most)))]
    lines[:2] = [line.replace(",batch,", f",{name},", 1).replace(",service,", f",{name},", 1)
                 for line, name in zip(lines, WORKLOADS, strict=False)]  # fmt: skip
    path = FOLDER / "jobs.csv"
    path.write_text("\n".join([HEADER, *lines]) + "\n")
    return {
        "name": "random", "seed": draw(st.integers(0, 9)), "days": HORIZON_S / 86_400.0,
        "cluster": draw(clusters()), "workload": {"trace": str(path)}, "scheduler": draw(schedulers(kinds)),
    }  # fmt: skip
