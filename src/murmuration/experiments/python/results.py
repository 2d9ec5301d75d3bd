"""What studies from Python give back: runs, comparisons and sweeps.

Results lie in a folder, as those of the commands do, and are read from it when they are asked for.
A study that was given no folder has one of its own that goes with the last object that needs it.
"""

from __future__ import annotations

import html
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from murmuration.base.documents import Json
from murmuration.base.errors import InputError, unknown
from murmuration.experiments.python.frames import cluster_frame, to_pandas, workload_frame
from murmuration.experiments.runs import Summary, execute
from murmuration.experiments.specs import Spec
from murmuration.simulation.results import snapshots

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from murmuration.cluster.reasons import Explanation
    from murmuration.reports.figures import Figure

#: Figures that a notebook shows of a comparison; `figures` has them all.
SHOWN = 4


class StudyFolder:
    """Where the results of a study lie: a folder that was given, or one that is removed when nobody
    needs it any more."""

    def __init__(self, out: Path | str | None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="murmur-") if out is None else str(out))
        if out is None:
            weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


class Plot:
    """A figure. A notebook shows it as a report does, with values under the pointer and zoom;
    `save` writes such a page (.html), or lines and bars for paper (.pdf, .png, .svg)."""

    def __init__(self, figure: Figure) -> None:
        self._figure = figure
        self.title = figure.title

    def _repr_html_(self) -> str:
        from murmuration.reports.cell import render_cell

        return render_cell(self.title, (self._figure,))

    def save(self, path: Path | str) -> Path:
        from murmuration.base.files import write_text
        from murmuration.experiments.figures.convert import save_figure
        from murmuration.reports.cell import bare_page

        path = Path(path)
        if path.suffix.lower() == ".html":
            write_text(path, bare_page(self.title, (self._figure,)))
        else:
            save_figure(self._figure, path)
        return path

    def __repr__(self) -> str:
        return f"<plot {self.title!r}>"


@dataclass(frozen=True, eq=False)
class RunResult(Mapping[str, Json]):
    """One run. As a mapping it is its summary: `run["workloads"]["batch"]["wait_s_mean"]`."""

    spec: Spec
    summary: Summary
    folder: StudyFolder

    def __getitem__(self, key: str) -> Json:
        return self.summary[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.summary)

    def __len__(self) -> int:
        return len(self.summary)

    @property
    def path(self) -> Path:
        """The folder of its files."""
        assert self.spec.folder is not None, "runs of a study have folders"
        return Path(self.spec.folder)

    @property
    def frame(self) -> pl.DataFrame:
        """The figures of each workload."""
        return workload_frame([self.summary])

    @property
    def jobs(self) -> pl.DataFrame:
        """One row per job: submit_s, start_s, end_s, tasks, attempts, status …; with `detail` also
        `nodes`, the nodes its tasks ran on."""
        import polars as pl

        jobs = pl.read_parquet(self.path / snapshots.JOBS)
        if not self.spec.detail:
            return jobs
        nodes = self.tasks.group_by("job_id", maintain_order=True).agg(
            pl.col("node").unique(maintain_order=True).alias("nodes")
        )
        return jobs.join(nodes, on="job_id", how="left")

    @property
    def series(self) -> pl.DataFrame:
        """The cluster over time."""
        import polars as pl

        return pl.read_parquet(self.path / snapshots.SERIES)

    @cached_property
    def tasks(self) -> pl.DataFrame:
        """One row for each stay of a task on a node. If they were not recorded, the run is made
        again: the same seed gives the same run."""
        import polars as pl

        from murmuration.simulation.results.detail import TASKS

        if not self.spec.detail:
            with tempfile.TemporaryDirectory(prefix="murmur-") as folder:
                execute(replace(self.spec, folder=folder, detail=True))
                return pl.read_parquet(Path(folder) / TASKS, memory_map=False)
        return pl.read_parquet(self.path / TASKS)

    def why(self, job: str, attempt: int = 1) -> Explanation:
        """The decision about a job: nodes considered, ruled out, scores, and what was chosen."""
        from murmuration.simulation.engine.run import prepare
        from murmuration.simulation.results.explain import explain

        return explain(prepare(self.spec.scenario), job, attempt)

    @property
    def figures(self) -> list[Plot]:
        from murmuration.experiments.pages.parts import read_series
        from murmuration.experiments.pages.single import single

        page = single(self.summary, read_series(self.path))
        return [Plot(figure) for section in page.sections for figure in section.figures]

    def to_pandas(self) -> pd.DataFrame:
        return to_pandas(self.frame)

    def _repr_html_(self) -> str:
        return _show(repr(self), [], self.frame, self.figures[:SHOWN])

    def __repr__(self) -> str:
        what = f"{self.summary['scenario']}, {self.summary['scheduler']}"
        return f"<run of {what}, seed {self.summary['seed']}>"


class Comparison(Sequence[RunResult]):
    """Several schedulers on the same jobs, each with one seed or more. A sequence of its runs; by
    the name of a scheduler its first one."""

    def __init__(self, name: str, runs: Sequence[RunResult], folder: StudyFolder) -> None:
        from murmuration.experiments.pages.verdict import judge
        from murmuration.experiments.statistics import combine_by_label

        self.name, self.runs, self._folder = name, list(runs), folder
        summaries = [run.summary for run in runs]
        #: One summary for each scheduler; of replicas every figure has mean, low and high.
        self.summaries: list[Summary] = combine_by_label(summaries)
        #: What it comes down to, in sentences.
        self.verdict: list[str] = judge(summaries)

    def __getitem__(self, key: Json) -> Json:
        if not isinstance(key, str):
            return self.runs[key]
        named = {run.spec.label: run for run in reversed(self.runs)}
        if key not in named:
            raise unknown("scheduler", key, list(reversed(named)))
        return named[key]

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def frame(self) -> pl.DataFrame:
        """One row per scheduler and workload, with intervals if there are replicas."""
        return workload_frame(self.summaries)

    @property
    def cluster(self) -> pl.DataFrame:
        """One row per scheduler: nodes in use, fragmentation, imbalance, migrations …"""
        return cluster_frame(self.summaries)

    @property
    def jobs(self) -> pl.DataFrame:
        """The jobs of all runs, with `scheduler` and `seed`."""
        import polars as pl

        return pl.concat(
            run.jobs.select(
                pl.lit(run.spec.label).alias("scheduler"),
                pl.lit(run.summary["seed"]).alias("seed"),
                pl.all(),
            )
            for run in self.runs
        )

    @property
    def figures(self) -> list[Plot]:
        return [Plot(each) for section in self._page().sections for each in section.figures]

    def _page(self) -> Json:
        from murmuration.experiments.pages.comparison import comparison
        from murmuration.experiments.pages.parts import read_series

        first = {run.spec.label: run.path for run in reversed(self.runs)}
        series = {label: read_series(path) for label, path in reversed(first.items())}
        runs = [run.summary for run in self.runs]
        return comparison(f"{self.name}: comparison", self.summaries, series, runs)

    def report(self, path: Path | str) -> Path:
        """Write the report, one HTML file."""
        from murmuration.base.files import write_text
        from murmuration.reports.page import render

        write_text(Path(path), render(self._page()))
        return Path(path)

    def to_pandas(self) -> pd.DataFrame:
        return to_pandas(self.frame)

    def _repr_html_(self) -> str:
        return _show(self.name, self.verdict, self.frame, self.figures[:SHOWN])

    def __repr__(self) -> str:
        return "\n".join([f"<{self.name}: {len(self.runs)} runs>", *self.verdict])


class Sweep(Comparison):
    """A grid of runs; the values that were varied are columns of its frames."""

    def __init__(
        self,
        name: str,
        runs: Sequence[RunResult],
        folder: StudyFolder,
        axes: Mapping[str, Sequence[Json]],
    ) -> None:
        super().__init__(name, runs, folder)
        self.axes = axes

    def _page(self) -> Json:
        from murmuration.experiments.pages.sweep import sweep

        return sweep(f"{self.name}: sweep", self.axes, self.summaries)


def _show(title: str, sentences: Sequence[str], frame: pl.DataFrame, plots: Sequence[Plot]) -> str:
    """What a notebook shows: what it comes down to, the table, and the first figures."""
    from murmuration.reports.cell import render_cell

    lines = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
    figures = render_cell(title, tuple(plot._figure for plot in plots))
    return f"{f'<ul>{lines}</ul>' if lines else ''}{frame._repr_html_()}{figures}"


def require_names(given: Sequence[Json], what: str) -> None:
    """At least one of something."""
    if not given:
        raise InputError(f"{what}: expected at least one, got none")
