"""Figures that can be compared between architectures, and runs that begin inside a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.simulation.stories import HEADER, Story

from murmuration.base.errors import InputError
from murmuration.simulation.engine import run as engine
from murmuration.simulation.results import invariants
from murmuration.simulation.results import summary as results
from murmuration.simulation.scenarios import scenario as sc


@pytest.mark.parametrize("kind", ["monolithic", "partitioned", "offers", "shared-state"])
def test_a_claim_under_decision_is_no_allocation(kind: str, tmp_path: Path) -> None:
    """One job that is decided for half of the run and runs for the other half: whoever decides, its
    four nodes are idle until the commit."""
    story = Story(tmp_path, nodes=8, cpu=4, seconds=100.0)
    story.job("only", "w", tasks=4, cpu=4.0)
    ended = story.run(kind, job_time_s=50.0)
    idle = ended.summary["cluster"]["allocation_types"]["idle"]
    # 85 of the 169 samples (0 to 100 s) are taken until the commit at 50 s.
    assert ended["only"]["scheduled_s"] == pytest.approx(50.0, abs=0.5)
    assert idle == pytest.approx((8 * 85 + 4 * 84) / 169, abs=0.1)


def test_means_say_of_how_many_jobs_they_are(tmp_path: Path) -> None:
    story = Story(tmp_path, nodes=2, cpu=4)
    story.job("small", "a", cpu=1.0)
    story.job("other", "b", cpu=1.0)
    story.job("large", "a", tasks=8, cpu=1.0)
    ended = story.run("partitioned")
    figures = ended.summary["workloads"]["a"]
    assert (figures["jobs_submitted"], figures["jobs_abandoned"]) == (2, 1)
    assert (figures["jobs_not_started"], figures["wait_full_jobs"]) == (1, 1)
    assert (figures["tasks_submitted"], figures["tasks_left"]) == (9, 8)


def replay(folder: Path, jobs: list[str], **tables: Any) -> dict[str, Any]:
    path = folder / "jobs.csv"
    path.write_text("\n".join([HEADER, *jobs]) + "\n")
    return {
        "days": 100.0 / 86_400.0,
        "cluster": {"nodes": 10, "cpu": 4, "memory": "16G"},
        "workload": {"trace": str(path), **tables},
        "scheduler": {"kind": "partitioned"},
    }


def parts(run: engine.Run) -> dict[str, int]:
    """How many nodes each scheduler has."""
    owned = {each.name: each.rows for each in run.setup.schedulers}
    return {name: 0 if rows is None else int(rows.sum()) for name, rows in owned.items()}


def test_a_workload_without_jobs_gets_no_nodes(tmp_path: Path) -> None:
    tables = replay(tmp_path, ["a,batch,0,1,1,1,0", "b,service,500,1,1,1,0"])
    run = engine.prepare(sc.check(tables))
    assert parts(run) == {"batch": 10, "service": 0}
    tables["scheduler"]["partition"] = {"service": 0.5}
    assert parts(engine.prepare(sc.check(tables))) == {"batch": 5, "service": 5}


JOBS = ["old,w,0,1,2000,1,0", "past,w,900,1,50,1,0", "now,w,1000,1,5,1,0", "next,w,1030,1,5,1,0"]


@pytest.mark.parametrize(("initial", "names"), [(False, []), (True, ["old"])])
def test_a_run_begins_inside_its_trace(initial: bool, names: list[str], tmp_path: Path) -> None:
    tables = replay(tmp_path, JOBS, start_s=1000.0, initial=initial)
    run = engine.simulate(tables)
    table = results.job_table(run)
    assert table["job_id"].tolist() == [*names, "now", "next"]
    assert table["submit_s"].tolist() == [*[0.0] * len(names), 0.0, 30.0]
    if initial:
        assert run.setup.jobs.duration_s[0] == 1000.0
    invariants.check(run)


def test_nodes_are_as_they_were_when_the_run_begins(tmp_path: Path) -> None:
    events = tmp_path / "node_events.csv"
    lines = ["100,x,add,4,16", "200,node-0,remove,,", "1040,node-1,remove,,", "900,x,update,8,16"]
    events.write_text("time_s,node_id,event,cpu,mem_gb\n" + "\n".join(sorted(lines)) + "\n")
    tables = replay(tmp_path, JOBS, start_s=1000.0)
    tables["cluster"]["events"] = str(events)
    run = engine.prepare(sc.check(tables))
    assert int(run.world.state["nodes"][0]) == 10
    assert run.world.total[run.setup.nodes.names.index("x"), 0] == 8_000_000
    assert (run.world.total[run.setup.nodes.names.index("node-0")] == 0).all()
    engine.advance(run)
    invariants.check(run)
    assert int(run.world.state["nodes"][0]) == 9


def test_a_start_before_the_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"workload\.start_s"):
        sc.check(replay(tmp_path, JOBS, start_s=-1.0))
