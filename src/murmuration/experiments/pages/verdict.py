"""What a comparison comes down to: each scheduler against the first one, in a sentence.

Runs with the same seed have the same jobs, so schedulers are compared seed by seed: what a lucky or
unlucky draw of jobs does to both cancels in the difference. The interval is Student's, over the
differences of the seeds; with one seed there is none, and the sentence says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from murmuration.experiments.runs import Summary
from murmuration.experiments.statistics import interval

#: A figure of a run and of the reference with the same seed.
Pair = tuple[float | None, float | None]
#: Per workload, and of the cluster: the key of a figure and what it is called in a sentence.
OF_WORKLOAD = {"wait_s_mean": "wait", "slowdown_mean": "slowdown"}
OF_CLUSTER = {
    "nodes_in_use_mean": "nodes in use",
    "fragmentation_mean": "fragmentation",
    "imbalance_mean": "imbalance",
    "migrations_per_min": "migrations",
}
#: A difference that would be printed as 0.0 %.
NEGLIGIBLE = 0.0005


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
            return self.mean == 0.0
        return self.low <= 0.0 <= self.high


def judge(runs: Sequence[Summary]) -> list[str]:
    """One sentence for each scheduler but the first; the runs are of all schedulers and seeds."""
    groups: dict[str, list[Summary]] = {}
    for run in runs:
        groups.setdefault(run["scheduler"], []).append(run)
    (first, reference), *others = groups.items() if groups else [("", [])]
    return [_sentence(name, group, first, reference) for name, group in others]


def _sentence(name: str, runs: Sequence[Summary], first: str, reference: Sequence[Summary]) -> str:
    differences = list(compare(runs, reference))
    unequal = [_words(d) for d in differences if not d.is_equal]
    equal = [d.name for d in differences if d.is_equal]
    seeds = f"{len(runs)} seeds" if len(runs) > 1 else "one seed, so without an interval"
    parts = [*_unstarted(runs), *unequal]
    if equal:
        parts.append(("equal in " if unequal else "no difference in ") + ", ".join(equal))
    return f"{name} against {first} ({seeds}): {'; '.join(parts)}"


def compare(runs: Sequence[Summary], reference: Sequence[Summary]) -> Iterator[Difference]:
    """The figures of both that can be compared, seed by seed."""
    several = len(runs[0]["workloads"]) > 1
    for workload in runs[0]["workloads"]:
        for key, name in OF_WORKLOAD.items():
            pairs = [
                (run["workloads"][workload][key], other["workloads"][workload][key])
                for run, other in zip(runs, reference, strict=True)
            ]
            yield from _difference(f"{workload} {name}" if several else name, pairs)
    for key, name in OF_CLUSTER.items():
        pairs = [
            (run["cluster"][key], other["cluster"][key])
            for run, other in zip(runs, reference, strict=True)
        ]
        yield from _difference(name, pairs)


def _difference(name: str, pairs: Sequence[Pair]) -> Iterator[Difference]:
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


def _words(difference: Difference) -> str:
    if difference.mean == float("inf"):
        return f"{difference.name} where the other has none"
    more = "more" if difference.mean > 0.0 else "less"
    text = f"{abs(difference.mean):.1%} {more} {difference.name}"
    if difference.low is None or difference.high is None:
        return text
    low, high = sorted((abs(difference.low), abs(difference.high)))
    return f"{text} (95 % interval {low:.1%} to {high:.1%})"


def _unstarted(runs: Sequence[Summary]) -> list[str]:
    """Jobs that never ran come first: no other figure counts for much beside them."""
    workloads = [workload for run in runs for workload in run["workloads"].values()]
    unstarted = sum(workload["jobs_not_started"] for workload in workloads)
    jobs = sum(workload["jobs_submitted"] for workload in workloads)
    return [f"{unstarted:,} of {jobs:,} jobs never started"] if unstarted else []
