"""A study from Python: three ways to place the same jobs, what differs and by how much, and where
the jobs of one run went. Open study.ipynb for the same in a notebook, or run it:

.venv/bin/python examples/study.py
"""

from pathlib import Path

import polars as pl

import murmuration

SMALL = str(Path(__file__).with_name("small.toml"))


def emptiest(total, free, request):
    """A score of one's own: the node with the most CPU left. Higher is better."""
    return free[:, 0] - request[0]


comparison = murmuration.compare(
    SMALL,
    {
        "first fit": {"scheduler.placement": "first-fit"},
        "best fit": {"scheduler.placement": "best-fit"},
        "emptiest": {"scheduler.placement": emptiest},
    },
    days=0.05,
    replicas=3,
)
print("\n".join(comparison.verdict))

# Figures are data frames: one row per scheduler and workload, with 95 % intervals.
nodes = comparison.cluster.select("scheduler", pl.col("nodes_in_use_mean").round(1))
print(dict(nodes.iter_rows()))

# One run, task by task: on how many nodes did the jobs of each workload run?
run = murmuration.simulate(SMALL, days=0.02, detail=True)
spread = (
    run.jobs.with_columns(pl.col("nodes").list.len())
    .group_by("workload")
    .agg(pl.len().alias("jobs"), pl.col("nodes").max())
)
print(spread.sort("workload").rows())

# The same over a setting.
sweep = murmuration.sweep(SMALL, {"cluster.keep": [0.5, 1.0]}, days=0.05)
print(sweep.frame.filter(workload="batch").select("keep", pl.col("wait_s_mean").round(2)).rows())
