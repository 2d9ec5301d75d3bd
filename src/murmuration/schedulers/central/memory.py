"""What a master must know again after a crash: a few tables, and what each fact changes in them.

This is the only fold of the master's facts. `changes` says it as changes of rows, so that whoever
keeps tables can carry them out: `MasterMemory` with dictionaries, for the virtual disk and for
etcd, which has no tables; a database with statements, in one transaction (`runtime/store/`).
`recover` makes of the rows the event with which a master starts.

Rows and not the log are what a master starts from, so that a start takes as long as there are jobs
and not as long as the cluster has run. And they are a fold of facts and nothing else, so that the
fault schedules, which crash a master between any two writes, prove the same memory that is shipped.
What nodes run is in no table: node agents tell it when they join, and they are right.

| table | key | row |
|---|---|---|
| jobs | name | when and what was submitted, whether it was killed |
| tasks | job, index | the current or last run of a task that was placed at least once |
| rollouts | job | the version of its specification, and what was before it |
| versions | job, index | the version of a run of a job that was updated |
| pauses | job, index | which run of a task was suspended, whether it still is, how long it ran |
| draining | node | none |
| tokens | name | the digest of a token, whom it lets in as what, and for how long |
| quotas | user, what | how much of it the user may have at once |
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from murmuration.schedulers.central.messages import (
    JobChanged,
    JobForgotten,
    JobKilled,
    JobSubmitted,
    NodeDraining,
    QuotaSet,
    Recover,
    Rollout,
    StoredJob,
    StoredRun,
    StoredToken,
    TaskEnded,
    TaskPlaced,
    TaskStarted,
    TaskStopping,
    TaskSuspended,
    TaskWentOn,
    TokenIssued,
    TokenRevoked,
)

Key = tuple[str | int, ...]
Row = dict[str, Any]


class TableLayout(NamedTuple):
    """The columns of the key, and the others with what a new row has in them."""

    key: tuple[str, ...]
    defaults: Row


TABLES = {
    "jobs": TableLayout(
        ("name",),
        {
            "serial": 0,
            "submit_s": 0.0,
            "first_run": 0,
            "killed": False,
            "duration_s": None,
            "spec": None,
        },
    ),
    "tasks": TableLayout(
        ("job", "idx"),
        {
            "run": 0,
            "node": "",
            "status": "starting",
            "failures": 0,
            "code": None,
            "reason": "",
            "placed_s": 0.0,
            "started_s": 0.0,
            "ended_s": 0.0,
            "stopped_for": "",
            "losses": 0,
        },
    ),
    "rollouts": TableLayout(("job",), {"state": None}),
    "versions": TableLayout(("job", "idx"), {"version": 0}),
    "pauses": TableLayout(
        ("job", "idx"), {"run": 0, "suspended": False, "done_s": 0.0, "resumed_s": 0.0}
    ),
    "draining": TableLayout(("node",), {}),
    "tokens": TableLayout(
        ("name",), {"role": "", "user": "", "digest": "", "issued_s": 0.0, "lasts_s": None}
    ),
    "quotas": TableLayout(("user", "what"), {"amount": 0}),
}
#: What goes with a job.
OF_A_JOB = ("tasks", "versions", "pauses", "rollouts", "jobs")


class Put(NamedTuple):
    """Set these columns of a row, which is made with the defaults if it is not there."""

    table: str
    key: Key
    columns: Row


class Patch(NamedTuple):
    """Set these columns of a row that is there."""

    table: str
    key: Key
    columns: Row


class Drop(NamedTuple):
    """Remove the rows whose key begins with this."""

    table: str
    key: tuple[str | int]


Change = Put | Patch | Drop


def changes(fact: Any, now: float) -> Iterator[Change]:
    """What a fact that was noted at this time changes, in order."""
    match fact:
        case JobSubmitted(job, serial, first_run, spec, duration_s):
            # A new job takes the place of an ended one of its name.
            yield from (Drop(table, (job,)) for table in OF_A_JOB)
            row: Row = {"serial": serial, "submit_s": now, "first_run": first_run}
            yield Put("jobs", (job,), {**row, "duration_s": duration_s, "spec": spec})
        case JobForgotten(job):
            yield from (Drop(table, (job,)) for table in OF_A_JOB)
        case JobKilled(job):
            yield Patch("jobs", (job,), {"killed": True})
        case JobChanged(job, spec, rollout):
            yield Patch("jobs", (job,), {"spec": spec})
            if rollout.version or rollout.previous_version:
                yield Put("rollouts", (job,), {"state": rollout})
        case TaskPlaced(job, index, run, node, version):
            if version is not None:
                yield Put("versions", (job, index), {"version": version})
            row = {"run": run, "node": node, "status": "starting", "code": None, "reason": ""}
            times = {"placed_s": now, "started_s": 0.0, "ended_s": 0.0, "stopped_for": ""}
            yield Put("tasks", (job, index), {**row, **times})
        case TaskStarted(job, index):
            yield Patch("tasks", (job, index), {"status": "running", "started_s": now})
        case TaskStopping(job, index, reason=reason):
            yield Patch("tasks", (job, index), {"stopped_for": reason})
        case TaskSuspended(job, index, run, _, reason, done_s):
            yield Patch("tasks", (job, index), {"reason": reason})
            yield Put("pauses", (job, index), {"run": run, "suspended": True, "done_s": done_s})
        case TaskWentOn(job, index):
            yield Patch("tasks", (job, index), {"reason": ""})
            yield Patch("pauses", (job, index), {"suspended": False, "resumed_s": now})
        case TaskEnded(job, index, code=code, reason=reason, failures=failures, state=state):
            row = {"status": str(state), "code": code, "reason": reason, "failures": failures}
            # A task that is killed before it ever ran has no row yet.
            yield Put("tasks", (job, index), {**row, "ended_s": now, "losses": fact.losses})
        case NodeDraining(node, True):
            yield Put("draining", (node,), {})
        case NodeDraining(node, False):
            yield Drop("draining", (node,))
        case TokenIssued(name, role, user, digest, lasts_s):
            row = {"role": role, "user": user, "digest": digest}
            yield Put("tokens", (name,), {**row, "issued_s": now, "lasts_s": lasts_s})
        case TokenRevoked(name):
            yield Drop("tokens", (name,))
        case QuotaSet(user, limits):
            yield Drop("quotas", (user,))
            for what, amount in sorted(limits.items()):
                yield Put("quotas", (user, what), {"amount": amount})


class MasterMemory:
    """The tables as dictionaries; rows lie under the first part of their key, then under all of
    it."""

    def __init__(self, tables: Mapping[str, Mapping[Key, Row]] | None = None) -> None:
        self._rows: dict[str, dict[str | int, dict[Key, Row]]] = {name: {} for name in TABLES}
        for name, rows in (tables or {}).items():
            for key, row in rows.items():
                self._rows[name].setdefault(key[0], {})[key] = {**TABLES[name].defaults, **row}

    @property
    def tables(self) -> dict[str, dict[Key, Row]]:
        """All rows by their whole key."""
        return {
            name: {key: row for rows in groups.values() for key, row in rows.items()}
            for name, groups in self._rows.items()
        }

    def has_job(self, name: str) -> bool:
        return name in self._rows["jobs"]

    def last_run(self, job: str, index: int) -> int:
        """The number of the last run of a task that was placed; 0 if none was."""
        row = self._rows["tasks"].get(job, {}).get((job, index))
        return 0 if row is None else int(row["run"])

    def recover(self, epoch: int, seed: int) -> Recover:
        """The event with which a master starts."""
        return recover(self.tables, epoch, seed)

    def apply(self, fact: Any, now: float) -> None:
        for change in changes(fact, now):
            groups = self._rows[change.table]
            match change:
                case Put(table, key, columns):
                    rows = groups.setdefault(key[0], {})
                    rows[key] = {**rows.get(key, TABLES[table].defaults), **columns}
                case Patch(table, key, columns):
                    rows = groups.get(key[0], {})
                    assert key in rows, f"{fact} changes {table} {key}, which is not there"
                    rows[key] = {**rows[key], **columns}
                case Drop(_, (first,)):
                    groups.pop(first, None)

    def __deepcopy__(self, memo: Any) -> MasterMemory:
        copied = MasterMemory()
        copied._rows = {
            name: {first: dict(rows) for first, rows in groups.items()}
            for name, groups in self._rows.items()
        }
        return copied


def _pause_of(task: Row, pause: Row | None) -> Row:
    """What its pauses change in the row of a task; those of an earlier run say nothing."""
    if pause is None or pause["run"] != task["run"]:
        return {}
    times = {"done_s": pause["done_s"], "resumed_s": pause["resumed_s"]}
    is_suspended = pause["suspended"] and task["status"] in ("running", "starting")
    return {**times, "status": "suspended"} if is_suspended else times


def recover(tables: Mapping[str, Mapping[Key, Row]], epoch: int, seed: int) -> Recover:
    """The event with which a master starts from these tables."""
    runs: dict[str | int, list[StoredRun]] = {}
    for (job, index), row in sorted(tables["tasks"].items()):
        version = tables["versions"].get((job, index), {"version": 0})
        paused = _pause_of(row, tables["pauses"].get((job, index)))
        runs.setdefault(job, []).append(StoredRun(int(index), **{**row, **version, **paused}))
    rollouts = {name: row["state"] for (name,), row in tables["rollouts"].items()}
    jobs = [
        StoredJob(
            **{**row, "killed": bool(row["killed"])},
            runs=tuple(runs.get(name, ())),
            rollout=rollouts.get(name) or Rollout(),
        )
        for (name,), row in tables["jobs"].items()
    ]
    draining = sorted(str(node) for (node,) in tables["draining"])
    ordered = tuple(sorted(jobs, key=lambda job: job.serial))
    tokens = [StoredToken(str(name), **row) for (name,), row in sorted(tables["tokens"].items())]
    quotas: dict[str, dict[str, int]] = {}
    for (user, what), row in sorted(tables["quotas"].items()):
        quotas.setdefault(str(user), {})[str(what)] = row["amount"]
    return Recover(epoch, seed, ordered, tuple(draining), tuple(tokens), quotas)
