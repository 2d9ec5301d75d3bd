"""Tables 3 to 6 on Google's own cell: tasks, requests and use of its cell state, and real days of
arrivals as replicates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from murmuration.cluster.allocation_types import DA, NAMES, OVERLOADED, PA
from murmuration.experiments.papers.masb.tables import (
    LIMIT,
    LOADS,
    MASB,
    SIZES,
    Summary,
    evenness,
    execute,
    is_like_overload,
    is_like_share,
    judge_spikes,
    on_runs,
    percent,
    shares,
    type_bars,
)
from murmuration.experiments.replicates import interval
from murmuration.experiments.result import Reproduction, ReproductionSettings, Row
from murmuration.experiments.specs import Tables, make_spec
from murmuration.simulation.scenarios import scenario as sc

PRESET = "masb-google"
DAY_S, WINDOW_S = 86_400.0, 600.0
#: Real days of arrivals, each a replicate; a quick run has as many, on a part of the cell and the
#: first hours of each.
REAL_DAYS = tuple(range(1, 21))
QUICK_SHARE, QUICK_LENGTH = 0.16, 0.1
#: Where 0.5 % of the nodes are overloaded: between the paper's rows on both sides of it.
CROSSING_LOAD, CROSSING_NODES = (1.01, 1.04), (0.97, 0.99)
#: Proportionally and disproportionally filled nodes of Tables 4 and 5.
PA_DA = {
    "load 102%": (0.6997, 0.2095),
    "load 104%": (0.7477, 0.1673),
    "load 106%": (0.7686, 0.1379),
    "nodes 99%": (0.6821, 0.2271),
    "nodes 98%": (0.7256, 0.1933),
    "nodes 97%": (0.7166, 0.1935),
}
#: Days that are averaged, and sizes beyond the paper's, where the limit may be passed.
CAPACITY_DAYS, FEWER_STILL = 2, (0.96, 0.95)
#: Collisions of 6.5.
COLLISIONS = (0.06, 0.08)
NOTE = (
    "The jobs of time 0 are those of Google's cell state, with their tasks, requests and mean use; "
    "arrivals, classes and durations are real, tasks of arriving jobs drawn from jobs of their "
    "class. Changes of use about the mean are made up. Use is scaled to the paper's totals."
)


def make_cell(
    settings: ReproductionSettings, day: int = 1, nodes: float = 1.0, load: float = 1.0
) -> Tables:
    """The cell with the arrivals of a day, with this share of its nodes and load."""
    share = QUICK_SHARE if settings.quick else 1.0
    length = settings.days or (QUICK_LENGTH if settings.quick else 1.0)
    tables = {key: value for key, value in sc.load(PRESET).items() if key != "variant"}
    return sc.override(
        tables,
        {
            "seed": settings.seed,
            "days": length,
            "cluster.keep": share * nodes,
            "workload.multiply": share * load,
            "workload.arrivals_from_s": WINDOW_S + DAY_S * day,
        },
    )


def table_3(settings: ReproductionSettings) -> Reproduction:
    """Table 3 on every real day."""
    specs = [make_spec(f"day {day}", make_cell(settings, day)) for day in REAL_DAYS]
    summaries = execute(settings, specs)
    runs = list(summaries.values())
    rows = [
        _judge_share(name, paper, [shares(run)[k] for run in runs])
        for k, (name, paper) in enumerate(zip(NAMES, MASB, strict=True))
    ]
    rows += [
        _report("PA to DA", "3.0", [evenness(run) for run in runs], "{:.2f}"),
        _report("overloaded when agents look", "—", [_seen(run) for run in runs], "{:.2%}"),
        _judge_range(
            "requests that find the room gone",
            "6–8 %",
            [run["collision_fraction"] or 0.0 for run in runs],
            COLLISIONS,
        ),
    ]
    rows += judge_spikes(runs)
    rows = [on_runs(row, summaries) for row in rows]
    figure = type_bars("Nodes per allocation type", summaries)
    title = "Table 3 on Google's own cell: nodes per allocation type"
    return Reproduction("masb-google", title, tuple(rows), (figure,), (NOTE,))


def _seen(run: Summary) -> float:
    return float((run["overloaded_seen"] or 0.0) / run["nodes_mean"])


def _report(quantity: str, paper: str, values: Sequence[float], words: str) -> Row:
    """A row with the mean over the days and its interval."""
    mean, low, high = interval(values)
    text = words.format(mean)
    if len(values) > 1:
        text += f" ({words.format(low)} to {words.format(high)}, {len(values)} days)"
    return Row(quantity, paper, text)


def _judge_share(name: str, paper: float, values: Sequence[float]) -> Row:
    row = _report(f"{name} nodes", percent(paper), values, "{:.2%}")
    return _decide(row, is_like_share(interval(values).mean, paper))


def _judge_range(
    quantity: str, paper: str, values: Sequence[float], ends: tuple[float, float]
) -> Row:
    row = _report(quantity, paper, values, "{:.1%}")
    return _decide(row, ends[0] <= interval(values).mean <= ends[1])


def _decide(row: Row, holds: bool | None) -> Row:
    return Row(row.quantity, row.paper, row.measured, holds=holds)


def find_neighbours(shares_at: Mapping[float, float]) -> tuple[float, ...]:
    """The two sizes that were run between which the share of overloaded nodes passes the limit for
    the first time; none if it never does, or does from the start."""
    for (near, below), (far, above) in pairwise(shares_at.items()):
        if below < LIMIT <= above:
            return near, far
    return ()


def find_crossing(shares_at: Mapping[float, float]) -> float | None:
    """The size at which the share of overloaded nodes passes the limit, between two that were
    run."""
    if not find_neighbours(shares_at):
        return None
    near, far = find_neighbours(shares_at)
    below, above = shares_at[near], shares_at[far]
    return near + (far - near) * (LIMIT - below) / (above - below)


def tables_4_and_5(settings: ReproductionSettings) -> Reproduction:
    """Tables 4 and 5: more load, and fewer nodes; shares are means over real days."""
    days = REAL_DAYS[:CAPACITY_DAYS]
    loads = {x: f"load {x:.0%}" for x in LOADS}
    sizes = {x: "load 100%" if x == 1.0 else f"nodes {x:.0%}" for x in (*SIZES, *FEWER_STILL)}
    specs = []
    for day in days:
        specs += [
            make_spec(f"{label}, day {day}", make_cell(settings, day, load=x))
            for x, label in loads.items()
        ]
        specs += [
            make_spec(f"{label}, day {day}", make_cell(settings, day, nodes=x))
            for x, label in sizes.items()
            if x != 1.0
        ]
    summaries = execute(settings, specs)

    def mean(label: str) -> list[float]:
        columns = zip(*(shares(summaries[f"{label}, day {day}"]) for day in days), strict=True)
        return [sum(values) / len(values) for values in columns]

    def on_sizes(row: Row, labels: Iterable[str]) -> Row:
        """A row rests on the runs at these sizes, and is not judged if they left jobs out."""
        return on_runs(row, summaries, *(f"{label}, day {day}" for label in labels for day in days))

    by_load = {x: mean(label)[OVERLOADED] for x, label in loads.items()}
    by_size = {x: mean(label)[OVERLOADED] for x, label in sizes.items()}
    rows = []
    for what, word, here, labels, paper, ends in (
        ("load", "load", by_load, loads, LOADS, CROSSING_LOAD),
        ("nodes", "share of nodes", by_size, sizes, SIZES, CROSSING_NODES),
    ):
        listed = zip(_list_shares(what, paper, here), labels.values(), strict=True)
        rows += [on_sizes(row, [label]) for row, label in listed]
        around = [labels[x] for x in find_neighbours(here)]
        rows += [on_sizes(row, around) for row in _judge_crossing(word, paper, here, ends)]
    rows += [on_sizes(row, [label]) for label in PA_DA for row in _judge_filled(label, mean(label))]
    first = {label: run for label, run in summaries.items() if label.endswith(f"day {days[0]}")}
    figure = type_bars("Nodes per allocation type", first)
    title = "Tables 4 and 5 on Google's own cell: more load, fewer nodes"
    notes = (
        NOTE,
        f"Each share is the mean of {len(days)} real days of arrivals.",
        "The paper's row of 106 % has 108 % of the tasks of its row of 100 %, and 107.4 % of their "
        "use; here it is 106 %.",
    )
    return Reproduction("masb-google-capacity", title, tuple(rows), (figure,), notes)


def _list_shares(what: str, paper: Mapping[float, float], here: Mapping[float, float]) -> list[Row]:
    return [
        Row(
            f"{what} {size:.0%}: overloaded nodes",
            percent(paper[size]) if size in paper else None,
            percent(share),
            holds=is_like_overload(share, paper[size]) if size in paper else None,
        )
        for size, share in here.items()
    ]


def _judge_filled(label: str, here: Sequence[float]) -> list[Row]:
    """Proportionally and disproportionally filled nodes at one size."""
    return [
        Row(
            f"{label}: {NAMES[kind]} nodes",
            percent(paper),
            percent(here[kind]),
            holds=is_like_share(here[kind], paper),
        )
        for kind, paper in zip((PA, DA), PA_DA[label], strict=True)
    ]


def _judge_crossing(
    what: str,
    paper: Mapping[float, float],
    shares_at: Mapping[float, float],
    ends: tuple[float, float],
) -> list[Row]:
    """Where the limit is passed, between two rows of the paper, and beside the paper's own point
    between its rows, which may be a step of its table away."""
    at, theirs = find_crossing(shares_at), find_crossing(paper)
    assert theirs is not None
    low, high = ends
    first, second, *_ = paper
    words = "not within what was run" if at is None else f"{at:.1%}"
    quantity = f"{what} at which {LIMIT:.1%} are overloaded"
    return [
        Row(
            f"{quantity}, within {low:.0%} and {high:.0%}",
            f"within {low:.0%} and {high:.0%}",
            words,
            holds=at is not None and low <= at <= high,
        ),
        Row(
            f"{quantity}, beside the paper's interpolated",
            f"{theirs:.1%}",
            words,
            holds=at is not None and abs(at - theirs) <= abs(second - first),
        ),
    ]
