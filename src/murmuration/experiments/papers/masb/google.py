"""Tables 3 to 6 on Google's own cell: tasks, requests and use of its cell state, and real days of
arrivals as replicates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from murmuration.cluster.allocation_types import DA, NAMES, OVERLOADED, PA, STA, TA
from murmuration.experiments.papers.masb.tables import (
    CELLS,
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
    share_bars,
    shares,
    type_bars,
)
from murmuration.experiments.replicates import interval, is_above, is_below
from murmuration.experiments.result import Reproduction, ReproductionSettings, Row
from murmuration.experiments.specs import Tables, make_spec
from murmuration.simulation.scenarios import scenario as sc

PRESET = "masb-google"
#: The made cell of the same size.
CELL = "masb-12k"
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
#: A size beyond the paper's, where the limit may be passed.
FEWER_STILL = (0.96,)
#: What more load does to nodes of a kind (7.5 on figure 11, period B): fewer of them, or more.
UNDER_LOAD = {PA: "fewer", STA: "more", TA: "more"}
#: Rises a minute of Google's own machines in the one hour of which each machine's use is published
#: (2011-05-16, from midnight on, every five minutes), their use scaled to the paper's totals. One
#: hour stands for all, so a factor.
RECORDED_RISES = {0.05: 589, 0.10: 343, 0.15: 208, 0.20: 141, 0.25: 89}
RECORDED_FACTOR = 1.5
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
    rows += [*judge_spikes(runs), *_judge_recorded(runs)]
    rows = [on_runs(row, summaries) for row in rows]
    figure = type_bars("Nodes per allocation type", summaries)
    title = "Table 3 on Google's own cell: nodes per allocation type"
    return Reproduction("masb-google", title, tuple(rows), (figure,), (NOTE,))


def _judge_recorded(runs: Sequence[Summary]) -> list[Row]:
    """Rises beside those of the machines themselves: the changes of use are made up, and this says
    whether they are like the real ones."""
    rows = []
    for k, (threshold, recorded) in enumerate(RECORDED_RISES.items()):
        rates = [run["spikes_per_min"][k] * CELLS[CELL] / run["nodes_mean"] for run in runs]
        here = interval(rates).mean
        like = 1.0 / RECORDED_FACTOR <= here / recorded <= RECORDED_FACTOR
        quantity = f"rises of more than {threshold:.0%} per minute, beside the recorded hour"
        rows.append(Row(quantity, recorded, round(here, 1), holds=like))
    return rows


def _seen(run: Summary) -> float:
    return float((run["overloaded_seen"] or 0.0) / run["nodes_mean"])


def _report(quantity: str, paper: str | None, values: Sequence[float], words: str) -> Row:
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
    """Tables 4 and 5: more load, and fewer nodes; shares are means over all real days, as overload
    is rare on most of them and frequent on a few."""
    loads = {x: f"load {x:.0%}" for x in LOADS}
    sizes = {x: "load 100%" if x == 1.0 else f"nodes {x:.0%}" for x in (*SIZES, *FEWER_STILL)}
    cells = {label: {"load": x} for x, label in loads.items()}
    cells |= {label: {"nodes": x} for x, label in sizes.items() if x != 1.0}
    summaries = execute(
        settings,
        [
            make_spec(f"{label}, day {day}", make_cell(settings, day, **size))
            for day in REAL_DAYS
            for label, size in cells.items()
        ],
    )
    by_day = {
        label: [shares(summaries[f"{label}, day {day}"]) for day in REAL_DAYS] for label in cells
    }

    def on_sizes(row: Row, labels: Iterable[str]) -> Row:
        """A row rests on the runs at these sizes, and is not judged if they left jobs out."""
        names = [f"{label}, day {day}" for label in labels for day in REAL_DAYS]
        return on_runs(row, summaries, *names)

    rows = []
    for what, word, labels, paper, ends in (
        ("load", "load", loads, LOADS, CROSSING_LOAD),
        ("nodes", "share of nodes", sizes, SIZES, CROSSING_NODES),
    ):
        days = {x: _of_kind(by_day[label], OVERLOADED) for x, label in labels.items()}
        here = {x: interval(values).mean for x, values in days.items()}
        listed = zip(_list_shares(what, paper, days), labels.values(), strict=True)
        rows += [on_sizes(row, [label]) for row, label in listed]
        around = [labels[x] for x in find_neighbours(here)]
        rows += [on_sizes(row, around) for row in _judge_crossing(word, paper, here, ends)]
    rows += [on_sizes(row, [each]) for each in PA_DA for row in _judge_filled(each, by_day[each])]
    first, *_, last = loads.values()
    rows += [on_sizes(row, [first, last]) for row in _judge_kinds(by_day[first], by_day[last])]
    means = {
        label: [interval(_of_kind(days, kind)).mean for kind in range(len(NAMES))]
        for label, days in by_day.items()
    }
    figure = share_bars("Nodes per allocation type, mean of all days", means)
    title = "Tables 4 and 5 on Google's own cell: more load, fewer nodes"
    return Reproduction(
        "masb-google-capacity", title, tuple(rows), (figure,), _notes(by_day, loads, sizes)
    )


def _of_kind(days: Sequence[Sequence[float]], kind: int) -> list[float]:
    """The share of nodes of a kind, day by day."""
    return [day[kind] for day in days]


def _notes(
    by_day: Mapping[str, Sequence[Sequence[float]]],
    loads: Mapping[float, str],
    sizes: Mapping[float, str],
) -> tuple[str, ...]:
    """What the rows rest on; also where the limit is passed without the fullest day, which weighs
    much in the means."""
    last = _of_kind(by_day[list(loads.values())[-1]], OVERLOADED)
    fullest = last.index(max(last))

    def crossing(labels: Mapping[float, str]) -> str:
        means = {}
        for x, label in labels.items():
            days = _of_kind(by_day[label], OVERLOADED)
            means[x] = interval(days[:fullest] + days[fullest + 1 :]).mean
        return _say(find_crossing(means))

    return (
        NOTE,
        f"Each share is the mean of {len(REAL_DAYS)} real days of arrivals, with its 95 % "
        "interval: on most days hardly a node is overloaded, on a few of them many.",
        f"Without the fullest of them, day {REAL_DAYS[fullest]}, the limit is passed at "
        f"{crossing(loads)} of the load, and of the nodes at {crossing(sizes)}.",
        "The paper's row of 106 % has 108 % of the tasks of its row of 100 %, and 107.4 % of their "
        "use; here it is 106 %.",
    )


def _list_shares(
    what: str, paper: Mapping[float, float], here: Mapping[float, Sequence[float]]
) -> list[Row]:
    rows = []
    for size, days in here.items():
        theirs = paper.get(size)
        row = _report(
            f"{what} {size:.0%}: overloaded nodes",
            None if theirs is None else percent(theirs),
            days,
            "{:.2%}",
        )
        mean = interval(days).mean
        rows.append(_decide(row, None if theirs is None else is_like_overload(mean, theirs)))
    return rows


def _judge_filled(label: str, here: Sequence[Sequence[float]]) -> list[Row]:
    """Proportionally and disproportionally filled nodes at one size."""
    rows = []
    for kind, paper in zip((PA, DA), PA_DA[label], strict=True):
        days = _of_kind(here, kind)
        row = _report(f"{label}: {NAMES[kind]} nodes", percent(paper), days, "{:.2%}")
        rows.append(_decide(row, is_like_share(interval(days).mean, paper)))
    return rows


def _judge_kinds(before: Sequence[Sequence[float]], after: Sequence[Sequence[float]]) -> list[Row]:
    """What 7.5 says of more load, on the differences of the same days: it holds if their whole
    interval lies on its side."""
    rows = []
    for kind, words in UNDER_LOAD.items():
        change = [
            100.0 * (late - early)
            for early, late in zip(_of_kind(before, kind), _of_kind(after, kind), strict=True)
        ]
        holds = is_below(0.0, change) if words == "fewer" else is_above(0.0, change)
        row = _report(
            f"at the highest load {words} {NAMES[kind]} nodes", words, change, "{:+.2f} points"
        )
        rows.append(_decide(row, holds))
    return rows


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
    words = _say(at)
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


def _say(crossing: float | None) -> str:
    return "not within what was run" if crossing is None else f"{crossing:.1%}"
