"""A plan: where a cluster stands, a front of better placements, the one chosen, and the moves to
get there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from murmuration.assignment import objectives as of
from murmuration.assignment.moves import Order, order
from murmuration.assignment.objectives import Objective
from murmuration.assignment.packed import Work, pack
from murmuration.assignment.problem import Floats, Integers, Problem, describe, new_violations
from murmuration.assignment.reasons import why_unplaced
from murmuration.assignment.search.construct import BASELINES, construct
from murmuration.assignment.search.ejection import make_room
from murmuration.assignment.search.fewest import Fewest, fewest_moves
from murmuration.assignment.search.search import Search, Settings
from murmuration.assignment.search.selection import best_of
from murmuration.planning import pymoo_peer
from murmuration.planning.rehearsal import RATE, Rehearsal, rehearse

#: What a plan weighs unless it is told otherwise.
USUAL = ("crowding", "replicas", "power", "imbalance", "moves")
LABEL = "feasible now, not reserved"


@dataclass(frozen=True)
class Options:
    """What a plan is asked for. `only_place` keeps everything where it is but what has no node."""

    objectives: tuple[Objective, ...] = ()
    limits: tuple[tuple[int, float], ...] = ()
    power_off: bool = False
    only_place: bool = False
    population: int = 92
    evaluations: int | None = None
    seconds: float = np.inf
    seed: int = 1
    #: Megabytes per second at which each move is made.
    rate: float = RATE
    #: Tasks without a node that were on one which is gone, and its name.
    displaced: dict[int, str] = field(default_factory=dict)
    #: What the exact solver may spend on proving the fewest moves, about seconds; 0 leaves it out.
    exact_effort: float = 10.0
    #: Whether pymoo's search is asked too, for comparison.
    pymoo: bool = False


@dataclass
class Plan:
    """The answer. Values are those of the built-in objectives and then of the user's own, in the
    order of `names`."""

    problem: Problem
    objectives: tuple[Objective, ...]
    before: Floats
    baselines: dict[str, Floats]
    front: Floats
    placements: Integers
    values: Floats
    order: Order
    rehearsal: Rehearsal
    unplaced: dict[str, str]
    evaluations: int = 0
    history: list[dict[str, list[float]]] = field(default_factory=list)
    fewest: Fewest | None = None
    notes: list[str] = field(default_factory=list)
    displaced: dict[int, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return (
            *of.NAMES,
            *(objective.name for objective in self.objectives if objective.function is not None),
        )

    @property
    def running(self) -> bool:
        """Whether anything had a node before."""
        return bool((self.problem.node_of >= 0).any())


def make_plan(
    problem: Problem, options: Options, progress: Callable[[float], Any] = lambda share: None
) -> Plan:
    """Search, choose and order."""
    work = pack(problem, options.power_off)
    wanted = options.objectives or usual(problem)
    baselines = {name: work.restored(construct(work, name)) for name in BASELINES}
    if options.pymoo and len(work.packed.movable):
        fresh = Search(
            work, wanted, Settings(options.population, options.evaluations, options.seed)
        )
        baselines[pymoo_peer.NAME] = pymoo_peer.pymoo_placement(fresh, options.population)
    measured = {name: values_of(work, node_of, wanted) for name, node_of in baselines.items()}
    fewest = _fewest(work, options)
    if options.only_place and fewest is not None:
        front, placements, history, spent = np.zeros((0, len(wanted))), fewest.node_of[None], [], 0
        chosen = fewest.node_of
    else:
        search = _searched(work, wanted, options, fewest, progress)
        front = search.archive.front.copy()
        placements = np.array(
            [work.restored(x) for x in search.archive.placements[: search.archive.count]]
        )
        chosen = placements[choose(search, work, baselines["kubernetes"])]
        chosen = chosen if options.limits else _filled(problem, chosen)
        history, spent = search.history, search.evaluations
    steps, rehearsal, notes = _ordered(work, chosen, options)
    return Plan(
        problem,
        wanted,
        values_of(work, problem.node_of, wanted),
        measured,
        front,
        placements,
        values_of(work, steps.node_of, wanted),
        steps,
        rehearsal,
        _unplaced(problem, steps.node_of),
        spent,
        history,
        fewest,
        notes,
        options.displaced,
    )


def _ordered(work: Work, node_of: Integers, options: Options) -> tuple[Order, Rehearsal, list[str]]:
    """The steps to a placement, rehearsed; if anything is wrong with them, nothing is moved and a
    note says why."""
    problem = work.problem
    steps = order(work, node_of)
    rehearsal = rehearse(problem, steps.steps, options.rate, options.displaced)
    dropped = new_violations(problem, steps.node_of)
    wrong = describe(problem, dropped) if dropped else "; ".join(rehearsal.wrong[:1])
    if not wrong:
        return steps, rehearsal, []
    still = order(work, problem.node_of)
    return (
        still,
        rehearse(problem, (), options.rate),
        [f"nothing is moved: the plan would break something ({wrong})"],
    )


def usual(problem: Problem) -> tuple[Objective, ...]:
    """Moves matter where something runs already."""
    names = USUAL if (problem.node_of >= 0).any() else USUAL[:-1]
    return tuple(Objective(name) for name in names)


def values_of(work: Work, node_of: Integers, wanted: Sequence[Objective]) -> Floats:
    own = [o.function(work.problem, node_of) for o in wanted if o.function is not None]
    return np.append(of.values(work.problem, node_of, work.packed.power_off), own)


def _fewest(work: Work, options: Options) -> Fewest | None:
    """Where something has no node and something else has: place it with the fewest moves."""
    waiting = (work.problem.node_of < 0).any()
    if not waiting or not (options.only_place or (work.problem.node_of >= 0).any()):
        return None
    return fewest_moves(work, options.seed, options.exact_effort)


def _searched(
    work: Work,
    wanted: Sequence[Objective],
    options: Options,
    fewest: Fewest | None,
    progress: Callable[[float], Any],
) -> Search:
    end = time.perf_counter() + options.seconds
    settings = Settings(
        options.population,
        options.evaluations,
        options.seed,
        lambda: time.perf_counter() > end,
        limits=options.limits,
    )
    search = Search(work, wanted, settings)
    search.seed([work.placement(fewest.node_of)] if fewest is not None else [])
    if len(work.packed.movable):
        begin = search.start_of(work.placement(reference_placement(work)))
        search.toward(search.measure(begin[None])[0][0], begin)
        search.refined(begin)
    search.run(progress)
    return search


def _filled(problem: Problem, node_of: Integers) -> Integers:
    """With room made for tasks the search left without a node, by chains of moves, where that can
    be."""
    if (node_of >= 0).all():
        return node_of
    found = make_room(pack(replace(problem, node_of=node_of))).node_of
    fewer = (found < 0).sum() < (node_of < 0).sum()
    return found if fewer and not new_violations(problem, found) else node_of


def reference_placement(work: Work) -> Integers:
    """What a plan should not be worse than: what is there, or where nothing is, what Kubernetes
    would do."""
    if (work.problem.node_of >= 0).any():
        return work.problem.node_of
    return work.restored(construct(work, "kubernetes"))


def choose(search: Search, work: Work, kubernetes: Integers) -> int:
    """The best mean normalised objective among those no worse than the reference in anything,
    better in something.

    Moves do not count as worse: nothing has moved in what is there. If there is none, all of the
    front is open where something runs; where nothing does, the reference itself is there to be
    chosen.
    """
    weights = np.array([objective.weight for objective in search.objectives])
    reference, _ = search.measure(work.placement(reference_placement(work))[None])
    counted = np.array(
        [objective.name not in ("moves", "megabytes") for objective in search.objectives]
    )
    running = bool((work.problem.node_of >= 0).any())
    return best_of(search.archive.front, weights, reference[0], counted, or_equal=not running)


def _unplaced(problem: Problem, node_of: Integers, most: int = 50) -> dict[str, str]:
    """Tasks left without a node, and why; of many only the first are explained."""
    left = np.flatnonzero(node_of < 0).tolist()
    return {
        problem.tasks[task]: why_unplaced(problem, node_of, task) if k < most else "as others"
        for k, task in enumerate(left)
    }
