"""The fewest moves that place every new task, proved: the problem as a model for OR-Tools' CP-SAT,
an extra.

**The model.** A Boolean for each task and each node it may lie on; exactly one of a task's is true.
Capacity is a linear constraint per node and resource, and a rule a few linear constraints per
domain, made conditional by a large constant: "if this holder is here, then at most so many targets
are". A move of an existing task costs one, what stays is free.

**What is broken already may stay so.** A cluster may exceed a node's capacity or a rule before the
plan; the limit of each constraint is the larger of what is allowed and what is there now, as
`problem.new_violations` has it, or the model would have no solution and prove nothing.

**What an answer means.** A good plan given as a hint is improved or confirmed. If the bound equals
the number of moves, no plan has fewer; else the bound is what is proved so far. Effort is counted
by the solver's deterministic time on one thread, so the answer repeats on any machine.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from murmuration.assignment.problem import (
    APART,
    SPREAD,
    TOGETHER,
    Problem,
    Rule,
    find_broken,
    new_violations,
    sum_requests,
)
from murmuration.base.arrays import Indices
from murmuration.base.errors import InputError
from murmuration.base.extras import install_hint

#: Variables, tasks × nodes, beyond which a model is not built: it would neither be solved nor fit.
SIZE_MAX = 400_000
#: Whole numbers that the dearest node costs in the solver.
PRICE_STEPS = 1_000_000
#: OR-Tools is an extra and brings no types: a model, and a variable or a sum of them.
CpModel = Any
Solver = Any
Expression = Any
#: For each task and node the Boolean that says whether the task lies there.
Variables = dict[tuple[int, int], Expression]
EXTRA = f"the exact solver is OR-Tools; {install_hint('plan')}"


class Exact(NamedTuple):
    """The best placement the solver has (None: none), its moves, and the fewest any placement can
    have (None: not known)."""

    node_of: Indices | None
    moves: int | None
    bound: int | None
    #: No placement holds all tasks at all.
    infeasible: bool = False

    @property
    def proved(self) -> bool:
        """Whether no placement has fewer moves."""
        return self.moves is not None and self.moves == self.bound


def is_available() -> bool:
    """Whether the solver is installed."""
    return find_spec("ortools") is not None


def is_small_enough(problem: Problem) -> bool:
    """Whether a model of the problem would be of a size the solver can work on."""
    return len(problem.request) * len(problem.total) <= SIZE_MAX


def solve_fewest_moves(
    problem: Problem, effort: float, hint: Indices | None = None, seconds: float = np.inf
) -> Exact:
    """Solve for the fewest moves with every task placed.

    `effort` is the solver's own count of its work, about a second each: unlike a time limit, it
    repeats. `seconds` only stops it.
    """
    if not is_small_enough(problem):
        return Exact(None, None, None)
    model, lies = _make_model(problem)
    moved = [
        1 - lies[t, n] for t, n in enumerate(problem.node_of.tolist()) if n >= 0 and (t, n) in lies
    ]
    model.minimize(sum(moved))
    solver, status = _solve(model, lies, effort, hint, seconds)
    return _read_answer(problem, lies, solver, status)


def solve_cheapest(
    problem: Problem, effort: float, hint: Indices, alike: Indices, seconds: float = np.inf
) -> tuple[Indices, float]:
    """A placement at least as cheap as the hint by the price of the nodes in use, with every task
    of the hint placed, and a price that none can be below.

    Nodes with one number in `alike` can stand for each other: of those the first are used first.
    """
    placed = problem.subset(hint >= 0)
    model, lies = _make_model(placed)
    in_use = {n: model.new_bool_var(f"in use {n}") for n in sorted({n for _, n in lies})}
    for (_, n), variable in lies.items():
        model.add_implication(variable, in_use[n])
    before: dict[int, int] = {}
    for n in in_use:
        if alike[n] in before:
            model.add_implication(in_use[n], in_use[before[alike[n]]])
        before[alike[n]] = n
    unit = PRICE_STEPS / max(float(problem.price[list(in_use)].max()), 1e-9)
    model.minimize(sum(round(float(problem.price[n]) * unit) * v for n, v in in_use.items()))
    solver, status = _solve(model, lies, effort, hint[hint >= 0], seconds)
    answer = _read_answer(placed, lies, solver, status)
    best = hint.copy()
    if answer.node_of is not None:
        best[hint >= 0] = answer.node_of
    return best, solver.best_objective_bound / unit


def _make_model(problem: Problem) -> tuple[CpModel, Variables]:
    """A model of every placement that is allowed."""
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise InputError(EXTRA) from None
    model = cp_model.CpModel()
    lies = _add_variables(model, problem)
    _add_capacity(model, problem, lies)
    for rule in problem.rules:
        _ADD_RULE[rule.kind](model, problem, rule, lies)
    return model, lies


def _solve(
    model: CpModel, lies: Variables, effort: float, hint: Indices | None, seconds: float
) -> tuple[Solver, Solver]:
    """The solver after its work, and what came of it."""
    from ortools.sat.python import cp_model

    if hint is not None:
        for (t, n), variable in lies.items():
            model.add_hint(variable, int(hint[t]) == n)
    solver = cp_model.CpSolver()
    solver.parameters.max_deterministic_time = effort
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    return solver, solve_stoppably(solver, model)


def solve_stoppably(solver: Solver, model: CpModel) -> Solver:
    """Solve such that Ctrl-C is heard: by the caller, who would otherwise wait for the solver, and
    afterwards too, since the solver would take the signal for itself and leave nobody to hear
    it."""
    solver.parameters.catch_sigint_signal = False
    with ThreadPoolExecutor(1) as thread:
        status = thread.submit(solver.solve, model)
        try:
            return status.result()
        except BaseException:
            solver.stop_search()
            raise


def _read_answer(problem: Problem, lies: Variables, solver: Solver, status: Solver) -> Exact:
    from ortools.sat.python import cp_model

    if status == cp_model.INFEASIBLE:
        return Exact(None, None, None, True)
    bound = max(0, int(np.ceil(solver.best_objective_bound - 1e-6)))
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Exact(None, None, bound)
    node_of = problem.node_of.copy()
    for (t, n), variable in lies.items():
        if solver.value(variable):
            node_of[t] = n
    # Whoever comes to a domain of a spread that is broken already is judged by that domain, which
    # the model does not say: it allows more, so its bound holds, but not every answer of it does.
    if new_violations(problem, node_of):
        return Exact(None, None, bound)
    moves = int(((problem.node_of >= 0) & (node_of != problem.node_of)).sum())
    return Exact(node_of, moves, bound)


def _add_variables(model: CpModel, problem: Problem) -> Variables:
    """One for each task and each node it may lie on; a task lies on exactly one."""
    lies: Variables = {}
    movable = problem.movable
    for t, at in enumerate(problem.node_of.tolist()):
        if movable[t]:
            nodes = [
                n
                for n in np.flatnonzero(problem.may_use(t)).tolist()
                if n == at or _holds(problem, t, n)
            ]
        else:
            nodes = [at] if at >= 0 else []
        for n in nodes:
            lies[t, n] = model.new_bool_var(f"{t}@{n}")
        # A fixed task without a node stays without one; a movable one that fits nowhere makes the
        # model infeasible, by an "exactly one" of nothing.
        if nodes or movable[t]:
            model.add_exactly_one([lies[t, n] for n in nodes])
    return lies


def _holds(problem: Problem, t: int, n: int) -> bool:
    return bool((problem.request[t] <= problem.total[n]).all())


def _add_capacity(model: CpModel, problem: Problem, lies: Variables) -> None:
    """No node is asked for more than it has; one that is already is asked for no more than now."""
    limit = np.maximum(problem.total, sum_requests(problem, problem.node_of))
    on: list[list[int]] = [[] for _ in range(len(problem.total))]
    for t, n in lies:
        on[n].append(t)
    for n, tasks in enumerate(on):
        for r in range(problem.total.shape[1]):
            terms = [
                int(problem.request[t, r]) * lies[t, n] for t in tasks if problem.request[t, r] > 0
            ]
            model.add(sum(terms) <= int(limit[n, r]))


def _in_domain(rule: Rule, tasks: Indices, d: int, lies: Variables) -> dict[int, list[Expression]]:
    """For each of the tasks, the variables that put it into a domain."""
    nodes = np.flatnonzero(rule.domain_of == d).tolist()
    inside = {t: [lies[t, n] for n in nodes if (t, n) in lies] for t in tasks.tolist()}
    return {t: variables for t, variables in inside.items() if variables}


def _sum(variables: dict[int, list[Expression]], without: int = -1) -> Expression:
    """How many of the tasks are there, one of them not counted."""
    return sum(variable for t, of_task in variables.items() if t != without for variable in of_task)


def _add_apart(model: CpModel, problem: Problem, rule: Rule, lies: Variables) -> None:
    """Beside each holder in a domain lie at most so many targets."""
    for d in range(rule.domains):
        targets = _in_domain(rule, rule.targets, d, lies)
        limit = max(rule.limit, _present_limit(problem, rule, d))
        for t, here in _in_domain(rule, rule.holders, d, lies).items():
            others = len(targets) - (t in targets)
            if others > limit:
                # If the holder is elsewhere, the right-hand side is all the others: no constraint.
                model.add(_sum(targets, without=t) <= limit + (others - limit) * (1 - sum(here)))


def _present_limit(problem: Problem, rule: Rule, d: int) -> int:
    """The limit of a rule in a domain, raised by as much as it is broken there now."""
    excess = find_broken(rule, problem.node_of)
    # A spread is broken as a whole.
    return rule.limit + excess.get(0 if rule.kind == SPREAD else d, 0)


def _add_together(model: CpModel, problem: Problem, rule: Rule, lies: Variables) -> None:
    """A holder is in a domain only if another target is."""
    # The only target of all may lie alone.
    if len(rule.targets) == 1 and np.array_equal(rule.holders, rule.targets):
        return
    _keep_inside(model, problem, rule, lies)
    for d in range(rule.domains):
        if _present_limit(problem, rule, d) > rule.limit:
            continue
        targets = _in_domain(rule, rule.targets, d, lies)
        for t, here in _in_domain(rule, rule.holders, d, lies).items():
            model.add(sum(here) <= _sum(targets, without=t))


def _keep_inside(model: CpModel, problem: Problem, rule: Rule, lies: Variables) -> None:
    """No holder comes to a node that is in no domain."""
    outside = np.flatnonzero(rule.domain_of < 0).tolist()
    for t in rule.holders.tolist():
        for n in outside:
            if (t, n) in lies and n != problem.node_of[t]:
                model.add(lies[t, n] == 0)


def _add_spread(model: CpModel, problem: Problem, rule: Rule, lies: Variables) -> None:
    """Each domain with a holder has at most so many targets more than the emptiest."""
    _keep_inside(model, problem, rule, lies)
    emptiest = model.new_int_var(0, len(rule.targets), "emptiest")
    for d in range(rule.domains):
        targets = _in_domain(rule, rule.targets, d, lies)
        model.add(emptiest <= _sum(targets))
        limit = _present_limit(problem, rule, d)
        for here in _in_domain(rule, rule.holders, d, lies).values():
            model.add(_sum(targets) <= emptiest + limit + len(rule.targets) * (1 - sum(here)))


_ADD_RULE = {APART: _add_apart, TOGETHER: _add_together, SPREAD: _add_spread}
