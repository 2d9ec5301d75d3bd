"""A plan: where a cluster stands, a front of better placements, the one chosen, and the moves to
get there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from murmuration.assignment import objectives as of
from murmuration.assignment.moves import MoveOrder, order_moves
from murmuration.assignment.objectives import Objective
from murmuration.assignment.packed import Work, pack
from murmuration.assignment.problem import Problem, describe, new_violations
from murmuration.assignment.reasons import why_unplaced
from murmuration.assignment.search.construct import BASELINES, construct
from murmuration.assignment.search.ejection import make_room
from murmuration.assignment.search.fewest import Fewest, fewest_moves
from murmuration.assignment.search.search import Search, Settings
from murmuration.assignment.search.selection import choose_best
from murmuration.base.arrays import Floats, Indices, Integers
from murmuration.planning import pymoo_peer
from murmuration.planning.rehearsal import RATE, Rehearsal, rehearse

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
    rehearsal: Rehearsal
    unplaced: dict[str, str]
    evaluations: int = 0
    history: list[dict[str, list[float]]] = field(default_factory=list)
    fewest: Fewest | None = None
    notes: list[str] = field(default_factory=list)
    displaced: dict[int, str] = field(default_factory=dict)

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
        chosen, placements = fewest.node_of, fewest.node_of[None]
        front, history, evaluations = np.zeros((0, len(wanted))), [], 0
    else:
        search = _search(work, wanted, options, fewest, progress)
        front = search.archive.front.copy()
        placements = np.array(
            [work.restore(x) for x in search.archive.placements[: search.archive.count]]
        )
        chosen = placements[choose(search, work)]
        chosen = chosen if options.limits else _place_rest(problem, chosen)
        history, evaluations = search.history, search.evaluations
    order, rehearsal, notes = _order_and_rehearse(work, chosen, options)
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
    )


def _order_and_rehearse(
    work: Work, node_of: Indices, options: Options
) -> tuple[MoveOrder, Rehearsal, list[str]]:
    """The steps to a placement, rehearsed; if anything is wrong with them, nothing is moved and a
    note says why."""
    problem = work.problem
    order = order_moves(work, node_of)
    rehearsal = rehearse(problem, order.steps, options.rate, options.displaced)
    # Where some moves are impossible the steps end elsewhere than planned, so that is looked at.
    broken = new_violations(problem, order.node_of)
    error = describe(problem, broken) if broken else "; ".join(rehearsal.errors[:1])
    if not error:
        return order, rehearsal, []
    unmoved = order_moves(work, problem.node_of)
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
    return fewest_moves(work, options.seed, options.exact_effort)


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
    search = Search(work, wanted, settings)
    search.seed([work.placement(fewest.node_of)] if fewest is not None else [])
    if len(work.packed.movable):
        begin = search.start_from(work.placement(reference_placement(work)))
        search.approach(search.measure(begin[None])[0][0], begin)
        search.refine_from(begin)
    search.run(progress)
    return search


def _place_rest(problem: Problem, node_of: Indices) -> Indices:
    """Make room for tasks the search left without a node, by chains of moves, where that can be
    done."""
    if (node_of >= 0).all():
        return node_of
    with_room = make_room(pack(replace(problem, node_of=node_of))).node_of
    fewer = (with_room < 0).sum() < (node_of < 0).sum()
    return with_room if fewer and not new_violations(problem, with_room) else node_of


def reference_placement(work: Work) -> Indices:
    """What a plan should not be worse than: the present placement, or where nothing runs, what
    Kubernetes would do."""
    if (work.problem.node_of >= 0).any():
        return work.problem.node_of
    return work.restore(construct(work, "kubernetes"))


def choose(search: Search, work: Work) -> int:
    """The row of the front to take: the best mean normalised objective among those no worse than
    the reference in anything and better in something.

    Moves do not count as worse, because the present placement has none. If no row is better, the
    choice is from the whole front where something runs; where nothing does, the reference itself is
    in the front and may be chosen.
    """
    weights = np.array([objective.weight for objective in search.objectives])
    reference, _ = search.measure(work.placement(reference_placement(work))[None])
    counted = np.array(
        [objective.name not in ("moves", "megabytes") for objective in search.objectives]
    )
    running = bool((work.problem.node_of >= 0).any())
    return choose_best(search.archive.front, weights, reference[0], counted, or_equal=not running)


def _explain_unplaced(problem: Problem, node_of: Indices) -> dict[str, str]:
    """Tasks left without a node, and why; of many only the first are explained."""
    unplaced = np.flatnonzero(node_of < 0).tolist()
    return {
        problem.tasks[t]: why_unplaced(problem, node_of, t) if k < EXPLAINED_MAX else "as others"
        for k, t in enumerate(unplaced)
    }
