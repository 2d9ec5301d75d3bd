"""Bitbrains' virtual machines (GWA-T-12, fastStorage): their sizes, and in a file beside them the
CPU they used."""

from __future__ import annotations

import numpy as np

from murmuration.base.arrays import Floats
from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.workload.formats.sizes import CPU_MAX, SIZE_MAX, amounts
from murmuration.workload.formats.source import SourceFile, find_beside, load
from murmuration.workload.formats.table import parse
from murmuration.workload.jobs import job_list
from murmuration.workload.trace import LeftOut, Trace, TraceOptions
from murmuration.workload.usage import Curves
from murmuration.workload.windows import resample

COLUMNS = ("vm_id", "start_s", "stop_s", "cpu_count", "cpu_capacity_mhz", "mem_capacity")
USAGE_COLUMNS = ("vm_id", "end_s", "duration_ms", "cpu_usage_mhz")
USAGE_FILE = "usage"
STEP_S = 300.0
KB = 1024


def read_bitbrains(source: SourceFile, options: TraceOptions) -> Trace:
    """Every virtual machine a service of one task, from its start to its stop."""
    table = parse(source)
    table.need(COLUMNS, "virtual machines")
    start, stop = table.numbers("start_s"), table.numbers("stop_s")
    table.refuse(stop < start, "stop_s", "a time that is not before the start")
    path = find_beside(source.path, USAGE_FILE)
    if path is None:
        raise InputError(
            f"{source.path}: expected a file {USAGE_FILE}.csv beside it, with the CPU that was used"
        )
    left_out = LeftOut(options.strict)
    names = table.names("vm_id").to_list()
    points = max(int(np.ceil((stop - start).max() / STEP_S)), 1)
    used = _usage(load(path), names, start, points, left_out)
    capacity = table.numbers("cpu_capacity_mhz", high=SIZE_MAX)
    share = np.ones((len(table), points, 2), dtype=np.float32)
    share[:, :, 0] = used / np.where(capacity > 0, capacity, 1.0)[:, None]
    known = ~np.isnan(used[:, 0])
    cpu, memory = (
        table.numbers("cpu_count", high=CPU_MAX),
        table.numbers("mem_capacity", high=SIZE_MAX / KB) * KB,
    )
    jobs = job_list(
        Resources(),
        ["service"],
        workload=np.zeros(len(table), dtype=np.int64),
        submit_s=start - start.min(),
        tasks=np.ones(len(table), dtype=np.int64),
        duration_s=stop - start,
        request=amounts(cpu, memory),
        job_id=names,
        curve=np.where(known, np.arange(len(table)), -1),
        curves=Curves(np.nan_to_num(share), STEP_S),
    )
    assumptions = (
        f"time 0 is the first start, {start.min():.0f} s; usage is resampled to {STEP_S:g} s "
        "from each start",
        "CPU use is a share of the capacity in MHz, and all of the memory is used",
    )
    return Trace(
        "bitbrains", len(table), jobs, assumptions=assumptions, skipped=tuple(left_out.lines)
    )


def _usage(
    source: SourceFile, names: list[str], start: Floats, points: int, left_out: LeftOut
) -> Floats:
    """MHz by virtual machine and point."""
    table = parse(source)
    table.need(USAGE_COLUMNS, "usage")
    known = {name: row for row, name in enumerate(names)}
    vm = np.array([known.get(name, -1) for name in table.texts("vm_id").to_list()], dtype=np.int64)
    used = table.measured("cpu_usage_mhz")
    keep = left_out.without(table, vm < 0, "usage of an unknown task")
    keep &= left_out.without(
        table, ~(used >= 0) | np.isinf(used), "usage that is negative or no number"
    )
    end, length = table.numbers("end_s"), table.numbers("duration_ms") / 1000.0
    vm, used, end, length = vm[keep], used[keep], end[keep] - start[vm[keep]], length[keep]
    return resample(vm, end - length, end, used[:, None], len(names), points, STEP_S)[:, :, 0]
