"""The values of a scenario: each out of range gets one sentence that names its key and what was
expected."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from murmuration.base.errors import InputError, did_you_mean, unknown
from murmuration.base.settings import NODES_MAX, check_number
from murmuration.cluster.constraints import parse_constraint
from murmuration.schedulers.queues.checking import find_queue_problems
from murmuration.schedulers.queues.discipline import disciplines
from murmuration.simulation.architectures.table import settings_tables
from murmuration.simulation.scenarios import scenario as sc

DAYS_MAX = 3650.0
AGENTS_MAX = 256
#: Of a lognormal.
SPREAD_MAX = 10.0
#: Of whole numbers without a limit of their own: what a float holds to the last digit.
WHOLE_MAX = 2**53


def check_values(scenario: sc.Scenario, source: str) -> None:
    """Raise for the first value that makes no sense."""
    if not scenario.workload:
        raise InputError(f"{source}: workload: expected at least one, such as [workload.batch]")
    try:
        problem = next(_problems(scenario), None)
    except InputError as error:
        problem = str(error)
    if problem is not None:
        raise InputError(f"{source}: {problem}")


def _problems(scenario: sc.Scenario) -> Iterator[str]:
    yield from check_number("days", scenario.days, above=0.0, high=DAYS_MAX)
    yield from check_number("seed", scenario.seed, low=0.0, high=2.0**63)
    yield from _cluster(scenario.cluster)
    names: list[str] | None = None
    if sc.is_replay(scenario.workload):
        yield from _replay(sc.replay(scenario))
    else:
        names = list(sc.generators(scenario))
        for name, generator in sc.generators(scenario).items():
            yield from _generator(f"workload.{name}", generator)
    yield from check_number("workload.multiply", sc.find_multiple(scenario), above=0.0, high=1000.0)
    yield from _scheduler(scenario.scheduler, names)


def _cluster(cluster: sc.ClusterSettings) -> Iterator[str]:
    given = [cluster.nodes is not None, bool(cluster.group), cluster.trace is not None]
    if sum(given) != 1:
        yield "cluster: expected one of nodes, [[cluster.group]] and trace"
    if cluster.nodes is not None:
        yield from check_number("cluster.nodes", cluster.nodes, low=1, high=NODES_MAX)
    for index, group in enumerate(cluster.group):
        yield from check_number(f"cluster.group[{index}].count", group.count, low=1, high=NODES_MAX)
        yield from check_number(f"cluster.group[{index}].join_s", group.join_s, low=0.0)
        if group.leave_s is not None:
            yield from check_number(
                f"cluster.group[{index}].leave_s", group.leave_s, above=group.join_s
            )
    yield from check_number("cluster.prefill", cluster.prefill, low=0.0, high=0.99)
    if cluster.failures is not None:
        for name in ("mtbf_h", "repair_h"):
            value = getattr(cluster.failures, name)
            yield from check_number(f"cluster.failures.{name}", value, above=0.0)
        for name in ("shape", "repair_shape"):
            value = getattr(cluster.failures, name)
            yield from check_number(f"cluster.failures.{name}", value, low=0.1, high=100.0)
    if cluster.costs is not None:
        for name in ("price_per_h", "idle_watts", "peak_watts", "price_per_kwh"):
            value = getattr(cluster.costs, name)
            if value is not None:
                yield from check_number(f"cluster.costs.{name}", value, low=0.0)
    yield from check_number("cluster.keep", cluster.keep, above=0.0, high=1.0)


def _generator(key: str, generator: sc.Generator) -> Iterator[str]:
    if generator.empirical is None or generator.arrivals_per_s != 0.0:
        yield from check_number(
            f"{key}.arrivals_per_s", generator.arrivals_per_s, above=0.0, high=1e5
        )
    yield from check_number(f"{key}.tasks_per_job", generator.tasks_per_job, above=0.0, high=1e6)
    yield from check_number(f"{key}.task_duration_s", generator.task_duration_s, above=0.0)
    yield from check_number(f"{key}.picky", generator.picky, low=0.0, high=1.0)
    yield from check_number(f"{key}.priority", generator.priority, low=-WHOLE_MAX, high=WHOLE_MAX)
    yield from check_number(f"{key}.initial", generator.initial, low=0, high=1e9)
    yield from check_number(f"{key}.spread", generator.spread, low=0.0, high=SPREAD_MAX)
    if generator.usage is not None:
        yield from _usage(f"{key}.usage", generator.usage)
    for text in generator.constraints:
        parse_constraint(text, f"{key}.constraints")


def _usage(key: str, usage: sc.UsageSettings) -> Iterator[str]:
    high = {
        "cpu": 100.0,
        "memory": 100.0,
        "spread": SPREAD_MAX,
        "noise": SPREAD_MAX,
        "spikes_per_hour": 3600.0,
        "spike": 1000.0,
        "daily": 1.0,
    }
    for name, limit in high.items():
        yield from check_number(f"{key}.{name}", getattr(usage, name), low=0.0, high=limit)
    yield from check_number(f"{key}.step_s", usage.step_s, low=1.0)


def _replay(replay: sc.ReplaySettings) -> Iterator[str]:
    for name in ("start_s", "arrivals_from_s"):
        yield from check_number(f"workload.{name}", getattr(replay, name), low=0.0)
    yield from check_number("workload.runs", replay.runs, low=1.0, high=100.0)
    yield from check_number("workload.full_cpu", replay.full_cpu, above=0.0)
    for name, share in replay.used.items():
        yield from check_number(f"workload.used.{name}", share, above=0.0, high=1.0)
    if replay.start_s > 0.0 and replay.arrivals_from_s > 0.0:
        yield "workload.start_s and workload.arrivals_from_s: expected one of them, got both"


def _scheduler(scheduler: sc.SchedulerSettings, workloads: list[str] | None) -> Iterator[str]:
    yield from check_number("scheduler.retry_s", scheduler.retry_s, low=0.0)
    yield from check_number("scheduler.retry_max_s", scheduler.retry_max_s, above=0.0)
    yield from check_number("scheduler.usage_s", scheduler.usage_s, low=1.0)
    yield from check_number("scheduler.attempts_max", scheduler.attempts_max, low=0, high=WHOLE_MAX)
    yield from check_number(
        "scheduler.empty_attempts_max", scheduler.empty_attempts_max, low=0, high=WHOLE_MAX
    )
    yield from _queue(scheduler)
    for name, decision in scheduler.decision.items():
        yield from check_number(
            f"scheduler.decision.{name}.job_time_s", decision.job_time_s, low=0.0
        )
        yield from check_number(
            f"scheduler.decision.{name}.task_time_s", decision.task_time_s, low=0.0
        )
    for name, count in scheduler.agents.items():
        yield from check_number(f"scheduler.agents.{name}", count, low=1, high=AGENTS_MAX)
    for name, share in scheduler.partition.items():
        yield from check_number(f"scheduler.partition.{name}", share, above=0.0, high=1.0)
    if sum(scheduler.partition.values()) > 1.0 + 1e-9:
        yield (
            "scheduler.partition: expected shares of at most 1 in all, got "
            f"{sum(scheduler.partition.values()):g}"
        )
    for name, policy in scheduler.policy.items():
        yield from _policy(f"scheduler.policy.{name}", policy)
    for table in settings_tables().values():
        yield from table.find_problems(scheduler.settings_of(table.struct), scheduler)
    yield from unknown_workloads(scheduler, workloads) if workloads is not None else ()


def _queue(scheduler: sc.SchedulerSettings) -> Iterator[str]:
    if scheduler.queue and scheduler.queue not in disciplines():
        yield f"scheduler.{unknown('queue', scheduler.queue, tuple(disciplines()))}"
    yield from find_queue_problems(
        scheduler.queue, scheduler.queue_settings, scheduler.reservation, "scheduler."
    )


def _policy(key: str, policy: sc.PolicySettings) -> Iterator[str]:
    if policy.quota is not None:
        yield from check_number(f"{key}.quota", policy.quota, above=0.0, high=1.0)
    if policy.headroom is not None:
        yield from check_number(f"{key}.headroom", policy.headroom, low=0.0, high=1.0)


def unknown_workloads(scheduler: sc.SchedulerSettings, workloads: Collection[str]) -> Iterator[str]:
    """Tables per workload must name one that exists: known up front, or once the jobs are read from
    their file."""
    tables: dict[str, Collection[str]] = {
        "agents": scheduler.agents,
        "partition": scheduler.partition,
        "policy": scheduler.policy,
        "decision": [name for name in scheduler.decision if name != "default"],
    }
    for settings in settings_tables().values():
        tables |= settings.name_workloads(scheduler.settings_of(settings.struct))
    for table, entries in tables.items():
        for name in entries:
            if name not in workloads:
                hint = did_you_mean(name, workloads)
                yield f"scheduler.{table}.{name}: there is no workload {name!r}; {hint}"
