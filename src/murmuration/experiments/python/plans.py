"""`plan` as a function: a better allocation for a cluster, and the moves to get there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from murmuration.assignment.objectives import parse_limit, parse_objective
from murmuration.base.documents import Document
from murmuration.base.loading import look_beside
from murmuration.experiments.python.results import Plot
from murmuration.planning.changes import remove_nodes
from murmuration.planning.deadline import Deadline
from murmuration.planning.document import document
from murmuration.planning.plan import Options, Plan, make_plan
from murmuration.planning.selectors import narrow
from murmuration.planning.snapshots.opening import open_snapshot

if TYPE_CHECKING:
    import polars as pl

    from murmuration.reports.page import Page


class PlanResult:
    """A plan. `document` is all of it, as `plan.json` has it."""

    def __init__(self, plan: Plan, name: str) -> None:
        self._plan = plan
        self.document: Document = document(plan, name)

    @property
    def moves(self) -> pl.DataFrame:
        """The moves in their order: step, kind, task, from, to."""
        import polars as pl

        return pl.DataFrame(self.document["moves"], infer_schema_length=None)

    @property
    def objectives(self) -> pl.DataFrame:
        """Each objective before the plan and as chosen."""
        import polars as pl

        rows = [{"objective": name, **row} for name, row in self.document["objectives"].items()]
        return pl.DataFrame(rows, infer_schema_length=None)

    @property
    def unplaced(self) -> pl.DataFrame:
        """Tasks without a node, and why."""
        import polars as pl

        schema = {"task": pl.String, "reason": pl.String}
        return pl.DataFrame(self.document["unplaced"], schema=schema)

    @property
    def figures(self) -> list[Plot]:
        return [Plot(figure) for section in self._page().sections for figure in section.figures]

    def _page(self) -> Page:
        from murmuration.planning.page import page

        return page(self._plan, self.document)

    def report(self, path: Path | str) -> Path:
        """Write the report, one HTML file."""
        from murmuration.base.files import write_text
        from murmuration.reports.page import render

        write_text(Path(path), render(self._page()))
        return Path(path)

    def _repr_html_(self) -> str:
        return f"{self.objectives._repr_html_()}{self.moves._repr_html_()}"

    def __repr__(self) -> str:
        moved, tasks = self.document["moved"], self.document["tasks"]
        return f"<plan for {self.document['snapshot']}: {moved} of {tasks} tasks move>"


def plan(
    snapshot: Path | str,
    objectives: Sequence[str] = (),
    *,
    limits: Sequence[str] = (),
    remove: Sequence[str] = (),
    only: Sequence[str] = (),
    exclude: Sequence[str] = (),
    add: Sequence[str] = (),
    power_off: bool = False,
    evaluations: int | None = None,
    seconds: float | None = None,
    seed: int = 1,
) -> PlanResult:
    """Plan for a snapshot: what `kubectl get nodes,pods,pdb -A -o json` writes, or a TOML file.

    `objectives` as after --objective (`"nodes"`, `"power=2"`), `limits` as after --limit
    (`"moves=20"`); `remove`, `only`, `exclude` and `add` as the options of these names.
    """
    path, deadline = Path(snapshot), Deadline(seconds or float("inf"), float("inf"))
    look_beside(path)
    problem = narrow(open_snapshot(path, None, list(add)), only, exclude)
    displaced: dict[int, str] = {}
    if remove:
        changed = remove_nodes(problem, remove)
        problem, displaced = changed.problem, changed.displaced
    options = Options(
        objectives=tuple(parse_objective(text) for text in objectives),
        limits=tuple(parse_limit(text) for text in limits),
        power_off=power_off,
        only_place=bool(remove),
        evaluations=evaluations,
        deadline=deadline,
        seed=seed,
        displaced=displaced,
    )
    return PlanResult(make_plan(problem, options), path.name)
