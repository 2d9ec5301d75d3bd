"""A plan: where a cluster stands, a front of better placements, the one chosen, and the moves to
get there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from murmuration.assignment import objectives as of
from murmuration.assignment.moves import MoveOrder, order_moves
from murmuration.assignment.objectives import Objective
from murmuration.assignment.packed import Work, pack
from murmuration.assignment.problem import Problem, describe
from murmuration.assignment.reasons import why_unplaced
from murmuration.assignment.search.choice import (
    add_moves,
    choose,
    new_breaks,
    reference_placement,
    show_front,
)
from murmuration.assignment.search.construct import BASELINES, construct
from murmuration.assignment.search.fewest import Fewest, fewest_moves
from murmuration.assignment.search.search import Search, Settings
from murmuration.assignment.search.seeds import seed_placements
from murmuration.base.arrays import Floats, Indices, Integers, Placement
from murmuration.planning import pymoo_peer
from murmuration.planning.deadline import CHOICE_SHARE, SEARCH_SHARE, Deadline
from murmuration.planning.nodes import Kept, why_kept
from murmuration.planning.rehearsal import MoveRehearsal, pace_of, rehearse

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
    deadline: Deadline = field(default_factory=Deadline)
    seed: int = 1
    #: Megabytes per second at which each move is made; None: as such clusters do it.
    rate: float | None = None
    #: Seconds until a restarted task is ready that does not tell; None: as the median one took.
    ready_s: float | None = None
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
    #: How it was chosen: at the "knee" of gain against moves, or by the "mean" of the objectives.
    choice: str = "mean"

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
    asked = () if options.only_place and not options.objectives else wanted
    fewest = _place_with_fewest_moves(work, options)
    if options.only_place:
        placed = problem.node_of if fewest is None else fewest.node_of
        order, placements = order_moves(work, placed), placed[None]
        front, history, evaluations = np.zeros((0, len(wanted))), [], 0
        baselines = _baselines(work, {})
    else:
        search = _search(work, wanted, options, fewest, progress)
        front, placements = show_front(search, len(wanted))
        late = partial(options.deadline.is_over, CHOICE_SHARE)
        order = choose(search, fewest, not options.objectives, late)
        history, evaluations = search.history, search.evaluations
        baselines = _baselines(work, search.constructed)
    if options.pymoo and len(work.packed.movable):
        baselines[pymoo_peer.NAME] = _ask_pymoo(work, wanted, options)
    order, rehearsal, notes = _rehearse(work, order, options)
    return Plan(
        problem=problem,
        objectives=asked,
        before=values_of(work, problem.present, wanted),
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
        choice="mean" if options.objectives or not (problem.node_of >= 0).any() else "knee",
    )


def _baselines(work: Work, constructed: Mapping[str, Placement]) -> dict[str, Indices]:
    """What stands beside a plan: the placements the search has made anyway, and where nothing runs
    always Kubernetes', which the plan is compared with."""
    known = {name: constructed[name] for name in BASELINES if name in constructed}
    if not known and not (work.problem.node_of >= 0).any():
        known = {BASELINES[0]: construct(work, BASELINES[0])}
    return {name: work.restore(x) for name, x in known.items()}


def _ask_pymoo(work: Work, wanted: Sequence[Objective], options: Options) -> Indices:
    fresh = Search(work, wanted, Settings(options.population, options.evaluations, options.seed))
    return pymoo_peer.pymoo_placement(fresh, options.population)


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
    pace = pace_of(problem, options.rate, options.ready_s)
    rehearsal = rehearse(problem, order.steps, pace, options.displaced)
    # Where some moves are impossible the steps end elsewhere than planned, so that is looked at.
    broken = new_breaks(problem, order)
    error = describe(problem, broken) if broken else "; ".join(rehearsal.errors[:1])
    if not error:
        return order, rehearsal, _note_limits(work, order, options)
    unmoved = MoveOrder((), problem.node_of, ())
    note = f"nothing is moved: the plan would break something ({error})"
    return unmoved, rehearse(problem, (), pace), [note]


def _note_limits(work: Work, order: MoveOrder, options: Options) -> list[str]:
    """The limits that no placement met was within."""
    values = values_of(work, order.node_of, ())
    return [
        f"--limit {of.NAMES[k]}={limit:g}: no placement within it was found; this one has "
        f"{values[k]:g}"
        for k, limit in options.limits
        if values[k] > limit + 1e-6
    ]


def default_objectives(problem: Problem) -> tuple[Objective, ...]:
    """The objectives of a plan that names none; moves matter where something runs already."""
    names = DEFAULT_OBJECTIVES if (problem.node_of >= 0).any() else DEFAULT_OBJECTIVES[:-1]
    return tuple(of.built_in(name) for name in names)


def user_objectives(objectives: Sequence[Objective]) -> list[Objective]:
    """Those that are not built in."""
    return [objective for objective in objectives if objective.name not in of.NAMES]


def values_of(work: Work, node_of: Indices, wanted: Sequence[Objective]) -> Floats:
    """The built-in objectives of a placement, then the user's. A task of a node that goes has
    moved when it has another one."""
    problem = work.problem
    functions = [o.function for o in user_objectives(wanted) if o.function is not None]
    users = [function(problem, node_of) for function in functions]
    built_in = of.values(problem, node_of, work.packed.power_off)
    left = (problem.present >= 0) & (problem.node_of < 0) & (node_of >= 0)
    left &= node_of != problem.present
    built_in[of.MOVES] += left.sum()
    built_in[of.MEGABYTES] += problem.megabytes[left].sum()
    return np.append(built_in, users)


def _place_with_fewest_moves(work: Work, options: Options) -> Fewest | None:
    """Where something has no node and something else has: place it with the fewest moves."""
    problem = work.problem
    waiting = (problem.node_of < 0).any()
    if not waiting or not (options.only_place or (problem.node_of >= 0).any()):
        return None
    # A task that has to leave a removed node counts as moved, whatever others do.
    leaving = int(((problem.present >= 0) & (problem.node_of < 0)).sum())
    moves_max = (
        min((limit for k, limit in options.limits if k == of.MOVES), default=np.inf) - leaving
    )

    def left() -> float:
        return options.deadline.left(SEARCH_SHARE)

    return fewest_moves(work, options.seed, options.exact_effort, moves_max, left)


def _search(
    work: Work,
    wanted: Sequence[Objective],
    options: Options,
    fewest: Fewest | None,
    progress: Callable[[float], object],
) -> Search:
    settings = Settings(
        options.population,
        options.evaluations,
        options.seed,
        lambda: options.deadline.is_over(SEARCH_SHARE),
        limits=options.limits,
    )
    search = Search(work, add_moves(work.problem, wanted), settings)
    search.begin([work.placement(fewest.node_of)] if fewest is not None else [])
    if not len(work.packed.movable):
        search.record()
        return search
    # What is near the present placement comes first: if there is little time, that is the plan.
    begin = search.start_from(work.placement(reference_placement(work)))
    reference = search.measure(begin[None])[0][0]
    search.add_placements(seed_placements(search, begin, reference))
    search.add_recipes()
    search.approach(reference, begin)
    search.refine_from(begin)
    search.run(progress)
    return search


def _explain_unplaced(problem: Problem, node_of: Indices) -> dict[str, str]:
    """Tasks left without a node, and why; of many only the first are explained."""
    unplaced = np.flatnonzero(node_of < 0).tolist()
    return {
        problem.tasks[t]: why_unplaced(problem, node_of, t) if k < EXPLAINED_MAX else "as others"
        for k, t in enumerate(unplaced)
    }
