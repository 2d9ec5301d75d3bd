"""What is measured: kept while it is told, forgotten when it is not, and drawn for all at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from murmuration.runtime.master.front.nodes import NodeColumns
from murmuration.runtime.master.settings import live_settings
from murmuration.runtime.master.usage import UsageMeter
from murmuration.runtime.options import MasterOptions
from murmuration.schedulers.central.master import CentralMaster
from murmuration.schedulers.central.messages import AgentJoined

NODES = ["n1", "n2", "n3"]


def update(meter: UsageMeter, node: str, usage: dict[str, tuple[float, int]], now: float) -> None:
    meter.update(node, usage, now, lambda run: run.startswith(node))


@settings(deadline=None)
@given(
    beats=st.lists(
        st.tuples(st.sampled_from(NODES), st.sets(st.integers(0, 4)), st.booleans()), max_size=30
    )
)
def test_a_meter_knows_what_each_node_told_last(beats: list[Any]) -> None:
    meter = UsageMeter()
    told: dict[str, set[str]] = {}
    for at, (node, numbers, is_lost) in enumerate(beats):
        runs = {f"{node}.{k}" for k in numbers}
        if is_lost:
            meter.disconnect(node)
            told.pop(node, None)
        else:
            update(meter, node, {run: (float(at), at) for run in runs}, float(at))
            told[node] = runs
            assert meter.nodes.get(node)["memory"] == at * len(runs)
        known = set().union(*told.values())
        assert set(meter.runs) == known
        assert set(meter.rates) <= known


def test_a_node_cannot_have_the_runs_of_another_forgotten() -> None:
    meter = UsageMeter()
    update(meter, "n1", {"n1.a": (1.0, 10)}, 1.0)
    update(meter, "n2", {"n1.a": (1.0, 10)}, 1.0)
    update(meter, "n2", {}, 2.0)
    assert "n1.a" in meter.runs


def test_all_nodes_are_drawn_as_they_were_measured() -> None:
    settings_, *_ = live_settings(MasterOptions(folder="x"))
    master, meter = CentralMaster(settings_, 1), UsageMeter()
    columns = NodeColumns(master, meter)
    rng = np.random.default_rng(3)
    expected: dict[str, tuple[float, float]] = {}
    for turn in range(30):
        name = f"n{rng.integers(8)}"
        if name not in master.nodes:
            master.handle(AgentJoined(name, name, 1, {"cpu": 8_000_000, "memory": 2**35}), 1.0)
        if rng.random() < 0.7:
            expected[name] = float(turn), float(rng.integers(2**35))
            meter.nodes.set(name, *expected[name])
        columns.tick([name])
        for row, node in enumerate(columns.names):
            cpu, memory = expected.get(node, (0.0, 0.0))
            assert columns.used[row].tolist() == [cpu * 1_000_000, memory]
