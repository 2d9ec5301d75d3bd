"""PlanetLab's virtual machines (CoMon, 2011): the CPU each one used, every five minutes of one
day."""

from __future__ import annotations

import re

import numpy as np

from murmuration.base.resources import Resources
from murmuration.workload.formats.sizes import amounts
from murmuration.workload.formats.source import SourceFile
from murmuration.workload.formats.table import parse
from murmuration.workload.jobs import job_list
from murmuration.workload.trace import Trace, TraceOptions
from murmuration.workload.usage import Curves

COLUMNS = ("vm", "u000", "u001")
STEP_S = 300.0
PERCENT = 100.0


def read_planetlab(source: SourceFile, options: TraceOptions) -> Trace:
    """Every virtual machine a service of one task that is there all day."""
    table = parse(source)
    points = [name for name in table.columns if re.fullmatch(r"u\d+", name)]
    table.need(COLUMNS, "virtual machines")
    share = np.ones((len(table), len(points), 2), dtype=np.float32)
    for k, name in enumerate(points):
        share[:, k, 0] = table.numbers(name, high=PERCENT) / PERCENT
    span_s = len(points) * STEP_S
    duration = span_s if options.duration_s is None else options.duration_s
    one = np.ones(len(table))
    jobs = job_list(
        Resources(),
        ["service"],
        workload=np.zeros(len(table), dtype=np.int64),
        submit_s=np.zeros(len(table)),
        tasks=one.astype(np.int64),
        duration_s=one * duration,
        request=amounts(one * options.task_cpu, one * options.task_memory),
        job_id=table.names("vm").to_list(),
        curve=np.arange(len(table)),
        curves=Curves(share, STEP_S),
    )
    assumptions = (
        f"the trace has no sizes: every virtual machine asks for {options.task_cpu:g} CPU and "
        f"{options.task_memory / 1e9:g} GB, and its percentages are of that CPU",
        "the trace has no memory use: each uses all of its memory",
        f"all are there from 0 s and run for {duration:,.0f} s; a point is {STEP_S:g} s",
    )
    return Trace("planetlab", len(table), jobs, assumptions=assumptions)
