"""Small traces in Google's six-table format, written to a folder, and a plain reader of them to
compare with."""

from __future__ import annotations

import csv
import gzip
import math
import random
from dataclasses import dataclass, field
from pathlib import Path

TABLES = (
    "job_events",
    "task_events",
    "task_usage",
    "task_constraints",
    "machine_events",
    "machine_attributes",
)
SECOND = 1_000_000
Row = list[object]


@dataclass
class Folder:
    """Rows by table, as the trace has them; a helper for each kind of row with times in seconds."""

    rows: dict[str, list[Row]] = field(default_factory=lambda: {name: [] for name in TABLES})

    def node(
        self, time_s: float, node: int, kind: int, cpu: object = 0.5, memory: object = 0.5
    ) -> None:
        self.rows["machine_events"].append([int(time_s * SECOND), node, kind, "plat", cpu, memory])

    def attribute(
        self, time_s: float, node: int, name: str, value: object, deleted: int = 0
    ) -> None:
        self.rows["machine_attributes"].append([int(time_s * SECOND), node, name, value, deleted])

    def task(
        self,
        time_s: float,
        job: int,
        index: int,
        kind: int,
        node: object = "",
        priority: int = 0,
        cpu: object = 0.1,
        memory: object = 0.1,
        klass: int = 0,
        spread: object = "",
    ) -> None:
        self.rows["task_events"].append(
            [
                int(time_s * SECOND),
                "",
                job,
                index,
                node,
                kind,
                "user",
                klass,
                priority,
                cpu,
                memory,
                0,
                spread,
            ]
        )

    def usage(
        self, start_s: float, end_s: float, job: int, index: int, cpu: object, memory: object
    ) -> None:
        window: Row = [int(start_s * SECOND), int(end_s * SECOND), job, index, 1, cpu, memory]
        self.rows["task_usage"].append(window + [""] * 12 + [0.0])

    def constraint(
        self, time_s: float, job: int, index: int, operator: int, name: str, value: object
    ) -> None:
        self.rows["task_constraints"].append(
            [int(time_s * SECOND), job, index, operator, name, value]
        )

    def write(self, path: Path, parts: int = 1) -> Path:
        """Each table in that many packed parts, as published."""
        for table, rows in self.rows.items():
            if not rows:
                continue
            (path / table).mkdir(parents=True, exist_ok=True)
            size = -(-len(rows) // parts)
            for k in range(0, len(rows), size):
                file = path / table / f"part-{k // size:05d}-of-{parts:05d}.csv.gz"
                with gzip.open(file, "wt", newline="") as text:
                    csv.writer(text, lineterminator="\n").writerows(rows[k : k + size])
        return path


def random_folder(seed: int) -> Folder:
    """A cell of a few nodes and tasks that come, go, are evicted, come again and use what they
    use."""
    draw, folder = random.Random(seed), Folder()
    for node in range(1, 6):
        folder.node(0 if node < 5 else draw.randint(600, 3000), node, 0, 1.0, 1.0)
        folder.attribute(0, node, "generation", draw.randint(1, 3))
    events: list[tuple[float, int, int, int]] = []
    for job in range(10, 14):
        for index in range(draw.randint(1, 4)):
            now = 0.0 if draw.random() < 0.3 else float(draw.randint(600, 3000))
            first = now
            for _ in range(draw.randint(1, 3)):
                events.append((now, job, index, 0))
                events.append((now := now + draw.randint(0, 30), job, index, 1))
                events.append((now := now + draw.randint(1, 2000), job, index, draw.choice([2, 3])))
            if draw.random() < 0.3:
                events.append((now + 5, job, index, 1))
            for operator in draw.sample(range(4), draw.choice([0, 0, 1, 2])):
                folder.constraint(first, job, index, operator, "generation", draw.randint(0, 3))
            window = first
            while draw.random() < 0.8:
                window += draw.randint(0, 400)
                folder.usage(
                    window,
                    window := window + draw.randint(1, 700),
                    job,
                    index,
                    draw.random(),
                    draw.random(),
                )
    for time_s, job, index, kind in sorted(events, key=lambda event: event[0]):
        place = draw.randint(1, 5) if kind == 1 else ""
        priority = 9 if job % 2 else 0
        folder.task(
            time_s, job, index, kind, place, priority, 0.25, 0.0 if job == 12 else 0.5, job % 4
        )
    return folder


@dataclass
class Life:
    """One task as a plain reader sees it."""

    submit: float = math.nan
    start: float = math.nan
    end: float = math.nan
    node: str = ""


def lives(folder: Folder) -> dict[str, Life]:
    """Row by row: first submission, first start and its node, last end unless it was started again
    after it."""
    found: dict[str, Life] = {}
    for time_us, _, job, index, node, kind, *_ in folder.rows["task_events"]:
        life = found.setdefault(f"{job}-{index}", Life())
        now = int(str(time_us)) / SECOND
        if kind == 0 and math.isnan(life.submit):
            life.submit = now
        if kind == 1:
            life.end = math.nan
            if math.isnan(life.start):
                life.start, life.node = now, str(node)
        elif kind != 0:
            life.end = now
    times = [int(str(row[0])) for row in folder.rows["task_events"]]
    times += [int(str(row[1])) for row in folder.rows["task_usage"]]
    for life in found.values():
        life.end = max(times) / SECOND if math.isnan(life.end) else life.end
    return found


def seconds_used(
    folder: Folder, task: str, start: float, until: float, column: int
) -> dict[int, list[float]]:
    """For each step of 300 s from the start, the value of every second that a window covers."""
    steps: dict[int, list[float]] = {}
    for row in folder.rows["task_usage"]:
        if f"{row[2]}-{row[3]}" == task:
            begin, end = int(str(row[0])) / SECOND - start, int(str(row[1])) / SECOND - start
            for second in range(max(int(begin), 0), min(int(end), int(until))):
                steps.setdefault(second // 300, []).append(float(str(row[column])))
    return steps
