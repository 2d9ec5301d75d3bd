"""An auto-scaling run, added up again: its time series and its summary from the lives of single
requests and nodes.

Two things happen at one time in this order: requests end, nodes crash, the sample is taken, nodes
are ordered, come and leave, requests arrive. So a sample counts an end or a crash at its own time,
and nothing else of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from murmuration.base import files
from murmuration.base.arrays import Column
from murmuration.base.errors import InputError
from murmuration.experiments.audit.folder import Columns, Flags, Floats, Integers, Texts, read_table
from murmuration.experiments.runs import Summary
from murmuration.simulation.autoscale.scenario import AutoscaleScenario, workload

#: At most so many samples, unless the scenario says how many.
SAMPLES = 4000
#: The summary tells response times to the middle of a step of this ratio, from a millisecond on.
STEP, SHORTEST_S = 1.07, 1e-3
#: The analysis of one cycle: the change of workload, and how sure it is to be.
CHANGE, SURE = 1.5, 0.99
Figures = dict[str, float | None]
Series = Mapping[str, Column]


@dataclass(frozen=True)
class RequestLives:
    """One request each; `node` is a number of a node, −1 where it came to none. NaN: it has not
    started, or not ended."""

    number: Integers
    node: Integers
    issued: Floats
    takes: Floats
    start: Floats
    end: Floats
    hops: Integers
    why: Texts

    @property
    def admitted(self) -> Flags:
        return np.asarray(self.why != "rejected")

    def ends(self, why: str) -> Flags:
        return np.asarray(self.why == why)


@dataclass(frozen=True)
class NodeLives:
    """One node each. `ordered` is −∞ for those that were there from the start, and so is their
    `up`; what has not happened yet is ∞."""

    number: Integers
    kind: Integers
    ordered: Floats
    up: Floats
    left: Floats
    gone: Floats
    crashed: Flags

    @property
    def removed(self) -> Flags:
        """Whether a node left of its own."""
        return np.asarray(np.isfinite(self.left) & ~self.crashed)


@dataclass(frozen=True)
class RecordedScaling:
    """Everything a recorded auto-scaling run left behind."""

    path: Path
    scenario: AutoscaleScenario
    summary: Summary
    series: Series
    requests: RequestLives
    nodes: NodeLives
    refused: int

    @property
    def horizon(self) -> float:
        return self.scenario.seconds or self.rates[0]

    @cached_property
    def rates(self) -> tuple[float, Floats, Floats]:
        """The end of the workload, when its rate changes, and to what."""
        rates = workload(self.scenario, str(self.path))
        return rates.end_s, rates.time_s, rates.rate

    @property
    def capacity(self) -> Integers:
        """Of each node."""
        return np.array([kind.capacity for kind in self.scenario.autoscaler.type])[self.nodes.kind]

    @property
    def price(self) -> Floats:
        """Of each node, an hour."""
        return np.array([kind.price for kind in self.scenario.autoscaler.type])[self.nodes.kind]


def read_scaling(path: Path, scenario: AutoscaleScenario) -> RecordedScaling:
    """Read a run's folder; one sentence if it was not recorded."""
    if not (path / "requests.parquet").exists():
        raise InputError(
            f"{path}: expected a run made with --detail; there is no requests.parquet in it"
        )
    nodes = read_table(path / "nodes.parquet")
    refused = nodes["why"] == "refused"
    return RecordedScaling(
        path=path,
        scenario=scenario,
        summary=files.read_json(path / "summary.json"),
        series=read_table(path / "series.parquet"),
        requests=_requests(read_table(path / "requests.parquet")),
        nodes=_nodes({key: column[~refused] for key, column in nodes.items()}, scenario),
        refused=int(nodes["orders"][refused].sum()),
    )


def _requests(columns: Columns) -> RequestLives:
    order = np.argsort(columns["request"], kind="stable")
    names = ("request", "node", "issued_s", "takes_s", "start_s", "end_s", "hops", "why")
    return RequestLives(*(columns[name][order] for name in names))


def _nodes(columns: Columns, scenario: AutoscaleScenario) -> NodeLives:
    names = [kind.name for kind in scenario.autoscaler.type]
    if strange := set(columns["type"].tolist()) - set(names):
        raise InputError(f"nodes.parquet: {min(strange)!r} is no type of the scenario")
    first = np.isnan(columns["ordered_s"])

    def known(name: str) -> Floats:
        return np.where(np.isnan(columns[name]), np.inf, columns[name])

    return NodeLives(
        number=columns["node"],
        kind=np.array([names.index(name) for name in columns["type"]], dtype=np.int64),
        ordered=np.where(first, -np.inf, columns["ordered_s"]),
        up=np.where(first, -np.inf, known("up_s")),
        left=known("left_s"),
        gone=known("gone_s"),
        crashed=columns["why"] == "crashed",
    )


def sample_times(run: RecordedScaling) -> Floats:
    """When samples are due: every so many whole seconds, from 0 to the horizon."""
    every = run.scenario.sample_s or max(1, math.ceil(run.horizon / SAMPLES))
    return np.arange(0.0, run.horizon + 1e-9, float(every))


def count_before(times: Floats, samples: Floats, weights: Column | None = None) -> Floats:
    """How many of the times, or what they weigh, are before each sample."""
    order = np.argsort(times, kind="stable")
    return _sum_first(weights, order, np.searchsorted(times[order], samples, side="left"))


def count_until(times: Floats, samples: Floats, weights: Column | None = None) -> Floats:
    """The same with what is at the time of the sample."""
    order = np.argsort(times, kind="stable")
    return _sum_first(weights, order, np.searchsorted(times[order], samples, side="right"))


def _sum_first(weights: Column | None, order: Integers, counts: Integers) -> Floats:
    """What the first so many weigh, in this order."""
    each = np.ones(len(order)) if weights is None else np.asarray(weights, dtype=np.float64)
    return np.asarray(np.concatenate([[0.0], np.cumsum(each[order])])[counts])


def recompute_series(run: RecordedScaling) -> dict[str, Floats]:
    """Every column of the time series."""
    times, (_, steps, rate) = sample_times(run), run.rates
    at = rate[np.searchsorted(steps, times, side="right") - 1]
    columns = {
        "time_s": times,
        "rate": at,
        **_node_series(run, times),
        **_requests_over(run, times),
    }
    scaler, work = run.scenario.autoscaler, at * run.scenario.requests.execution_s
    columns["optimum"] = work / scaler.target_load
    columns["band_low"] = work / (scaler.target_load + scaler.band)
    columns["band_high"] = work / (scaler.target_load - scaler.band)
    return columns


def _node_series(run: RecordedScaling, times: Floats) -> dict[str, Floats]:
    nodes, crashed = run.nodes, run.nodes.crashed

    def there(since: Floats, mine: Flags, weights: Column | None = None) -> Floats:
        """Of these nodes those with that behind them, and not out of service yet."""
        each = np.ones(len(mine)) if weights is None else weights
        gone = count_until(nodes.left[mine & crashed], times, each[mine & crashed])
        left = count_before(nodes.left[mine & ~crashed], times, each[mine & ~crashed])
        return count_before(since[mine], times, each[mine]) - left - gone

    every, ordered = np.ones(len(crashed), np.bool_), np.isfinite(nodes.ordered)
    live = there(nodes.up, every)
    columns = {
        "capacity": there(nodes.up, every, run.capacity),
        "nodes": live,
        "starting": there(nodes.ordered, every) - live,
        "leaving": count_before(nodes.left[nodes.removed], times)
        - count_until(nodes.gone[nodes.removed & (nodes.gone > nodes.left)], times)
        - count_before(nodes.gone[nodes.removed & (nodes.gone == nodes.left)], times),
        "cost": _cost(run, times),
        "added": count_before(nodes.ordered[ordered], times),
        "removed": count_before(nodes.left[nodes.removed], times),
    }
    for k, kind in enumerate(run.scenario.autoscaler.type):
        columns[f"nodes.{kind.name}"] = there(nodes.up, nodes.kind == k)
    return columns


def _cost(run: RecordedScaling, times: Floats) -> Floats:
    """What is paid for each node from its order until it is given back, or crashes: the price times
    the time since the order, less the price times the time since the end."""
    since, until = np.maximum(run.nodes.ordered, 0.0), run.nodes.gone

    def paid_after(moments: Floats) -> Floats:
        price = run.price[np.isfinite(moments)]
        moments = moments[np.isfinite(moments)]
        rent = count_until(moments, times, price)
        return (rent * times - count_until(moments, times, price * moments)) / 3600.0

    return paid_after(since) - paid_after(until)


def _requests_over(run: RecordedScaling, times: Floats) -> dict[str, Floats]:
    requests = run.requests
    done, lost = requests.ends("done"), requests.ends("lost")
    waited = requests.admitted
    started = ~np.isnan(requests.start)
    return {
        "arrived": count_before(requests.issued, times),
        "done": count_until(requests.end[done], times),
        "rejected": count_before(requests.issued[requests.ends("rejected")], times),
        "lost": count_until(requests.end[lost], times),
        "queued": count_before(requests.issued[waited], times)
        - count_until(requests.start[started], times)
        - count_until(requests.end[lost & ~started], times),
        "hops": count_before(requests.issued, times, requests.hops),
        "response_s": count_until(
            requests.end[done], times, requests.end[done] - requests.issued[done]
        ),
    }


def recompute_summary(run: RecordedScaling) -> Figures:
    """Every figure of `summary.json` by its dotted key."""
    series, nodes = recompute_series(run), run.nodes
    figures: Figures = {"seconds": run.horizon, **_request_figures(run), **_capacity(run, series)}
    figures |= {
        "nodes.mean": float(series["nodes"].mean()),
        "nodes.max": int(series["nodes"].max()),
        "nodes.added": int(np.isfinite(nodes.ordered).sum()),
        "nodes.removed": int(nodes.removed.sum()),
        "nodes.crashed": int(nodes.crashed.sum()),
        "nodes.refused": run.refused,
    }
    for kind in run.scenario.autoscaler.type:
        column = series[f"nodes.{kind.name}"]
        figures[f"types.{kind.name}.mean"] = float(column.mean())
        figures[f"types.{kind.name}.last"] = int(column[-1])
    total, done = float(series["cost"][-1]), figures["requests.done"]
    figures["cost.total"] = total
    figures["cost.per_million"] = total / done * 1e6 if done else None
    return figures | _one_cycle(run, round(float(series["nodes"].mean())))


def _request_figures(run: RecordedScaling) -> Figures:
    requests = run.requests
    arrived, done = len(requests.number), requests.ends("done")
    rejected = int(requests.ends("rejected").sum())
    figures: Figures = {
        "requests.arrived": arrived,
        "requests.done": int(done.sum()),
        "requests.rejected": rejected,
        "requests.lost": int(requests.ends("lost").sum()),
        "requests.in_flight": int(requests.ends("in flight").sum()),
        "requests.rejected_fraction": rejected / arrived if arrived else None,
        "requests.hops_mean": float(requests.hops.sum() / arrived) if arrived else None,
    }
    response = np.sort((requests.end - requests.issued)[done])
    figures["response_s.mean"] = float(response.mean()) if len(response) else None
    for share in (0.5, 0.95, 0.99):
        place = max(0, math.ceil(share * len(response)) - 1)
        figures[f"response_s.p{share * 100:.0f}"] = (
            middle_of_step(float(response[place])) if len(response) else None
        )
    return figures


def middle_of_step(seconds: float) -> float:
    """A response time as the summary tells it."""
    if seconds <= SHORTEST_S:
        return SHORTEST_S
    return float(SHORTEST_S * STEP ** (math.floor(math.log(seconds / SHORTEST_S, STEP)) + 0.5))


def _capacity(run: RecordedScaling, series: Mapping[str, Floats]) -> Figures:
    capacity, low, high = series["capacity"], series["band_low"], series["band_high"]
    scaler = run.scenario.autoscaler
    threshold = scaler.band / (scaler.target_load + scaler.band)
    extra = count_turns(capacity, threshold) - count_turns(series["optimum"], threshold)
    return {
        "capacity.mean": float(capacity.mean()),
        "capacity.max": float(capacity.max()),
        "capacity.optimum_mean": float(series["optimum"].mean()),
        "capacity.inside_fraction": float(((low <= capacity) & (capacity <= high)).mean()),
        "capacity.below_fraction": float((capacity < low).mean()),
        "capacity.above_fraction": float((capacity > high).mean()),
        "capacity.oscillations": max(0, extra),
    }


def count_turns(curve: Floats, threshold: float) -> int:
    """How often a curve turns round by more than this share of its last extreme. Where it first
    sets out is no turn."""
    way, extreme, legs = 0, float(curve[0]), 0
    for value in curve.tolist():
        if way * value > way * extreme:
            extreme = value
        elif abs(value - extreme) > threshold * max(extreme, 1e-9):
            way, extreme, legs = (1 if value > extreme else -1), value, legs + 1
    return max(0, legs - 1)


def _one_cycle(run: RecordedScaling, count: int) -> Figures:
    """The analysis of one cycle for as many equal nodes."""
    nodes, target = max(1, count), run.scenario.autoscaler.target_load
    band = run.scenario.autoscaler.band
    figures: Figures = {"one_cycle.nodes": nodes, "one_cycle.probability": SURE}
    for name, load in (("up", target * CHANGE), ("down", target / CHANGE)):
        distance, odds = _after_one_cycle(nodes, load, target)
        sure = 1.0 if abs(load - target) < band else float(odds[distance <= band + 1e-12].sum())
        figures[f"one_cycle.inside_{name}"] = min(1.0, sure)
        order = np.argsort(distance, kind="stable")
        enough = np.searchsorted(np.cumsum(odds[order]), SURE - 1e-12)
        limit = abs(load - target)
        figures[f"one_cycle.smallest_band_{name}"] = (
            min(limit, float(distance[order][enough])) if enough < len(order) else limit
        )
    return figures


def _after_one_cycle(nodes: int, load: float, target: float) -> tuple[Floats, Floats]:
    """How far from the target the load may be once every node has acted once, and the odds: each
    leaves, or adds one more, with the same probability, for itself."""
    wish = (load - target) / target
    whole = max(0, math.floor(wish))
    chance = wish - whole if wish > 0 else -wish
    acting = np.arange(nodes + 1)
    after = nodes * (1 + whole) + acting if wish > 0 else nodes - acting
    with np.errstate(divide="ignore"):
        distance = np.abs(np.where(after > 0, nodes * load / after, np.inf) - target)
        logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, nodes + 1)))])
        ways = logs[-1] - logs - logs[::-1]
        odds = np.exp(ways + acting * math.log(chance) + (nodes - acting) * math.log1p(-chance))
    return distance, odds
