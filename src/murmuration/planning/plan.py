"""A plan: where a cluster stands, a front of better placements, the one chosen, and the moves to
get there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from murmuration.assignment import objectives as of
from murmuration.assignment.moves import MoveOrder, order_moves
from murmuration.assignment.objectives import Objective
from murmuration.assignment.packed import Work, pack
from murmuration.assignment.problem import Problem, describe, new_violations
from murmuration.assignment.reasons import why_unplaced
from murmuration.assignment.search.construct import BASELINES, construct
from murmuration.assignment.search.fewest import Fewest, fewest_moves
from murmuration.assignment.search.search import Search, Settings
from murmuration.assignment.search.seeds import seed_placements
from murmuration.base.arrays import Floats, Indices, Integers
from murmuration.planning import pymoo_peer
from murmuration.planning.choice import (
    add_moves,
    choose,
    reference_placement,
    show_front,
)
from murmuration.planning.nodes import Kept, why_kept
from murmuration.planning.rehearsal import RATE, MoveRehearsal, rehearse

#: The objectives of a plan that names none.
DEFAULT_OBJECTIVES = ("crowding", "replicas", "power", "imbalance", "moves")
LABEL = "feasible now, not reserved"
#: Tasks without a node that are explained one by one.
EXPLAINED_MAX = 50


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
    #: Tasks whose node was removed, and its name.
    displaced: dict[int, str] = field(default_factory=dict)
    #: How much work the exact solver may do to prove the fewest moves, about seconds; 0 for none.
    exact_effort: float = 10.0
    #: Whether pymoo's search is asked too, for comparison.
    pymoo: bool = False


@dataclass
class Plan:
    """The answer. Values are those of the built-in objectives and then of the user's, in the order
    of `names`."""

    problem: Problem
    objectives: tuple[Objective, ...]
    before: Floats
    baselines: dict[str, Floats]
    front: Floats
    placements: Integers
    values: Floats
    order: MoveOrder
    rehearsal: MoveRehearsal
    unplaced: dict[str, str]
    evaluations: int = 0
    history: list[dict[str, list[float]]] = field(default_factory=list)
    fewest: Fewest | None = None
    notes: list[str] = field(default_factory=list)
    displaced: dict[int, str] = field(default_factory=dict)
    #: Nodes that stay in use and why, where fewer nodes were asked for.
    kept_nodes: list[Kept] = field(default_factory=list)

    @property
    def names(self) -> tuple[str, ...]:
        return (*of.NAMES, *(objective.name for objective in user_objectives(self.objectives)))

    @property
    def running(self) -> bool:
        """Whether anything had a node before."""
        return bool((self.problem.node_of >= 0).any())


def make_plan(
    problem: Problem, options: Options, progress: Callable[[float], object] = lambda share: None
) -> Plan:
    """Search, choose and order."""
    work = pack(problem, options.power_off)
    wanted = options.objectives or default_objectives(problem)
    baselines = {name: work.restore(construct(work, name)) for name in BASELINES}
    if options.pymoo and len(work.packed.movable):
        fresh = Search(
            work, wanted, Settings(options.population, options.evaluations, options.seed)
        )
        baselines[pymoo_peer.NAME] = pymoo_peer.pymoo_placement(fresh, options.population)
    fewest = _place_with_fewest_moves(work, options)
    if options.only_place and fewest is not None:
        order, placements = order_moves(work, fewest.node_of), fewest.node_of[None]
        front, history, evaluations = np.zeros((0, len(wanted))), [], 0
    else:
        search = _search(work, wanted, options, fewest, progress)
        front, placements = show_front(search, len(wanted))
        order = choose(search, work, options, fewest)
        history, evaluations = search.history, search.evaluations
    order, rehearsal, notes = _rehearse(work, order, options)
    return Plan(
        problem=problem,
        objectives=wanted,
        before=values_of(work, problem.node_of, wanted),
        baselines={name: values_of(work, node_of, wanted) for name, node_of in baselines.items()},
        front=front,
        placements=placements,
        values=values_of(work, order.node_of, wanted),
        order=order,
        rehearsal=rehearsal,
        unplaced=_explain_unplaced(problem, order.node_of),
        evaluations=evaluations,
        history=history,
        fewest=fewest,
        notes=notes,
        displaced=options.displaced,
        kept_nodes=_explain_kept(problem, order, wanted, options),
    )


def _explain_kept(
    problem: Problem, order: MoveOrder, wanted: Sequence[Objective], options: Options
) -> list[Kept]:
    """Why nodes stay in use, for a plan that is asked for fewer of them."""
    fewer = any(objective.name in ("nodes", "cost") for objective in wanted)
    if options.only_place or not (fewer or options.power_off):
        return []
    return why_kept(problem, order.node_of)


def _rehearse(
    work: Work, order: MoveOrder, options: Options
) -> tuple[MoveOrder, MoveRehearsal, list[str]]:
    """Steps, rehearsed; if anything is wrong with them, nothing is moved and a note says why."""
    problem = work.problem
    rehearsal = rehearse(problem, order.steps, options.rate, options.displaced)
    # Where some moves are impossible the steps end elsewhere than planned, so that is looked at.
    broken = new_violations(problem, problem.with_leaving(order.node_of), problem.present)
    error = describe(problem, broken) if broken else "; ".join(rehearsal.errors[:1])
    if not error:
        return order, rehearsal, []
    unmoved = MoveOrder((), problem.node_of, ())
    note = f"nothing is moved: the plan would break something ({error})"
    return unmoved, rehearse(problem, (), options.rate), [note]


def default_objectives(problem: Problem) -> tuple[Objective, ...]:
    """The objectives of a plan that names none; moves matter where something runs already."""
    names = DEFAULT_OBJECTIVES if (problem.node_of >= 0).any() else DEFAULT_OBJECTIVES[:-1]
    return tuple(of.built_in(name) for name in names)


def user_objectives(objectives: Sequence[Objective]) -> list[Objective]:
    """Those that are not built in."""
    return [objective for objective in objectives if objective.name not in of.NAMES]


def values_of(work: Work, node_of: Indices, wanted: Sequence[Objective]) -> Floats:
    """The built-in objectives of a placement, then the user's."""
    functions = [o.function for o in user_objectives(wanted) if o.function is not None]
    users = [function(work.problem, node_of) for function in functions]
    return np.append(of.values(work.problem, node_of, work.packed.power_off), users)


def _place_with_fewest_moves(work: Work, options: Options) -> Fewest | None:
    """Where something has no node and something else has: place it with the fewest moves."""
    waiting = (work.problem.node_of < 0).any()
    if not waiting or not (options.only_place or (work.problem.node_of >= 0).any()):
        return None
    most = min((limit for k, limit in options.limits if k == of.MOVES), default=np.inf)
    return fewest_moves(work, options.seed, options.exact_effort, most)


def _search(
    work: Work,
    wanted: Sequence[Objective],
    options: Options,
    fewest: Fewest | None,
    progress: Callable[[float], object],
) -> Search:
    end = time.perf_counter() + options.seconds
    settings = Settings(
        options.population,
        options.evaluations,
        options.seed,
        lambda: time.perf_counter() > end,
        limits=options.limits,
    )
    search = Search(work, add_moves(work.problem, wanted), settings)
    search.seed([work.placement(fewest.node_of)] if fewest is not None else [])
    if len(work.packed.movable):
        begin = search.start_from(work.placement(reference_placement(work)))
        reference = search.measure(begin[None])[0][0]
        search.approach(reference, begin)
        search.refine_from(begin)
        search.start_population(seed_placements(search, begin, reference))
    search.run(progress)
    return search


def _explain_unplaced(problem: Problem, node_of: Indices) -> dict[str, str]:
    """Tasks left without a node, and why; of many only the first are explained."""
    unplaced = np.flatnonzero(node_of < 0).tolist()
    return {
        problem.tasks[t]: why_unplaced(problem, node_of, t) if k < EXPLAINED_MAX else "as others"
        for k, t in enumerate(unplaced)
    }
