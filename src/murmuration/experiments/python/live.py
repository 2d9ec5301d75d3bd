"""`Cluster`: a live cluster from Python, started here or found in its folder."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from murmuration.base.documents import Document, Json, JsonObject
from murmuration.base.errors import InputError
from murmuration.runtime.client.requests import ApiClient
from murmuration.workload.job_spec import JobSpec, split_task

if TYPE_CHECKING:
    import polars as pl

#: How long one question about the end of a job may wait for its answer.
ASK_S = 20.0


class Cluster:
    """The live cluster of a folder.

    `Cluster()` finds the one that `murmur up` started; `Cluster.start(nodes=3)` starts one in a
    folder of its own, which a `with` block ends and removes.
    """

    def __init__(self, folder: Path | str | None = None) -> None:
        self._client = ApiClient(None if folder is None else Path(folder))
        self._temporary: Path | None = None

    @classmethod
    def start(
        cls,
        nodes: int = 3,
        *,
        folder: Path | str | None = None,
        cpu: float | None = None,
        memory: str | None = None,
        resources: Mapping[str, str | float] | None = None,
        attributes: Mapping[str, str | float] | None = None,
        scheduler: str = "monolithic",
        placement: str = "first-fit",
        isolation: str = "auto",
        seed: int = 1,
    ) -> Self:
        """Start a master and so many node agents on this host; they run until `down`."""
        from murmuration.runtime import supervisor
        from murmuration.runtime.local import local_parts, node_amounts
        from murmuration.runtime.options import MasterOptions

        temporary = Path(tempfile.mkdtemp(prefix="murmur-")) if folder is None else None
        place = temporary / "cluster" if temporary else Path(str(folder))
        amounts = node_amounts(nodes, cpu, memory, resources)
        master = MasterOptions(
            folder=str(place),
            scheduler=scheduler,
            placement=placement,
            resources=[name for name in amounts if name not in ("cpu", "memory")],
            seed=seed,
            isolation=isolation,
        )
        try:
            supervisor.start_detached(local_parts(master, nodes, amounts, attributes or {}))
        except BaseException:
            shutil.rmtree(temporary or place / "nowhere", ignore_errors=True)
            raise
        cluster = cls(place)
        cluster._temporary = temporary
        return cluster

    @property
    def folder(self) -> Path:
        return self._client.folder

    def submit(self, job: JobSpec | Path | str) -> list[str]:
        """Submit a job, or the jobs of a TOML or Python file; their names."""
        from murmuration.workload.formats.job_files import read_jobs

        specs = [job] if isinstance(job, JobSpec) else read_jobs(Path(job))
        return [self._client.post("jobs", body=spec)["job"] for spec in specs]

    def run(self, name: str, command: Sequence[str], **settings: Json) -> Document:
        """Submit a command as a job and wait for its end: `run("hello", ["echo", "hi"], count=3)`.
        The settings are those of a job file."""
        self.submit(JobSpec(name=name, command=list(command), **settings))
        return self.wait(name)

    def wait(self, job: str, timeout_s: float | None = None) -> Document:
        """Wait until a job has ended; its state and exit code."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = ASK_S if deadline is None else min(ASK_S, deadline - time.monotonic())
            status: Document = self._client.get("jobs", job, wait_s=max(left, 0.0))
            if status["ended"]:
                return status
            if deadline is not None and time.monotonic() >= deadline:
                raise TimeoutError(f"{job} has not ended after {timeout_s:g} s")

    @property
    def jobs(self) -> pl.DataFrame:
        """One row per job: submit_s, state, exit code …, and `nodes`, the nodes of its tasks."""
        import polars as pl

        rows = self._client.get("jobs")["jobs"]
        nodes: dict[str, list[str]] = {}
        for task in self._client.get("tasks")["tasks"]:
            named = nodes.setdefault(task["job"], [])
            if task["node"] and task["node"] not in named:
                named.append(task["node"])
        flat = [{**_flatten(row), "nodes": nodes.get(row["job"], [])} for row in rows]
        return pl.DataFrame(flat, infer_schema_length=None)

    @property
    def tasks(self) -> pl.DataFrame:
        """One row per task: its state, node, start and end."""
        return _frame(self._client.get("tasks")["tasks"])

    @property
    def nodes(self) -> pl.DataFrame:
        """One row per node: what it has, what is required and used."""
        return _frame(self._client.get("status")["nodes"])

    def why(self, job: str) -> Document:
        """Why a job waits, or why it runs where it does."""
        answer: Document = self._client.get("jobs", job, "why")
        return answer

    def logs(self, task: str, stream: str = "stdout") -> str:
        """The output of a task such as `hello.0` so far."""
        parts: list[str] = []
        at = 0
        while True:
            answer = self._client.get("tasks", task, "output", offset=at, stream=stream)
            at = answer["next"]
            if not answer["text"]:
                return "".join(parts)
            parts.append(answer["text"])

    def kill(self, name: str) -> None:
        """End a job or a task."""
        self._client.delete("jobs" if split_task(name)[1] is None else "tasks", name)

    def down(self) -> None:
        """End the cluster and its tasks, and remove its folder."""
        from murmuration.runtime.supervisor import bring_down

        if not bring_down(self.folder, keep=False):
            raise InputError(f"{self.folder}: no cluster is here")
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """A cluster that was started here ends with the block; one that was found goes on."""
        if self._temporary is not None:
            self.down()

    def __repr__(self) -> str:
        return f"<cluster in {self.folder}>"


def _frame(rows: Sequence[JsonObject]) -> pl.DataFrame:
    import polars as pl

    return pl.DataFrame([_flatten(row) for row in rows], infer_schema_length=None)


def _flatten(row: JsonObject) -> Document:
    """A row without tables in it: `used.cpu` beside `used.memory`."""
    flat: Document = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            flat |= {f"{key}.{name}": inner for name, inner in value.items()}
        else:
            flat[key] = value
    return flat
