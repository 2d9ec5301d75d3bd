"""Summaries of runs as data frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from murmuration.base.documents import Document, Json, JsonObject
from murmuration.base.errors import InputError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

Summary = JsonObject


def workload_frame(summaries: Sequence[Summary]) -> pl.DataFrame:
    """One row for each run (or all replicas of one) and workload. Of replicas a column is the mean;
    `_low` and `_high` beside it are the bounds of its 95 % interval."""
    import polars as pl

    rows = [
        {**_identify(summary), "workload": name, **dict(_flatten(figures))}
        for summary in summaries
        for name, figures in summary["workloads"].items()
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def cluster_frame(summaries: Sequence[Summary]) -> pl.DataFrame:
    """One row for each run: what its placement made of the cluster."""
    import polars as pl

    rows = [
        {
            **_identify(summary),
            **dict(_flatten(summary["cluster"])),
            **dict(_flatten({"makespan_s": summary["makespan_s"]})),
        }
        for summary in summaries
    ]
    return pl.DataFrame(rows, infer_schema_length=None)


def _identify(summary: Summary) -> Document:
    """Which run it is: its scheduler, what a sweep varied, its seed (how many, for replicas)."""
    seed = summary["seed"]
    seeds = {"seeds": len(seed)} if isinstance(seed, list) else {"seed": seed}
    varied = {key.rpartition(".")[2]: value for key, value in summary.get("vary", {}).items()}
    return {"scheduler": summary["scheduler"], **varied, **seeds}


def _flatten(figures: Summary, prefix: str = "") -> Iterator[tuple[str, Json]]:
    for key, value in figures.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping) and value.keys() >= {"mean", "low", "high", "n"}:
            yield name, value["mean"]
            if value["low"] is not None:
                yield from ((f"{name}_low", value["low"]), (f"{name}_high", value["high"]))
        elif isinstance(value, Mapping):
            yield from _flatten(value, f"{name}.")
        else:
            yield name, value


def to_pandas(frame: pl.DataFrame) -> pd.DataFrame:
    """The same rows for pandas, which need not be installed otherwise."""
    try:
        import pandas as pd
    except ImportError as error:
        raise InputError("to_pandas: pandas is not installed; pip install pandas") from error
    return pd.DataFrame(frame.to_dict(as_series=False))
