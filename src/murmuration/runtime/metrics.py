"""Metrics in the text format that Prometheus reads (version 0.0.4), and those of every process.

The format is a few lines of text for each metric, so it is written here: the usual library keeps a
registry that is global to a process and counts beside what the parts know anyway. A part answers
with what it knows at the moment it is asked.
"""

from __future__ import annotations

import math
import os
import resource
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PAGE = resource.getpagesize()
_STARTED_S = time.time()
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


class MetricFamily(NamedTuple):
    """One metric: its samples by the values of its labels."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    labels: tuple[str, ...]
    samples: Mapping[tuple[str, ...], float]


def count_by(counts: Mapping[str, int]) -> dict[tuple[str, ...], float]:
    """Samples with one label."""
    return {(name,): float(count) for name, count in counts.items()}


def gauge(name: str, help_: str, value: float) -> MetricFamily:
    return MetricFamily(name, "gauge", help_, (), {(): value})


def counter(name: str, help_: str, value: float) -> MetricFamily:
    return MetricFamily(name, "counter", help_, (), {(): value})


def render(families: Iterable[MetricFamily]) -> str:
    """The text that is answered."""
    lines = []
    for family in families:
        lines.append(f"# HELP {family.name} {family.help}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for values, value in family.samples.items():
            pairs = zip(family.labels, values, strict=True)
            inner = ",".join(f'{name}="{text.translate(_ESCAPES)}"' for name, text in pairs)
            lines.append(f"{family.name}{f'{{{inner}}}' if inner else ''} {_number(value)}")
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return repr(float(value))


def process_families() -> list[MetricFamily]:
    """What every part says of its own process, under the names that are usual."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return [
        counter(
            "process_cpu_seconds_total", "CPU time of the process", used.ru_utime + used.ru_stime
        ),
        gauge("process_resident_memory_bytes", "Memory of the process", pages * _PAGE),
        gauge("process_open_fds", "Open descriptors", len(os.listdir("/proc/self/fd"))),
        gauge("process_start_time_seconds", "When the process started, since 1970", _STARTED_S),
    ]
