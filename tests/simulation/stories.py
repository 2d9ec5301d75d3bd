"""Small hand-made scenarios, so that each test reads as a story: these nodes, these jobs, this
rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from murmuration.simulation.engine import run as engine
from murmuration.simulation.results import invariants
from murmuration.simulation.results import summary as results
from murmuration.simulation.scenarios import scenario as sc

HEADER = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task"
Job = tuple[str, str, float, int, float, float]


class Story:
    """Nodes and jobs; `run` lets them happen under a scheduler and keeps what became of each
    job."""

    def __init__(
        self, folder: Path, nodes: int = 2, cpu: float = 4.0, seconds: float = 100.0
    ) -> None:
        self.path = folder / "jobs.csv"
        self.tables: dict[str, Any] = {
            "name": "story",
            "days": seconds / 86_400.0,
            "cluster": {"nodes": nodes, "cpu": cpu, "memory": "16G"},
            "workload": {"trace": str(self.path)},
        }
        self.jobs: list[str] = []

    def job(
        self,
        name: str,
        workload: str,
        at: float = 0.0,
        tasks: int = 1,
        lasts: float = 1000.0,
        cpu: float = 1.0,
    ) -> None:
        self.jobs.append(f"{name},{workload},{at},{tasks},{lasts},{cpu},0")

    def nodes(self, **attributes: list[str]) -> None:
        """As many nodes as there are values, each with its own."""
        size = {"count": 1, "cpu": self.tables["cluster"]["cpu"], "memory": "16G"}
        key, values = next(iter(attributes.items()))
        self.tables["cluster"] = {
            "group": [{**size, "attributes": {key: value}} for value in values]
        }

    def run(self, kind: str = "offers", job_time_s: float = 1.0, **scheduler: Any) -> Ended:
        self.path.write_text("\n".join([HEADER, *self.jobs]) + "\n")
        times = {"default": {"job_time_s": job_time_s, "task_time_s": 0.0}}
        tables = {**self.tables, "scheduler": {"kind": kind, "decision": times, **scheduler}}
        run = engine.prepare(sc.check(tables))
        for until in np.linspace(0.0, run.horizon_s, 20):
            engine.advance(run, float(until))
            invariants.check(run)
        engine.advance(run)
        return Ended(run)


class Ended:
    """What became of a story."""

    def __init__(self, run: engine.Run) -> None:
        self.world = run.world
        self.summary = results.summary(run, "story")
        table = results.job_table(run)
        self.jobs = {
            name: {column: table[column][row].item() for column in table}
            for row, name in enumerate(table["job_id"])
        }

    def __getitem__(self, job: str) -> dict[str, Any]:
        return self.jobs[job]

    def count(self, name: str) -> int:
        found = self.summary["cluster"][name]
        assert isinstance(found, int)
        return found

    def nodes_of(self, job: int) -> list[int]:
        """The nodes the running tasks of a job are on."""
        return sorted(
            int(self.world.slots["node"][slot])
            for run in np.flatnonzero(
                (self.world.runs["job"] == job) & (self.world.runs["count"] > 0)
            )
            for slot in self._slots(int(run))
        )

    def _slots(self, run: int) -> list[int]:
        found, slot = [], int(self.world.runs["slot"][run])
        for _ in range(int(self.world.runs["count"][run])):
            found.append(slot)
            slot = int(self.world.slots["next"][slot])
        return found
