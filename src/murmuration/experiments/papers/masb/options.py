"""Section 9 of Sliwko and Getov: their future work, each as an option that is off by default,
with and without."""

from __future__ import annotations

from murmuration.experiments.papers.masb.google import NOTE, make_cell
from murmuration.experiments.papers.masb.tables import (
    MADE,
    cell,
    evenness,
    execute,
    on_runs,
    scale_cell,
    shares,
    type_bars,
)
from murmuration.experiments.result import Reproduction, ReproductionSettings, Row
from murmuration.experiments.specs import Tables, make_spec
from murmuration.reports.figures import Bars
from murmuration.schedulers.negotiation.messages import MobileTask
from murmuration.schedulers.negotiation.settings import NegotiationSettings
from murmuration.simulation.messages.negotiation.cluster import Arrival, NegotiatingCluster
from murmuration.simulation.messages.network import Crash, FaultSettings
from murmuration.simulation.scenarios import scenario as sc

KEY = "scheduler.negotiation"
#: A cell so empty that some nodes run nothing.
LIGHT = 0.1
#: Few nodes are idle even then, and how many differs from seed to seed.
LIGHT_SEEDS, LESS = 3, "light load"
OFFLOADING = 0.01
GIB = 2**30


def run(settings: ReproductionSettings) -> Reproduction:
    """Idle nodes always scored, stable nodes that off-load, and nodes that do not answer left out
    for a while."""
    base = cell(settings, days=0.5)
    rows, figure = compare_options(settings, base, scale_cell(base, load=LIGHT))
    title = "Section 9: what the paper leaves to do"
    rows += unanswered_rows()
    return Reproduction("masb-options", title, tuple(rows), (figure,), (MADE,))


def run_google(settings: ReproductionSettings) -> Reproduction:
    """The first two of them on Google's own cell."""
    rows, figure = compare_options(settings, make_cell(settings), make_cell(settings, load=LIGHT))
    title = "Section 9 on Google's own cell"
    return Reproduction("masb-google-options", title, tuple(rows), (figure,), (NOTE,))


def compare_options(
    settings: ReproductionSettings, base: Tables, light: Tables
) -> tuple[list[Row], Bars]:
    """A cell with and without stable nodes that off-load, and one of little load with and without
    idle nodes that are always scored."""
    specs = [
        make_spec("as published", base),
        make_spec("off-loading", sc.override(base, {f"{KEY}.proactive": OFFLOADING})),
    ]
    for seed in range(settings.seed, settings.seed + LIGHT_SEEDS):
        again = sc.override(light, {"seed": seed})
        shared = sc.override(again, {f"{KEY}.underused": 20})
        specs += [make_spec(f"{LESS}, seed {seed}", again)]
        specs += [make_spec(f"{LESS}, idle nodes shared, seed {seed}", shared)]
    summaries = execute(settings, specs)
    plain, eager = summaries["as published"], summaries["off-loading"]
    idle = {
        shared: [
            shares(run)[0]
            for label, run in summaries.items()
            if label.startswith(LESS) and ("shared" in label) == shared
        ]
        for shared in (False, True)
    }
    few, fewer = (sum(idle[shared]) / LIGHT_SEEDS for shared in (False, True))
    more = eager["migrations_per_min"] - plain["migrations_per_min"]
    judged = [
        Row(
            "PA to DA: with off-loading above without",
            "better",
            f"{evenness(eager):.2f} against {evenness(plain):.2f}",
            holds=evenness(eager) > evenness(plain),
        ),
        Row(
            f"migrations per minute that off-loading costs, at most {OFFLOADING:.0%} of the nodes",
            "bounded",
            round(more, 1),
            holds=more <= OFFLOADING * eager["nodes_mean"] * 1.1,
        ),
        Row(
            f"idle nodes at {LIGHT:.0%} of the load: fewer when they are always scored",
            "fewer",
            f"{fewer:.2%} against {few:.2%} (mean of {LIGHT_SEEDS})",
            holds=fewer < few,
        ),
    ]
    rows = [on_runs(row, summaries) for row in judged]
    return rows, type_bars("Nodes per allocation type", summaries)


def unanswered_rows() -> list[Row]:
    """Requests that nobody answers, message by message."""
    without, with_list = run_flapping(0), run_flapping(2)
    return [
        Row(
            "12 nodes, 4 of them mostly down: requests without an answer, with a list of those "
            "that do not",
            "fewer",
            f"{with_list['unanswered']:.0f} against {without['unanswered']:.0f}",
            holds=with_list["unanswered"] < 0.5 * without["unanswered"],
        ),
        Row(
            "tasks placed",
            "as many",
            f"{with_list['placed']:.0f} against {without['placed']:.0f}",
            holds=with_list["placed"] >= 0.98 * without["placed"],
        ),
    ]


def run_flapping(unanswered_max: int) -> dict[str, float]:
    """Tasks come all the time, and four of the twelve nodes are down most of the time; returns
    what agents counted."""
    nodes = {f"n{k}": (8_000_000, 16 * GIB) for k in range(12)}
    crashes = [
        Crash(float(at), f"n{k}", 120.0) for k in range(4) for at in range(30 + 10 * k, 3600, 150)
    ]
    tasks = [Arrival(MobileTask(f"t{k}", (100_000, GIB // 10)), 5.0 * k, 60.0) for k in range(700)]
    agents = NegotiatingCluster(
        nodes,
        tasks,
        NegotiationSettings(unanswered_max=unanswered_max),
        faults=FaultSettings(crashes=tuple(crashes)),
    )
    agents.run(3600.0)
    return agents.counts()
