"""The settings of a swarm: the table `scheduler.swarm` of a scenario."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from murmuration.base.settings import check_number, check_word
from murmuration.schedulers.swarm.pheromone import PHEROMONES, STRATEGIES
from murmuration.schedulers.swarm.search import SEARCHES
from murmuration.simulation.architectures.architecture import SettingsTable
from murmuration.simulation.scenarios import scenario as sc


class SwarmRules(sc.ScenarioTable, frozen=True):
    """How tasks move as agents. `overload` and `underload` are shares of a node; `switch_s` (0:
    never) is when the strategy becomes `switch_to`; `candidates` limits the nodes a Chord-like
    search asks (0: all that could do); the tasks of each job of a workload in `affinity` must share
    a node."""

    strategy: str = "bin-pack"
    pheromone: str = "quadratic"
    search: str = "ring"
    overload: float = 1.0
    underload: float = 1.0
    step_s: float = 5.0
    migration_s: float = 5.0
    size_weighted: bool = False
    candidates: int = 16
    affinity: tuple[str, ...] = ()
    switch_s: float = 0.0
    switch_to: str = "spread"


def find_problems(swarm: SwarmRules, scheduler: sc.SchedulerSettings) -> Iterator[str]:
    """What makes no sense, each as a sentence that names the key."""
    known = {
        "strategy": STRATEGIES,
        "switch_to": STRATEGIES,
        "pheromone": PHEROMONES,
        "search": SEARCHES,
    }
    for name, words in known.items():
        yield from check_word(f"scheduler.swarm.{name}", getattr(swarm, name), words)
    yield from check_number("scheduler.swarm.overload", swarm.overload, above=0.0, high=1.0)
    yield from check_number("scheduler.swarm.underload", swarm.underload, above=0.0, high=1.0)
    if swarm.underload > swarm.overload:
        yield (
            f"scheduler.swarm.underload: expected at most overload ({swarm.overload:g}), got "
            f"{swarm.underload:g}"
        )
    yield from check_number("scheduler.swarm.step_s", swarm.step_s, above=0.0)
    for name in ("migration_s", "switch_s", "candidates"):
        yield from check_number(f"scheduler.swarm.{name}", getattr(swarm, name), low=0.0)


def name_workloads(swarm: SwarmRules) -> Mapping[str, Collection[str]]:
    return {"swarm.affinity": swarm.affinity}


SETTINGS = SettingsTable("swarm", SwarmRules, find_problems, name_workloads)
