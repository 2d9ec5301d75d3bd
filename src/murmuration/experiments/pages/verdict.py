"""What a comparison comes down to: who waits least, and each scheduler against the first one.

Runs with the same seed have the same jobs, so schedulers are compared seed by seed: what a lucky or
unlucky draw of jobs does to both cancels in the difference. The interval is Student's, over the
differences of the seeds; with one seed there is none, and the sentence says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from murmuration.experiments.runs import Summary
from murmuration.experiments.statistics import interval
from murmuration.reports.formats import human
from murmuration.reports.page import ReportTable

#: A figure of a run and of the reference with the same seed.
Pair = tuple[float | None, float | None]
#: The runs of each scheduler, one for each seed.
Groups = Mapping[str, Sequence[Summary]]
#: Per workload, and of the cluster: the key of a figure and what it is called in a sentence.
OF_WORKLOAD = {"wait_s_mean": "wait", "slowdown_mean": "slowdown"}
OF_CLUSTER = {
    "nodes_in_use_mean": "nodes in use",
    "fragmentation_mean": "fragmentation",
    "imbalance_mean": "imbalance",
    "migrations_per_min": "migrations",
    "cpu_h_lost": "work lost",
    "energy_kwh": "energy",
    "cost": "cost",
}
#: Nobody chooses a scheduler for less than half a percent.
NEGLIGIBLE = 0.005
#: From here on "three times" is easier to read than "200 % more".
FACTOR = 1.0
SHORTEST = "shortest wait"


@dataclass(frozen=True)
class Difference:
    """How a figure of one scheduler differs from the reference's, as a share of the latter."""

    name: str
    mean: float
    low: float | None
    high: float | None

    @property
    def is_equal(self) -> bool:
        """Nothing that these seeds can tell apart, or too little to matter."""
        if abs(self.mean) < NEGLIGIBLE:
            return True
        if self.low is None or self.high is None:
            return False
        return self.low <= 0.0 <= self.high


def judge(runs: Sequence[Summary]) -> list[str]:
    """How sure the comparison is, who waits least, one sentence for each scheduler but the first,
    and what is equal for all; the runs are of all schedulers and seeds."""
    certain, *rest = headlines(runs) or [""]
    if not certain:
        return []
    groups = _group(runs)
    sentences = [
        _sentence(groups, name, differences) for name, differences in _differences(groups).items()
    ]
    shortest = [line for line in rest if line.startswith(SHORTEST)]
    return [certain, *shortest, *sentences, *(line for line in rest if line not in shortest)]


def headlines(runs: Sequence[Summary]) -> list[str]:
    """The same without the sentences on each scheduler, where a table has them."""
    groups = _group(runs)
    if len(groups) < 2:
        return []
    first, reference = next(iter(groups.items()))
    equal = _equal_for_all(list(_differences(groups).values()))
    return [certainty(first, len(reference)), *_shortest_waits(groups), *equal]


def differences_table(runs: Sequence[Summary]) -> ReportTable | None:
    """How each scheduler differs from the first, a column for each figure in which some does."""
    groups = _group(runs)
    if len(groups) < 2:
        return None
    differences = _differences(groups)
    names = dict.fromkeys(d.name for each in differences.values() for d in each if not d.is_equal)
    rows: list[list[object]] = []
    for scheduler, each in differences.items():
        by_name = {d.name: d for d in each}
        cells = [_short(by_name[name]) if name in by_name else None for name in names]
        rows.append([scheduler, *cells])
    caption = f"Against {next(iter(groups))}, on the same jobs"
    several = len(next(iter(groups.values()))) > 1
    told = "no difference that these seeds can tell apart, or " if several else "a difference of "
    has_equal = any("=" in row for row in rows)
    note = f"=: {told}less than half a percent." if has_equal else ""
    return ReportTable(caption, ("scheduler", *names), rows, note) if names else None


def _short(difference: Difference) -> str:
    """`−78 %` or `7.7 ×`, with the ends of its interval."""
    if difference.is_equal:
        return "="
    mean, low, high = difference.mean, difference.low, difference.high
    if mean >= FACTOR:
        text = "∞" if mean == float("inf") else f"{1 + mean:.1f}\u00a0×"
        bounds = "" if low is None or high is None else f" ({1 + low:.1f}–{1 + high:.1f})"
        return f"{text}{bounds}"
    sign = "+" if mean > 0 else "−"
    bounds = "" if low is None or high is None else f" ± {_percent((high - low) / 2)}"
    return f"{sign}{_percent(abs(mean))}{bounds}\u00a0%"


def _group(runs: Sequence[Summary]) -> dict[str, list[Summary]]:
    groups: dict[str, list[Summary]] = {}
    for run in runs:
        groups.setdefault(run["scheduler"], []).append(run)
    return groups


def _differences(groups: Groups) -> dict[str, list[Difference]]:
    (_, reference), *others = groups.items()
    return {name: list(compare(group, reference)) for name, group in others}


def certainty(first: str, seeds: int) -> str:
    if seeds == 1:
        return f"Compared with {first}; one seed, so without intervals (--replicas 5 gives them)."
    return f"Compared with {first}, seed by seed; {seeds} seeds, 95 % intervals in brackets."


def _shortest_waits(groups: Groups) -> Iterator[str]:
    """For each workload the scheduler with the shortest mean wait, and those that equal it."""
    first = next(iter(groups.values()))
    several = len(first[0]["workloads"]) > 1
    for workload in first[0]["workloads"]:
        waits = {name: _waits(group, workload) for name, group in groups.items()}
        known = {name: wait for name, wait in waits.items() if None not in wait}
        if not known:
            continue
        best = min(known, key=lambda name: sum(known[name]))
        equal = [
            name
            for name in known
            if all(
                d.is_equal
                for d in difference_of("", list(zip(known[name], known[best], strict=True)))
            )
        ]
        mean = sum(known[best]) / len(known[best])
        what = f"{SHORTEST} of {workload}" if several else SHORTEST
        if len(equal) == len(known) and len(first) > 1:
            yield f"{what}: no difference that these seeds can tell"
            continue
        yield f"{what}: {', '.join(equal)} ({human(mean)} s)"


def _are_equal(figures: Sequence[float], others: Sequence[float]) -> bool:
    return all(d.is_equal for d in difference_of("", list(zip(figures, others, strict=True))))


def _waits(group: Sequence[Summary], workload: str) -> list[float]:
    return [run["workloads"][workload]["wait_s_mean"] for run in group]


def _sentence(groups: Groups, name: str, differences: Sequence[Difference]) -> str:
    runs, (first, reference) = groups[name], next(iter(groups.items()))
    unequal = [in_words(d) for d in differences if not d.is_equal]
    parts = [*_tell_unstarted(runs, reference), *(unequal or [f"no difference from {first}"])]
    return f"{name}: {'; '.join(parts)}"


def _equal_for_all(differences: Sequence[Sequence[Difference]]) -> Iterator[str]:
    """The figures in which nobody differs from the first."""
    unequal = {d.name for each in differences for d in each if not d.is_equal}
    equal = dict.fromkeys(d.name for each in differences for d in each if d.name not in unequal)
    if equal:
        yield f"no difference in {', '.join(equal)}"


def compare(runs: Sequence[Summary], reference: Sequence[Summary]) -> Iterator[Difference]:
    """The figures of both that can be compared, seed by seed."""
    several = len(runs[0]["workloads"]) > 1
    for workload in runs[0]["workloads"]:
        for key, name in OF_WORKLOAD.items():
            pairs = [
                (run["workloads"][workload][key], other["workloads"][workload][key])
                for run, other in zip(runs, reference, strict=True)
            ]
            yield from difference_of(f"{workload} {name}" if several else name, pairs)
    for key, name in OF_CLUSTER.items():
        pairs = [
            (run["cluster"].get(key), other["cluster"].get(key))
            for run, other in zip(runs, reference, strict=True)
        ]
        yield from difference_of(name, pairs)


def difference_of(name: str, pairs: Sequence[Pair]) -> Iterator[Difference]:
    """Nothing where a figure is missing, or where the reference is zero and no share can be
    given."""
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    if len(known) < len(pairs):
        return
    base = sum(b for _, b in known) / len(known)
    if base == 0.0:
        if any(a != 0.0 for a, _ in known):
            yield Difference(name, float("inf"), None, None)
        return
    shares = interval([(a - b) / base for a, b in known])
    assert shares["mean"] is not None
    yield Difference(name, shares["mean"], shares["low"], shares["high"])


def in_words(difference: Difference) -> str:
    """`batch wait 78 % less`, or `service wait 7.7 ×`."""
    name, mean, low, high = difference.name, difference.mean, difference.low, difference.high
    if mean == float("inf"):
        return f"{name} where the other has none"
    bounded = low is not None and high is not None
    if mean >= FACTOR:
        bounds = f" ({1 + low:.1f}–{1 + high:.1f})" if low is not None and high is not None else ""
        return f"{name} {1 + mean:.1f}\u00a0×{bounds}"
    text = f"{name} {_percent(abs(mean))}\u00a0% {'more' if mean > 0.0 else 'less'}"
    if not bounded:
        return text
    assert low is not None and high is not None
    near, far = sorted((abs(low), abs(high)))
    return f"{text} ({_percent(near)}–{_percent(far)}\u00a0%)"


def _percent(share: float) -> str:
    """Two digits, which is as many as anybody remembers; more only above a hundred."""
    percent = 100 * share
    return f"{percent:.0f}" if percent >= 9.95 else f"{percent:.1f}"


def _tell_unstarted(runs: Sequence[Summary], reference: Sequence[Summary]) -> list[str]:
    """Jobs that never ran come first: no other figure counts for much beside them. Those that came
    too late to start wait under every scheduler."""
    unstarted, jobs = _count(runs, "jobs_not_started"), _count(runs, "jobs_submitted")
    more = unstarted > _count(reference, "jobs_not_started")
    return [f"{unstarted:,} of {jobs:,} jobs never started"] if more else []


def _count(runs: Sequence[Summary], key: str) -> int:
    return sum(workload[key] for run in runs for workload in run["workloads"].values())
