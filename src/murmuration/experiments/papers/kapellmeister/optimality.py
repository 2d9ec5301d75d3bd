"""A proof that no placement is better than a given one in crowding, power or imbalance without
being worse in another of the three.

It holds for clusters like M4: every container asks for the same CPU, memory per CPU is the same on
every size of node, and no container asks for a larger share of memory than of CPU. With A and B the
sums over nodes of the used shares of CPU and memory, and U the nodes in use, power then rises with
A + B, and imbalance is (A − B) ÷ U. A placement that is no worse in both than one with A', B' and
U' has

    A + B ≤ A' + B'    and    A − B ≤ (A' − B') U ÷ U',

hence 2 A ≤ A' + B' + (A' − B') U ÷ U', with "less than" if it is better in one of them. Memory is
gone from it: A and U follow from how many containers lie on each size of node. So does the least
crowding, which is that of an even spread over the nodes of a size, and so do the most nodes that
can be in use. What these numbers cannot do no placement can, and there are few of them: the solver
tries them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm
from typing import Any

import numpy as np

from murmuration.assignment.problem import Problem, sum_requests
from murmuration.assignment.search.exact import solve_stoppably
from murmuration.base.arrays import Integers

#: Deterministic effort of the solver for each of the three questions.
EFFORT = 60.0
#: A model and a variable of OR-Tools, which is an extra and brings no types.
CpModel = Any
Expression = Any


@dataclass(frozen=True)
class SizeOfNode:
    """One size: its CPUs in containers' requests, its nodes, and the weight of a share there."""

    slots: int
    nodes: int
    weight: int


@dataclass(frozen=True)
class Measures:
    """Crowding, and A and B and the nodes in use, of one placement, as whole numbers."""

    crowding: int
    cpu: int
    memory: int
    used: int


def applies(problem: Problem) -> bool:
    """Whether the argument holds for this cluster, with every container to be placed."""
    cpu, memory = problem.request[:, 0], problem.request[:, 1]
    total = problem.total
    same_cpu = len(np.unique(cpu)) == 1 and cpu[0] > 0
    same_shape = len(np.unique(total[:, 1] * total[0, 0] - total[:, 0] * total[0, 1])) == 1
    whole = not (total[:, 0] % cpu[0]).any() if same_cpu else False
    return bool(
        same_cpu and same_shape and whole and (memory * total[0, 0] <= cpu * total[0, 1]).all()
    )


def list_sizes(problem: Problem) -> list[SizeOfNode]:
    slots, counts = np.unique(problem.total[:, 0] // problem.request[0, 0], return_counts=True)
    unit = lcm(*(int(x) for x in slots))
    return [SizeOfNode(int(s), int(n), unit // int(s)) for s, n in zip(slots, counts, strict=True)]


def measure(problem: Problem, node_of: Integers) -> Measures:
    """What the proof needs of a placement; memory in units, CPU in units of the memory that goes
    with it on every node, both times the weight of the node."""
    sizes = {size.slots: size for size in list_sizes(problem)}
    slots = problem.total[:, 0] // problem.request[0, 0]
    weight = np.array([sizes[int(s)].weight for s in slots], dtype=np.int64)
    counts = np.bincount(node_of, minlength=len(slots)).astype(np.int64)
    bytes_each = sum_requests(problem, node_of)[:, 1]
    return Measures(
        int((counts * (counts + 1) // 2).sum()),
        int((counts * weight).sum()) * _memory_per_slot(problem),
        int((bytes_each * weight).sum()) // _unit(problem),
        int((counts > 0).sum()),
    )


def _unit(problem: Problem) -> int:
    """The largest number of bytes that every amount of memory is a multiple of: numbers of a
    solver's size."""
    per_slot = problem.total[0, 1] * problem.request[0, 0] // problem.total[0, 0]
    return int(np.gcd.reduce([per_slot, *problem.request[:, 1]]))


def _memory_per_slot(problem: Problem) -> int:
    """In units."""
    per_slot = problem.total[0, 1] * problem.request[0, 0] // problem.total[0, 0]
    return int(per_slot) // _unit(problem)


def prove_pareto_optimal(problem: Problem, node_of: Integers) -> bool | None:
    """Whether no placement of all containers is better in one of the three and worse in none; None
    if the numbers of containers on each size do not rule it out."""
    from ortools.sat.python import cp_model

    assert applies(problem), "the proof needs equal CPU and one shape of nodes"
    base = measure(problem, node_of)
    for strict in ((1, 0), (0, 1)):
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_deterministic_time = EFFORT
        status = solve_stoppably(solver, _build(cp_model.CpModel(), problem, base, *strict))
        if status != cp_model.INFEASIBLE:
            return None
    return True


def _build(model: CpModel, problem: Problem, base: Measures, crowded: int, other: int) -> CpModel:
    """Containers on each size, no worse in all three; by `crowded` better in crowding, or by
    `other` in power or imbalance."""
    tasks = len(problem.request)
    columns = [_size_columns(model, size, tasks) for size in list_sizes(problem)]
    crowding, weighted, used, count = (sum(column) for column in zip(*columns, strict=True))
    model.add(count == tasks)
    model.add(crowding <= base.crowding - crowded)
    # 2 A U' ≤ (A' + B') U' + (A' − B') U, in units times the weight of a node.
    per_slot = _memory_per_slot(problem)
    least, step = (base.cpu + base.memory) * base.used, base.cpu - base.memory
    model.add(2 * base.used * per_slot * weighted <= least + step * used - other)
    return model


def _size_columns(model: CpModel, size: SizeOfNode, tasks: int) -> tuple[Expression, ...]:
    """The least crowding, weighted count, most nodes in use and count of one size."""
    top = min(tasks, size.slots * size.nodes)
    count = model.new_int_var(0, top, "")
    crowding = model.new_int_var(0, spread(top, size.nodes), "")
    used = model.new_int_var(0, size.nodes, "")
    model.add_element(count, [spread(k, size.nodes) for k in range(top + 1)], crowding)
    model.add_element(count, [min(k, size.nodes) for k in range(top + 1)], used)
    return crowding, count * size.weight, used, count


def spread(tasks: int, nodes: int) -> int:
    """The least crowding of so many tasks on so many nodes: spread evenly."""
    each, more = divmod(tasks, nodes)
    return (nodes - more) * each * (each + 1) // 2 + more * (each + 1) * (each + 2) // 2
