"""SWIM: MapReduce jobs of Facebook, as tab-separated lines of times and bytes."""

from __future__ import annotations

import numpy as np

from murmuration.base.resources import Resources
from murmuration.workload.formats.sizes import amounts
from murmuration.workload.formats.source import SourceFile
from murmuration.workload.formats.table import parse
from murmuration.workload.jobs import TASKS_MAX, job_list
from murmuration.workload.trace import Trace, TraceOptions

COLUMNS = ("job_id", "submit_s", "gap_s", "map_input_bytes", "shuffle_bytes", "reduce_output_bytes")
#: The median task length of the Facebook cluster the trace was taken from.
DURATION_S = 23.0


def is_swim(line: str) -> bool:
    fields = line.split("\t")
    return len(fields) == len(COLUMNS) and all(field.strip().isdigit() for field in fields[1:])


def read_swim(source: SourceFile, options: TraceOptions) -> Trace:
    """One job a line; its tasks are the blocks of its map input."""
    table = parse(source, names=COLUMNS, separator="\t", quoted=False)
    block = options.block_bytes
    size = table.numbers("map_input_bytes", high=TASKS_MAX * block)
    duration = DURATION_S if options.duration_s is None else options.duration_s
    one = np.ones(len(table))
    jobs = job_list(
        Resources(),
        ["mapreduce"],
        workload=np.zeros(len(table), dtype=np.int64),
        submit_s=table.numbers("submit_s"),
        tasks=np.maximum(np.ceil(size / block), 1).astype(np.int64),
        duration_s=one * duration,
        request=amounts(one * options.task_cpu, one * options.task_memory),
        job_id=table.names("job_id").to_list(),
    )
    assumptions = (
        f"a job has one task per {block / 1e6:g} MB of map input, and at least one",
        f"the trace has no durations: every task runs for {duration:g} s",
        f"the trace has no sizes: every task takes {options.task_cpu:g} CPU and "
        f"{options.task_memory / 1e9:g} GB",
    )
    return Trace("swim", len(table), jobs, assumptions=assumptions)
