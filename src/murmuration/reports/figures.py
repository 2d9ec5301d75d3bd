"""What a plot is made of: plain frozen values, checked once when made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

Values = Sequence[float | None]


def _same_length(what: str, length: int, *others: Sequence[object] | None) -> None:
    if any(other is not None and len(other) != length for other in others):
        raise ValueError(f"{what}: every list must have {length} values")


@dataclass(frozen=True)
class Series:
    """One line of a chart; a missing or non-finite y is a gap.

    `low` and `high` draw a band, or error bars with `markers`; `hollow` marks the points of
    saturated runs; `colour` is a place in the palette, so that two series can share one and differ
    by `dotted`. Drawn apart, those of one `panel` stay together. A `stepped` value holds until the
    next one.
    """

    name: str
    x: Sequence[float]
    y: Values
    low: Values | None = None
    high: Values | None = None
    dotted: bool = False
    hollow: Sequence[bool] | None = None
    colour: int | None = None
    markers: bool = False
    panel: str = ""
    stepped: bool = False

    def __post_init__(self) -> None:
        _same_length(f"series {self.name!r}", len(self.x), self.y, self.low, self.high, self.hollow)


@dataclass(frozen=True)
class Chart:
    """Lines or points over a common x; `lines` are labelled horizontal reference lines. With
    `apart` they are small multiples at first: a panel each, all on one scale."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    x_log: bool = False
    y_log: bool = False
    lines: tuple[tuple[str, float], ...] = ()
    note: str = ""
    y_from_zero: bool = True
    y_percent: bool = False
    apart: bool = False


@dataclass(frozen=True)
class Bars:
    """Grouped bars: one value per group in each named series, with optional error bars."""

    title: str
    y_label: str
    groups: tuple[str, ...]
    series: tuple[tuple[str, tuple[float | None, ...]], ...]
    note: str = ""
    y_log: bool = False
    low: tuple[tuple[float | None, ...], ...] | None = None
    high: tuple[tuple[float | None, ...], ...] | None = None
    lines: tuple[tuple[str, float], ...] = ()
    y_percent: bool = False

    def __post_init__(self) -> None:
        _same_length(
            f"bars {self.title!r}", len(self.groups), *(values for _, values in self.series)
        )
        for edge in (self.low, self.high):
            _same_length(f"bars {self.title!r}", len(self.series), edge)
            _same_length(f"bars {self.title!r}", len(self.groups), *(edge or ()))


@dataclass(frozen=True)
class Scatter:
    """Points of one kind, and a few named ones among them. Figures of one `group` show the same
    things in the same order, so that what is chosen in one is chosen in all."""

    title: str
    x_label: str
    y_label: str
    points: Sequence[tuple[float, float]]
    marked: tuple[tuple[str, float, float], ...] = ()
    note: str = ""
    group: str = ""


@dataclass(frozen=True)
class Parallel:
    """Parallel coordinates: each row is a line over all axes, every axis from its least value to
    its largest. An axis with `labels` counts them; `group` is that of `Scatter`."""

    title: str
    axes: tuple[str, ...]
    rows: Sequence[Values]
    marked: tuple[tuple[str, Sequence[float]], ...] = ()
    note: str = ""
    group: str = ""
    labels: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        if self.labels:
            _same_length(f"parallel {self.title!r}", len(self.axes), self.labels)
        for row in (*self.rows, *(values for _, values in self.marked)):
            _same_length(f"parallel {self.title!r}", len(self.axes), row)


@dataclass(frozen=True)
class Fills:
    """How full things are, before and after: for each a share per part, both times."""

    title: str
    parts: tuple[str, ...]
    rows: Sequence[tuple[str, Sequence[float], Sequence[float]]]
    note: str = ""

    def __post_init__(self) -> None:
        for name, before, after in self.rows:
            _same_length(f"fills {name!r}", len(self.parts), before, after)


class PlayedMove(NamedTuple):
    """A task goes from one node to another, by their places (−1: from none), with so much of each
    part, in these seconds."""

    task: str
    kind: str
    origin: int
    target: int
    amounts: Sequence[float]
    start_s: float
    end_s: float
    wave: int


@dataclass(frozen=True)
class Playback:
    """Moves between nodes that a reader plays step by step. A node has a name, what it has of each
    part, and what of it is taken before the first move."""

    title: str
    parts: tuple[str, ...]
    nodes: Sequence[tuple[str, Sequence[float], Sequence[float]]]
    moves: Sequence[PlayedMove]
    note: str = ""

    def __post_init__(self) -> None:
        for name, total, taken in self.nodes:
            _same_length(f"playback {name!r}", len(self.parts), total, taken)
        for move in self.moves:
            _same_length(f"playback {move.task!r}", len(self.parts), move.amounts)


Figure = Chart | Bars | Scatter | Parallel | Fills | Playback
