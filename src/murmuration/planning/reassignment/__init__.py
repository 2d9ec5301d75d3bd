"""Machine reassignment as in the ROADEF/EURO challenge of 2012: a better assignment for the
challenge's own files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from murmuration.base.errors import InputError

if TYPE_CHECKING:
    from murmuration.planning.reassignment.cost import Cost

ASSIGNMENT = "assignment.txt"


class Result(NamedTuple):
    """The cost of an assignment before and after, in the challenge's objective, what none can cost
    less than, and how many tasks move."""

    cost_before: int
    cost_after: int
    cost_bound: int
    moves: int
    nodes: int
    tasks: int
    cost_parts_before: Cost
    cost_parts_after: Cost


def plan(
    model: Path,
    assignment: Path,
    *,
    seconds: float | None = 60.0,
    cpu_seconds: float | None = None,
    seed: int = 0,
    out: Path | None = None,
    evaluations: int | None = None,
) -> Result:
    """Plan an instance within `seconds` by the clock and `cpu_seconds` of each of two threads, or
    within `evaluations` so that one seed gives one result.

    The new assignment goes to `assignment.txt` in `out`.
    """
    from murmuration.planning.reassignment.cost import cost, lower_bound, violations
    from murmuration.planning.reassignment.model import (
        read_assignment,
        read_model,
        write_assignment,
    )
    from murmuration.planning.reassignment.search import search

    instance = read_model(model)
    initial = read_assignment(assignment, instance)
    if broken := violations(instance, initial, initial):
        raise InputError(
            f"{assignment}: the assignment to start from must break no rule, but {broken[0]}"
        )
    if evaluations is None:
        better = search(instance, initial, seed, seconds=seconds, cpu_seconds=cpu_seconds)
    else:
        better = search(instance, initial, seed, evaluations=evaluations)
    assert not violations(instance, initial, better), "the search broke a rule"
    before, after = cost(instance, initial, initial), cost(instance, initial, better)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_assignment(out / ASSIGNMENT, better)
    moves = int((better != initial).sum())
    nodes, _, tasks, _ = instance.sizes
    bound = lower_bound(instance)
    return Result(before.total, after.total, bound, moves, nodes, tasks, before, after)


def document(result: Result) -> dict[str, Any]:
    """A result as plain values, for `murmur plan --json`."""
    parts = {
        "cost_parts_before": result.cost_parts_before,
        "cost_parts_after": result.cost_parts_after,
    }
    return result._asdict() | {name: part._asdict() for name, part in parts.items()}
