"""The fewest moves that place every new task, proved: the problem as a model for OR-Tools' CP-SAT,
an extra.

A move of an existing task costs one; what stays is free, so a good plan given as a hint is improved
or confirmed. With time left the answer is "so many, and no plan has fewer"; without, it is a bound.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

from murmuration.assignment.problem import (
    APART,
    SPREAD,
    TOGETHER,
    Integers,
    Problem,
    Rule,
    broken,
    new_violations,
    used,
)
from murmuration.base.errors import InputError

#: Variables, tasks × nodes, beyond which a model is not built: it would neither be solved nor fit.
SIZE_MAX = 400_000
EXTRA = "the exact solver is OR-Tools; install it with: pip install 'murmuration[plan]'"


class Exact(NamedTuple):
    """The best placement found (None: none), its moves, and the fewest any placement can have
    (None: not known)."""

    node_of: Integers | None
    moves: int | None
    bound: int | None
    #: No placement holds all tasks at all.
    impossible: bool = False

    @property
    def proved(self) -> bool:
        return self.moves is not None and self.moves == self.bound


def available() -> bool:
    """Whether the solver is installed."""
    return find_spec("ortools") is not None


def small_enough(problem: Problem) -> bool:
    return len(problem.request) * len(problem.total) <= SIZE_MAX


def fewest_exactly(problem: Problem, effort: float, hint: Integers | None = None) -> Exact:
    """Solve for the fewest moves with every task placed.

    `effort` is the solver's own count of its work, about a second each: unlike a time limit, it
    repeats.
    """
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise InputError(EXTRA) from None
    if not small_enough(problem):
        return Exact(None, None, None)
    model = cp_model.CpModel()
    lies = _variables(model, problem)
    _fit(model, problem, lies)
    for rule in problem.rules:
        _RULES[rule.kind](model, problem, rule, lies)
    moved = [
        1 - lies[t, n] for t, n in enumerate(problem.node_of.tolist()) if n >= 0 and (t, n) in lies
    ]
    model.minimize(sum(moved))
    if hint is not None:
        for (t, n), variable in lies.items():
            model.add_hint(variable, int(hint[t]) == n)
    solver = cp_model.CpSolver()
    solver.parameters.max_deterministic_time = effort
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    return _answer(problem, lies, solver, solver.solve(model))


def _answer(problem: Problem, lies: dict[tuple[int, int], Any], solver: Any, status: Any) -> Exact:
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
    assert not new_violations(problem, node_of)
    moves = int(((problem.node_of >= 0) & (node_of != problem.node_of)).sum())
    return Exact(node_of, moves, bound)


def _variables(model: Any, problem: Problem) -> dict[tuple[int, int], Any]:
    """One for each task and each node it may lie on; a task lies on exactly one."""
    lies: dict[tuple[int, int], Any] = {}
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
        # A task that may not be placed at all is nobody's fault and stays without a node.
        if nodes or movable[t]:
            model.add_exactly_one([lies[t, n] for n in nodes])
    return lies


def _holds(problem: Problem, t: int, n: int) -> bool:
    return bool((problem.request[t] <= problem.total[n]).all())


def _fit(model: Any, problem: Problem, lies: dict[tuple[int, int], Any]) -> None:
    """No node is asked for more than it has; one that is already is asked for no more than now."""
    limit = np.maximum(problem.total, used(problem, problem.node_of))
    on: list[list[int]] = [[] for _ in range(len(problem.total))]
    for t, n in lies:
        on[n].append(t)
    for n, tasks in enumerate(on):
        for r in range(problem.total.shape[1]):
            terms = [
                int(problem.request[t, r]) * lies[t, n] for t in tasks if problem.request[t, r] > 0
            ]
            model.add(sum(terms) <= int(limit[n, r]))


def _in_domain(
    rule: Rule, tasks: Integers, d: int, lies: dict[tuple[int, int], Any]
) -> dict[int, list[Any]]:
    """For each of the tasks, the variables that put it into a domain."""
    nodes = np.flatnonzero(rule.domain_of == d).tolist()
    found = {t: [lies[t, n] for n in nodes if (t, n) in lies] for t in tasks.tolist()}
    return {t: variables for t, variables in found.items() if variables}


def _sum(variables: dict[int, list[Any]], without: int = -1) -> Any:
    return sum(variable for t, found in variables.items() if t != without for variable in found)


def _apart(model: Any, problem: Problem, rule: Rule, lies: dict[tuple[int, int], Any]) -> None:
    for d in range(rule.domains):
        targets = _in_domain(rule, rule.targets, d, lies)
        # What is broken already may stay as it is.
        most = max(rule.most, _beside_now(problem, rule, d))
        for t, here in _in_domain(rule, rule.holders, d, lies).items():
            others = len(targets) - (t in targets)
            if others > most:
                model.add(_sum(targets, without=t) <= most + (others - most) * (1 - sum(here)))


def _beside_now(problem: Problem, rule: Rule, d: int) -> int:
    found = broken(rule, problem.node_of)
    # A spread is broken as a whole.
    return rule.most + found.get(0 if rule.kind == SPREAD else d, 0)


def _together(model: Any, problem: Problem, rule: Rule, lies: dict[tuple[int, int], Any]) -> None:
    if len(rule.targets) == 1:
        return
    for d in range(rule.domains):
        if _beside_now(problem, rule, d) > rule.most:
            continue
        targets = _in_domain(rule, rule.targets, d, lies)
        for t, here in _in_domain(rule, rule.holders, d, lies).items():
            model.add(sum(here) <= _sum(targets, without=t))


def _spread(model: Any, problem: Problem, rule: Rule, lies: dict[tuple[int, int], Any]) -> None:
    """Each domain with a holder has at most so many targets more than the emptiest."""
    least = model.new_int_var(0, len(rule.targets), "least")
    for d in range(rule.domains):
        targets = _in_domain(rule, rule.targets, d, lies)
        model.add(least <= _sum(targets))
        allowed = rule.most + _beside_now(problem, rule, d) - rule.most
        for here in _in_domain(rule, rule.holders, d, lies).values():
            model.add(_sum(targets) <= least + allowed + len(rule.targets) * (1 - sum(here)))


_RULES = {APART: _apart, TOGETHER: _together, SPREAD: _spread}
