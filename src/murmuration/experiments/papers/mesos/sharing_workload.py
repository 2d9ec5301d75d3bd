"""The four workloads of the macro-benchmark (5.5.1) and one run of them, on a shared or a divided
cluster.

What the paper leaves out was chosen: task durations are log-normal with a coefficient of variation
of 0.3; their means, the `task_s` below, are such that each job type takes as long on its static
partition as Table 5.4 says (each was scaled until the mean of 20 static runs met the table).
Nothing was fitted to the shared run. Every task asks for one CPU. An ALS job is ten iterations of
192 tasks, two per CPU of its partition. A tachyon job is submitted every three minutes.

On the shared cluster a Hadoop framework starts an executor on a node where none of its tasks runs,
and tasks there wait until it is up. `EXECUTOR_S` was set on the small jobs alone, and predicts the
mix. In a partition of its own Hadoop's daemons always run, and Spark keeps its executors.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from murmuration.base.random import generator
from murmuration.schedulers.offers.frameworks import (
    ElasticFramework,
    Framework,
    GangFramework,
    GangJob,
    Job,
    TaskSpec,
)
from murmuration.schedulers.offers.master import Rules
from murmuration.schedulers.offers.messages import (
    Filters,
    JobFinished,
    LaunchTask,
    Register,
    SetFilters,
    Status,
    Submit,
    TaskReport,
    Vector,
)
from murmuration.simulation.messages.offers import OffersCluster, assemble, lasts_payload

Floats = NDArray[np.float64]

NODES, PARTITION, CPUS = 96, 24, 4
CPU, GB = 10**6, 10**9
NODE: Vector = (CPUS * CPU, 15 * GB)
FACEBOOK, LARGE, SPARK, TORQUE = FRAMEWORKS = (
    "Facebook Hadoop Mix",
    "Large Hadoop Mix",
    "Spark",
    "Torque / MPI",
)
HADOOP_TASK, SPARK_TASK, MPI_TASK = (CPU, 2 * GB), (CPU, 3 * GB), (CPU, GB)
VARIATION = 0.3
GAP_S, ALS_PAUSE_S, TACHYON_EVERY_S = 14.0, 120.0, 180.0
ALS_ITERATIONS, ALS_TASKS = 10, 192
SUBMISSIONS_S = 25 * 60.0
HADOOP, EXECUTOR_S = (FACEBOOK, LARGE), 5.0


@dataclass(frozen=True)
class JobType:
    """A row of Tables 5.2 and 5.4: tasks per stage, jobs, the paper's two figures, and the mean
    task duration here."""

    name: str
    framework: str
    stages: tuple[int, ...]
    jobs: int
    static_s: float
    speedup: float
    task_s: float


TYPES = (
    JobType("selection (1)", FACEBOOK, (1,), 38, 24, 0.84, 23.9),
    JobType("text search (2)", FACEBOOK, (2,), 18, 31, 0.90, 26.0),
    JobType("aggregation (3)", FACEBOOK, (10, 2), 14, 82, 0.94, 29.9),
    JobType("selection (4)", FACEBOOK, (50,), 12, 65, 1.40, 21.7),
    JobType("aggregation (5)", FACEBOOK, (100, 10), 6, 192, 1.26, 31.0),
    JobType("selection (6)", FACEBOOK, (200,), 6, 136, 1.71, 17.2),
    JobType("text search (7)", FACEBOOK, (400,), 4, 137, 2.14, 9.54),
    JobType("join (8)", FACEBOOK, (400, 30), 2, 662, 1.35, 52.3),
    JobType("text search", LARGE, (2400,), 10, 314, 2.21, 12.0),
    JobType("ALS", SPARK, (ALS_TASKS,) * ALS_ITERATIONS, 5, 337, 1.36, 10.7),
    JobType("small tachyon", TORQUE, (24,), 6, 261, 0.91, 261.0),
    JobType("large tachyon", TORQUE, (24,), 2, 822, 0.88, 822.0),
)


@dataclass
class JobSeries:
    """Jobs of which each is submitted `pause_s` after the one before it ended."""

    jobs: list[Job]
    pause_s: float


@dataclass
class Workload:
    """What is submitted: jobs at fixed times, and series. `kinds` names the type of each job."""

    fixed: list[tuple[float, Submit]] = field(default_factory=list)
    series: dict[str, JobSeries] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)


def make_workload(rng: np.random.Generator, part: float = 1.0) -> Workload:
    """One draw of the workload, or of the first part of it: the order and gaps of Facebook jobs,
    all task durations."""
    work = Workload()
    _add_facebook(work, rng, part)
    for kind in TYPES:
        if kind.framework in (LARGE, SPARK):
            request = HADOOP_TASK if kind.framework == LARGE else SPARK_TASK
            jobs = [_job(work, kind, i, request, rng) for i in range(math.ceil(part * kind.jobs))]
            work.series[kind.framework] = JobSeries(
                jobs, ALS_PAUSE_S if kind.framework == SPARK else 0.0
            )
    _add_torque(work, part)
    return work


def _add_facebook(work: Workload, rng: np.random.Generator, part: float) -> None:
    types = [kind for kind in TYPES if kind.framework == FACEBOOK]
    order = rng.permutation([i for i, kind in enumerate(types) for _ in range(kind.jobs)])
    order = order[: math.ceil(part * len(order))]
    times = np.cumsum(rng.exponential(GAP_S, len(order)))
    for serial, (which, at) in enumerate(zip(order, times, strict=True)):
        job = _job(work, types[which], serial, HADOOP_TASK, rng)
        work.fixed.append((float(at), Submit(FACEBOOK, job)))


def _add_torque(work: Workload, part: float) -> None:
    """Every third tachyon job is a large one."""
    small, large = (kind for kind in TYPES if kind.framework == TORQUE)
    for serial in range(math.ceil(part * (small.jobs + large.jobs))):
        kind = large if serial % 3 == 2 else small
        job = GangJob(f"{kind.name} {serial}", kind.stages[0], MPI_TASK, kind.task_s)
        work.kinds[job.name] = kind.name
        work.fixed.append((serial * TACHYON_EVERY_S, Submit(TORQUE, job)))


def _job(
    work: Workload, kind: JobType, serial: int, request: Vector, rng: np.random.Generator
) -> Job:
    spread = math.sqrt(math.log(1.0 + VARIATION**2))
    stages = tuple(
        tuple(
            TaskSpec(request, float(s))
            for s in kind.task_s * rng.lognormal(-(spread**2) / 2, spread, tasks)
        )
        for tasks in kind.stages
    )
    job = Job(f"{kind.name} {serial}", stages)
    work.kinds[job.name] = kind.name
    return job


@dataclass
class SharingOutcome:
    """What one run showed: when jobs were submitted and ended, and every change of the CPUs a
    framework holds."""

    submitted: dict[str, float] = field(default_factory=dict)
    took_s: dict[str, float] = field(default_factory=dict)
    changes: dict[str, list[tuple[float, int]]] = field(
        default_factory=lambda: {name: [] for name in FRAMEWORKS}
    )

    def share(self, framework: str, times: Floats) -> Floats:
        """The framework's mean share of all CPUs between each two of the given times."""
        when, change = np.array(self.changes[framework]).T
        held = np.concatenate([[0.0], np.cumsum(change)])
        # The integral of a step function is linear between its steps.
        work = np.concatenate([[0.0], np.cumsum(held[:-1] * np.diff(when, prepend=0.0))])
        held_time: Floats = np.diff(np.interp(times, np.insert(when, 0, 0.0), work))
        return held_time / (np.diff(times) * NODES * CPUS)


class _Executors:
    """Where a Hadoop framework has an executor, and what its tasks wait for one."""

    def __init__(self, start_s: float) -> None:
        self.loop: OffersCluster | None = None
        self._start_s = start_s
        self._tasks: Counter[tuple[str, str]] = Counter()
        self._ready: dict[tuple[str, str], float] = {}
        self._node: dict[tuple[str, str], str] = {}

    def lasts(self, launch: LaunchTask) -> float:
        """How long a task takes, with what is left of the start of its executor."""
        alone = lasts_payload(launch)
        if self.loop is None or launch.framework not in HADOOP:
            return alone
        key, now = (launch.framework, launch.task.node), self.loop.now
        if self._tasks[key] == 0:
            self._ready[key] = now + self._start_s
        self._tasks[key] += 1
        self._node[launch.framework, launch.task.task] = launch.task.node
        return alone + max(self._ready[key] - now, 0.0)

    def task_ends(self, report: TaskReport) -> None:
        """An executor without tasks ends."""
        node = self._node.pop((report.framework, report.task), None)
        if node is not None:
            self._tasks[report.framework, node] -= 1


class _Recorder:
    """Keeps the outcome of a run, and submits the next job of a series when one has ended."""

    def __init__(self, work: Workload) -> None:
        self.outcome, self.executors = SharingOutcome(), _Executors(0.0)
        self.loop: OffersCluster | None = None
        self._waiting = {name: list(series.jobs) for name, series in work.series.items()}
        self._pause_s = {name: series.pause_s for name, series in work.series.items()}

    def begin(self, loop: OffersCluster, work: Workload) -> None:
        self.loop = self.executors.loop = loop
        for at, submit in work.fixed:
            loop.post(submit, at)
        for framework in self._waiting:
            self._next(framework, 0.0)

    def _next(self, framework: str, at: float) -> None:
        if self.loop is not None and self._waiting.get(framework):
            self.loop.post(Submit(framework, self._waiting[framework].pop(0)), at)

    def on_submit(self, submit: Submit, now: float) -> None:
        assert isinstance(submit.job, Job | GangJob)
        self.outcome.submitted[submit.job.name] = now

    def on_finished(self, finished: JobFinished, now: float) -> None:
        self.outcome.took_s[finished.job] = now - self.outcome.submitted[finished.job]
        self._next(finished.framework, now + self._pause_s.get(finished.framework, 0.0))

    def on_launch(self, launch: LaunchTask, now: float) -> None:
        self.outcome.changes[launch.framework].append((now, 1))

    def on_report(self, report: TaskReport, now: float) -> None:
        if report.status is not Status.RUNNING:
            self.outcome.changes[report.framework].append((now, -1))
            self.executors.task_ends(report)


def run_once(
    work: Workload, seed: int, shared: bool, executor_s: float = EXECUTOR_S
) -> SharingOutcome:
    """The workload under DRF on a cluster that is shared, or divided so that each framework sees
    only its own nodes."""
    recorder = _Recorder(work)
    recorder.executors = _Executors(executor_s if shared else 0.0)
    names = [f"node-{i}" for i in range(NODES)]
    frameworks: list[Framework] = [ElasticFramework(name) for name in (FACEBOOK, LARGE, SPARK)]
    loop = assemble(
        dict.fromkeys(names, NODE),
        [Register(name, guaranteed=PARTITION / NODES) for name in FRAMEWORKS],
        [*frameworks, GangFramework(TORQUE)],
        Rules(),
        generator(seed, "master"),
        recorder.executors.lasts,
        watch={
            Submit: recorder.on_submit,
            JobFinished: recorder.on_finished,
            LaunchTask: recorder.on_launch,
            TaskReport: recorder.on_report,
        },
    )
    if not shared:
        for i, name in enumerate(FRAMEWORKS):
            loop.post(
                SetFilters(name, Filters(frozenset(names[i * PARTITION : (i + 1) * PARTITION]))),
                0.0,
            )
    recorder.begin(loop, work)
    loop.run()
    return recorder.outcome
