"""The values of a scenario: each out of range gets one sentence that names its key and what was
expected."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from murmuration.assignment.objectives import parse_objective
from murmuration.base.errors import InputError, did_you_mean
from murmuration.base.resources import parse_quantity
from murmuration.base.settings import NODES_MAX
from murmuration.base.settings import check_number as _number
from murmuration.base.settings import check_word as _word
from murmuration.cluster.constraints import parse_constraint
from murmuration.schedulers.negotiation.settings import find_problems as negotiation_problems
from murmuration.schedulers.swarm.pheromone import PHEROMONES, STRATEGIES
from murmuration.schedulers.swarm.search import SEARCHES
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
    yield from _number("days", scenario.days, above=0.0, most=DAYS_MAX)
    yield from _number("seed", scenario.seed, least=0.0, most=2.0**63)
    yield from _cluster(scenario.cluster)
    names: list[str] | None = None
    if sc.is_replay(scenario.workload):
        sc.replay(scenario)
    else:
        names = list(sc.generators(scenario))
        for name, generator in sc.generators(scenario).items():
            yield from _generator(f"workload.{name}", generator)
    yield from _number("workload.multiply", sc.multiplied(scenario), above=0.0, most=1000.0)
    yield from _scheduler(scenario.scheduler, names)


#: The same check for the scenarios of other commands.
number = _number


def _cluster(cluster: sc.Cluster) -> Iterator[str]:
    given = [cluster.nodes is not None, bool(cluster.group), cluster.trace is not None]
    if sum(given) != 1:
        yield "cluster: expected one of nodes, [[cluster.group]] and trace"
    if cluster.nodes is not None:
        yield from _number("cluster.nodes", cluster.nodes, least=1, most=NODES_MAX)
    for index, group in enumerate(cluster.group):
        yield from _number(f"cluster.group[{index}].count", group.count, least=1, most=NODES_MAX)
        yield from _number(f"cluster.group[{index}].join_s", group.join_s, least=0.0)
        if group.leave_s is not None:
            yield from _number(f"cluster.group[{index}].leave_s", group.leave_s, above=group.join_s)
    yield from _number("cluster.prefill", cluster.prefill, least=0.0, most=0.99)
    yield from _number("cluster.keep", cluster.keep, above=0.0, most=1.0)


def _generator(key: str, generator: sc.Generator) -> Iterator[str]:
    if generator.empirical is None or generator.arrivals_per_s != 0.0:
        yield from _number(f"{key}.arrivals_per_s", generator.arrivals_per_s, above=0.0, most=1e5)
    yield from _number(f"{key}.tasks_per_job", generator.tasks_per_job, above=0.0, most=1e6)
    yield from _number(f"{key}.task_duration_s", generator.task_duration_s, above=0.0)
    yield from _number(f"{key}.picky", generator.picky, least=0.0, most=1.0)
    yield from _number(f"{key}.priority", generator.priority, least=-WHOLE_MAX, most=WHOLE_MAX)
    yield from _number(f"{key}.initial", generator.initial, least=0, most=1e9)
    yield from _number(f"{key}.spread", generator.spread, least=0.0, most=SPREAD_MAX)
    if generator.usage is not None:
        yield from _usage(f"{key}.usage", generator.usage)
    for text in generator.constraints:
        parse_constraint(text, f"{key}.constraints")


def _usage(key: str, usage: sc.Usage) -> Iterator[str]:
    most = {
        "cpu": 100.0,
        "memory": 100.0,
        "spread": SPREAD_MAX,
        "noise": SPREAD_MAX,
        "spikes_per_hour": 3600.0,
        "spike": 1000.0,
        "daily": 1.0,
    }
    for name, limit in most.items():
        yield from _number(f"{key}.{name}", getattr(usage, name), least=0.0, most=limit)
    yield from _number(f"{key}.step_s", usage.step_s, least=1.0)


def _scheduler(scheduler: sc.Scheduler, workloads: list[str] | None) -> Iterator[str]:
    yield from _number("scheduler.retry_s", scheduler.retry_s, least=0.0)
    yield from _number("scheduler.usage_s", scheduler.usage_s, least=1.0)
    yield from _number("scheduler.attempts_max", scheduler.attempts_max, least=0, most=WHOLE_MAX)
    yield from _number(
        "scheduler.empty_attempts_max", scheduler.empty_attempts_max, least=0, most=WHOLE_MAX
    )
    for name, decision in scheduler.decision.items():
        yield from _number(f"scheduler.decision.{name}.job_time_s", decision.job_time_s, least=0.0)
        yield from _number(
            f"scheduler.decision.{name}.task_time_s", decision.task_time_s, least=0.0
        )
    for name, count in scheduler.agents.items():
        yield from _number(f"scheduler.agents.{name}", count, least=1, most=AGENTS_MAX)
    for name, share in scheduler.partition.items():
        yield from _number(f"scheduler.partition.{name}", share, above=0.0, most=1.0)
    if sum(scheduler.partition.values()) > 1.0 + 1e-9:
        yield (
            "scheduler.partition: expected shares of at most 1 in all, got "
            f"{sum(scheduler.partition.values()):g}"
        )
    for name, policy in scheduler.policy.items():
        yield from _number(f"scheduler.policy.{name}.quota", policy.quota, above=0.0, most=1.0)
        yield from _number(
            f"scheduler.policy.{name}.headroom", policy.headroom, least=0.0, most=1.0
        )
    yield from _offers(scheduler.offers)
    yield from _swarm(scheduler.swarm)
    yield from negotiation_problems(scheduler.negotiation, "scheduler.negotiation")
    yield from _genetic(scheduler)
    yield from unknown_workloads(scheduler, workloads) if workloads is not None else ()


def _offers(offers: sc.OfferRules) -> Iterator[str]:
    for name in ("offer_time_s", "period_s", "timeout_s", "short_max_s"):
        yield from _number(f"scheduler.offers.{name}", getattr(offers, name), least=0.0)
    yield from _number("scheduler.offers.short_share", offers.short_share, least=0.0, most=0.99)
    parse_quantity(offers.min_cpu, "scheduler.offers.min_cpu")
    if offers.optimistic and offers.short_share > 0.0:
        yield (
            "scheduler.offers.short_share: expected 0 with optimistic offers, which reserve nothing"
        )
    for name, framework in offers.framework.items():
        key = f"scheduler.offers.framework.{name}"
        yield from _number(f"{key}.weight", framework.weight, above=0.0)
        yield from _number(f"{key}.guaranteed", framework.guaranteed, least=0.0, most=1.0)
        parse_quantity(framework.filter_cpu, f"{key}.filter_cpu")
        for text in framework.filter:
            parse_constraint(text, f"{key}.filter")
    if sum(f.guaranteed for f in offers.framework.values()) > 1.0 + 1e-9:
        yield "scheduler.offers.framework: expected guaranteed shares of at most 1 in all"


def _swarm(swarm: sc.SwarmRules) -> Iterator[str]:
    known = {
        "strategy": STRATEGIES,
        "switch_to": STRATEGIES,
        "pheromone": PHEROMONES,
        "search": SEARCHES,
    }
    for name, words in known.items():
        yield from _word(f"scheduler.swarm.{name}", getattr(swarm, name), words)
    yield from _number("scheduler.swarm.overload", swarm.overload, above=0.0, most=1.0)
    yield from _number("scheduler.swarm.underload", swarm.underload, above=0.0, most=1.0)
    if swarm.underload > swarm.overload:
        yield (
            f"scheduler.swarm.underload: expected at most overload ({swarm.overload:g}), got "
            f"{swarm.underload:g}"
        )
    yield from _number("scheduler.swarm.step_s", swarm.step_s, above=0.0)
    for name in ("migration_s", "switch_s", "candidates"):
        yield from _number(f"scheduler.swarm.{name}", getattr(swarm, name), least=0.0)


def _genetic(scheduler: sc.Scheduler) -> Iterator[str]:
    rules, key = scheduler.genetic, "scheduler.genetic"
    yield from _number(f"{key}.batch_s", rules.batch_s, least=0.001)
    yield from _number(f"{key}.mb_per_s", rules.mb_per_s, above=0.0)
    yield from _number(f"{key}.population", rules.population, least=4, most=10_000)
    yield from _number(f"{key}.evaluations", rules.evaluations, least=0, most=1e9)
    yield from _number(f"{key}.nodes_max", rules.nodes_max, least=2, most=NODES_MAX)
    yield from _number(f"{key}.tasks_max", rules.tasks_max, least=0, most=1e6)
    if not rules.objectives:
        yield f"{key}.objectives: expected at least one, such as imbalance"
    for text in rules.objectives:
        parse_objective(text, f"{key}.objectives")
    if scheduler.kind == "genetic" and scheduler.reclaim:
        yield "scheduler.reclaim: expected false with genetic, which places by what tasks request"


def unknown_workloads(scheduler: sc.Scheduler, workloads: Collection[str]) -> Iterator[str]:
    """Tables per workload must name one that exists: known up front, or once the jobs are read from
    their file."""
    tables: dict[str, Collection[str]] = {
        "agents": scheduler.agents,
        "partition": scheduler.partition,
        "policy": scheduler.policy,
        "offers.framework": scheduler.offers.framework,
        "swarm.affinity": scheduler.swarm.affinity,
        "decision": [name for name in scheduler.decision if name != "default"],
    }
    for table, entries in tables.items():
        for name in entries:
            if name not in workloads:
                hint = did_you_mean(name, workloads)
                yield f"scheduler.{table}.{name}: there is no workload {name!r}; {hint}"
