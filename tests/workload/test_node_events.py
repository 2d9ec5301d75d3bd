"""Nodes that come and go: files of events, groups that join and leave, and what is left when
nothing changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.workload.conftest import Write

from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.simulation.engine.setup import node_changes
from murmuration.simulation.scenarios import scenario as sc
from murmuration.simulation.scenarios.inputs import make_events, make_nodes
from murmuration.workload.detect import open_trace
from murmuration.workload.node_events import absent, drop_redundant, rows_of, sort_events
from murmuration.workload.nodes import ADD, REMOVE, UPDATE, NodeEvents, NodeTable

Row = tuple[float, str, int, int]


def told(events: NodeEvents | None) -> list[tuple[float, str, int, float]]:
    """Time, node, kind and CPUs of each event."""
    assert events is not None
    cpus = (events.total[:, 0] / 1e6).tolist()
    return list(
        zip(
            events.time_s.tolist(), events.node_id.tolist(), events.kind.tolist(), cpus, strict=True
        )
    )


def cluster(tables: Mapping[str, object]) -> sc.ClusterSettings:
    return sc.check({"cluster": tables, "workload": {"batch": {"arrivals_per_s": 1.0}}}).cluster


def test_a_file_of_events_for_nodes_that_are_alike(write: Write) -> None:
    path = write(
        "events.csv",
        "time_s,node_id,event,cpu,mem_gb,rack\n"
        "60,node-1,remove,,,\n"
        "120,node-1,add,,,\n"
        "30,big,add,64,256,7\n"
        "90,node-0,update,2,,\n"
        "200,big,remove,,,\n",
    )
    nodes = make_nodes(cluster({"nodes": 2, "cpu": 4, "memory": "16G", "events": str(path)}))
    events = make_events(
        cluster({"nodes": 2, "cpu": 4, "memory": "16G", "events": str(path)}), nodes
    )
    assert nodes.names == ("node-0", "node-1", "big")
    assert nodes.total.tolist()[2] == [64_000_000, 256 * 10**9]
    assert nodes.attributes[2] == {"rack": 7.0}
    assert told(events) == [
        (30, "big", ADD, 64),
        (60, "node-1", REMOVE, 4),
        (90, "node-0", UPDATE, 2),
        (120, "node-1", ADD, 4),
        (200, "big", REMOVE, 64),
    ]
    assert events is not None
    assert events.total[2].tolist() == [2_000_000, 16 * 10**9]
    assert absent(events, nodes.names).tolist() == [False, False, True]
    assert rows_of(events, nodes.names).tolist() == [2, 1, 0, 1, 2]


def test_groups_join_and_leave() -> None:
    group = {"cpu": 4, "memory": "16G"}
    tables: Mapping[str, object] = {
        "group": [{"count": 2, **group}, {"count": 1, "join_s": 60, "leave_s": 90, **group}]
    }
    nodes = make_nodes(cluster(tables))
    assert len(nodes) == 3
    events = make_events(cluster(tables), nodes)
    assert told(events) == [(60, "node-2", ADD, 4), (90, "node-2", REMOVE, 4)]
    assert make_events(cluster({"group": [{"count": 2, **group}]}), nodes) is None


def test_what_the_nodes_have_changes_with_them() -> None:
    """Two nodes of 4 CPU, and a third from 60 to 90 s: over 120 s that is 9 CPU."""
    group = {"cpu": 4, "memory": "16G"}
    given = cluster(
        {"group": [{"count": 2, **group}, {"count": 1, "join_s": 60, "leave_s": 90, **group}]}
    )
    nodes = make_nodes(given)
    changes = node_changes(nodes, make_events(given, nodes))
    assert changes.capacity(np.array([0.0, 59.0, 60.0, 89.0, 90.0]))[:, 0].tolist() == [
        8e6,
        8e6,
        12e6,
        12e6,
        8e6,
    ]
    assert changes.capacity_mean(120.0).tolist() == [9e6, 36e9]
    assert changes.capacity_mean(75.0)[0] == pytest.approx(8.8e6)
    assert node_changes(nodes, None).capacity_mean(120.0)[0] == 12e6


@pytest.mark.parametrize(
    ("group", "sentence"),
    [
        ({"join_s": -1}, "cluster.group[0].join_s: expected a number from 0, got -1"),
        ({"join_s": 5, "leave_s": 5}, "cluster.group[0].leave_s: expected a number above 5, got 5"),
    ],
)
def test_times_of_a_group_make_sense(group: dict[str, float], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        cluster({"group": [{"count": 1, "cpu": 4, "memory": "16G", **group}]})
    assert str(caught.value) == f"scenario: {sentence}"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("5,node-0,vanish,,\n", " line 2: event: expected add, remove, update, got 'vanish'"),
        (
            "-5,node-0,remove,,\n",
            " line 2: time_s: expected a finite number that is not negative, got '-5'",
        ),
        (
            "5,node-0,update,nan,\n",
            " line 2: cpu: expected a finite number from 0 to 1125899906, got 'nan'",
        ),
        (
            "5,other,remove,,\n",
            ": expected node 'other' to be in the node table, or to be added with a size",
        ),
        (
            "5,other,add,,\n",
            ": expected node 'other' to be in the node table, or to be added with a size",
        ),
    ],
)
def test_events_that_make_no_sense(write: Write, text: str, sentence: str) -> None:
    path = write("events.csv", f"time_s,node_id,event,cpu,mem_gb\n{text}")
    with pytest.raises(InputError) as caught:
        make_nodes(cluster({"nodes": 1, "events": str(path)}))
    assert str(caught.value) == f"{path}{sentence}"


def test_a_scenario_finds_its_events_beside_itself(write: Write) -> None:
    write("events.csv", "time_s,node_id,event\n5,node-0,remove\n")
    path = write(
        "s.toml",
        '[cluster]\nnodes = 1\nevents = "events.csv"\n[workload.a]\narrivals_per_s = 1.0\n',
    )
    scenario = sc.check(sc.load(str(path)))
    assert scenario.cluster.events == str(path.parent / "events.csv")
    assert sc.names_files(scenario)


NAMES = ("a", "b", "c")
ROWS = st.lists(
    st.tuples(
        st.integers(0, 5).map(float), st.sampled_from(NAMES), st.integers(0, 2), st.integers(0, 3)
    ),
    max_size=12,
)


@given(ROWS)
def test_events_without_redundant_ones_lead_to_the_same_nodes(rows: list[Row]) -> None:
    """A plain reader of the raw events, asked after every instant, sees what the effective events
    lead to."""
    table = NodeTable(Resources(), NAMES, np.full((3, 2), 2, dtype=np.int64), ({},) * 3)
    raw = sort_events(_events(rows))
    kept = drop_redundant(raw, table)
    late = {name for name in NAMES if _first(raw, name) == (ADD, True)}
    assert absent(kept, NAMES).tolist() == [name in late for name in NAMES]
    for time_s in range(7):
        plain = {name: 2 for name in NAMES if name not in late}
        size = dict.fromkeys(NAMES, 2)
        for when, name, kind, cpu in _rows(raw):
            if when <= time_s:
                size[name] = cpu if kind != REMOVE else size[name]
                if kind == ADD or (kind == UPDATE and name in plain):
                    plain[name] = size[name]
                elif kind == REMOVE:
                    plain.pop(name, None)
        exact = {name: 2 for name in NAMES if name not in late}
        for when, name, kind, cpu in _rows(kept):
            if when <= time_s:
                # What the effective events promise is what makes this reader so short.
                assert (name in exact) == (kind != ADD)
                assert kind != UPDATE or exact[name] != cpu
                exact[name] = cpu
                if kind == REMOVE:
                    del exact[name]
        assert exact == plain


def _events(rows: list[Row]) -> NodeEvents:
    total = np.array([[row[3]] * 2 for row in rows], dtype=np.int64).reshape(len(rows), 2)
    return NodeEvents(
        Resources(),
        np.array([row[0] for row in rows], dtype=np.float64),
        np.array([row[1] for row in rows], np.str_),
        np.array([row[2] for row in rows], dtype=np.int64),
        total,
        ({},) * len(rows),
    )


def _rows(events: NodeEvents) -> list[Row]:
    columns = (events.time_s, events.node_id, events.kind, events.total[:, 0])
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _first(events: NodeEvents, name: str) -> tuple[int, bool]:
    """Kind of the first event of a node, and whether it is after the start."""
    return next(
        ((kind, when > 0) for when, who, kind, _ in _rows(events) if who == name), (UPDATE, False)
    )


def test_the_cell_of_2019_comes_and_goes(data: Path) -> None:
    """Counted by another reader when the data was collected: 10,001 nodes, 9,526 of them there at
    time 0."""
    path = str(data / "google2019" / "cell_a_machine_events.csv.xz")
    given = cluster({"trace": path, "events": path})
    nodes = make_nodes(given)
    events = make_events(given, nodes)
    assert events is not None
    assert (len(nodes), int(absent(events, nodes.names).sum())) == (10_001, 10_001 - 9_526)
    raw = open_trace(path).events
    assert raw is not None
    # The trace is clean: all but the nodes there at the start and updates that say nothing new is
    # kept.
    assert (events.kind == REMOVE).sum() == (raw.kind == REMOVE).sum() == 17_941
    assert (events.kind == ADD).sum() == 27_777 - 9_526
    assert nodes.total.min() > 0
