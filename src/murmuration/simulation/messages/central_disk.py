"""What is on a simulated master's disk: the facts of its log, folded into what a master starts
from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from murmuration.schedulers.central.messages import (
    Fact,
    JobForgotten,
    JobKilled,
    JobSubmitted,
    NodeDraining,
    Recover,
    StoredJob,
    StoredRun,
    TaskEnded,
    TaskPlaced,
    TaskStarted,
)


@dataclass
class Disk:
    """The same tables as `runtime/store/sqlite.py` keeps, without a database."""

    jobs: dict[str, StoredJob] = field(default_factory=dict)
    runs: dict[str, dict[int, StoredRun]] = field(default_factory=dict)
    draining: set[str] = field(default_factory=set)
    epoch: int = -1

    def write(self, fact: Fact, at_s: float) -> None:
        match fact:
            case JobSubmitted(job, serial, first_run, spec, duration_s):
                self.jobs[job] = StoredJob(spec, serial, at_s, first_run, False, duration_s)
                self.runs[job] = {}
            case JobForgotten(job):
                del self.jobs[job], self.runs[job]
            case JobKilled(job):
                self.jobs[job] = replace(self.jobs[job], killed=True)
            case TaskPlaced(job, index, run, node):
                before = self.runs[job].get(index)
                failures = before.failures if before else 0
                self.runs[job][index] = StoredRun(
                    index, run, node, "starting", failures, placed_s=at_s
                )
            case TaskStarted(job, index):
                self.runs[job][index] = replace(
                    self.runs[job][index], status="running", started_s=at_s
                )
            case TaskEnded(job, index, code=code, reason=reason, failures=failures, state=state):
                self.runs[job][index] = replace(
                    self.runs[job][index],
                    status=str(state),
                    code=code,
                    reason=reason,
                    failures=failures,
                    ended_s=at_s,
                )
            case NodeDraining(node, on):
                (self.draining.add if on else self.draining.discard)(node)
            case _:
                pass

    def recover(self, seed: int) -> Recover:
        """What a master that starts is told."""
        self.epoch += 1
        jobs = [
            replace(job, runs=tuple(run for _, run in sorted(self.runs[name].items())))
            for name, job in self.jobs.items()
        ]
        ordered = tuple(sorted(jobs, key=lambda job: job.serial))
        return Recover(self.epoch, seed, ordered, tuple(sorted(self.draining)))
