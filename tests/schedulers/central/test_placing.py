"""One round of the job manager: which rows the rules of a job leave, and what a plan deducts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from murmuration.base.random import generator
from murmuration.base.resources import Resources
from murmuration.cluster.constraints import Attributes
from murmuration.placement.registry import resolve
from murmuration.schedulers.central.jobs import JobRecord, JobTable
from murmuration.schedulers.central.messages import SubmitJob
from murmuration.schedulers.central.orders import requirements
from murmuration.schedulers.central.placing import Planned, Round, Rows, is_simple
from murmuration.schedulers.central.queue.ordering import PlainQueue
from murmuration.schedulers.queues.discipline import QueueSettings
from murmuration.workload.job_spec import JobSpec

CPU, GB = 1_000_000, 10**9
NAMES = ("a", "b", "c", "d")
ATTRIBUTES: tuple[Attributes, ...] = (
    {"zone": "x", "host": "h1"},
    {"zone": "x", "host": "h1"},
    {"zone": "y", "host": "h2"},
    {"zone": "y", "host": "h2"},
)


class Bench:
    """Four nodes of 4 CPU in two zones, two nodes to a host."""

    def __init__(self, placement: str = "first-fit") -> None:
        self.resources, self.jobs, self.placement = Resources(), JobTable(), resolve(placement)
        total = np.tile(np.array([4 * CPU, 8 * GB], dtype=np.int64), (4, 1))
        self.rows = Rows(NAMES, ATTRIBUTES, total, total.copy())

    def submit(self, name: str, **fields: Any) -> JobRecord:
        spec = JobSpec(
            name=name, command=["x"], resources=fields.pop("resources", {"cpu": 1}), **fields
        )
        return self.jobs.submit(SubmitJob(spec), *requirements(self.resources, spec), 0.0)

    def hold(self, job: JobRecord, *nodes: str) -> None:
        for task, node in zip(job.ready(0.0), nodes, strict=False):
            self.jobs.place(job, task, node, 0.0)

    def round(self) -> Round:
        rng = generator(1, "round")
        return Round(self.resources, self.placement, self.jobs, self.rows, rng, 0.0)

    def plan(self, round_: Round) -> list[Planned]:
        return PlainQueue(QueueSettings(), self.jobs).plan(round_)

    def allowed(self, job: JobRecord) -> str:
        """The nodes the rules of a job leave."""
        return "".join(np.array(NAMES)[self.round().allowed(job)])

    def planned(self) -> dict[str, str]:
        """The nodes of each job that is planned, in order."""
        return {
            part.job.name: "".join(NAMES[row] for _, row in part.tasks)
            for part in self.plan(self.round())
        }


def test_constraints_and_affinities_leave_out_nodes() -> None:
    bench = Bench()
    other = bench.submit("other", count=2)
    bench.hold(other, "a", "c")
    assert bench.allowed(bench.submit("zoned", constraints=["zone = x"])) == "ab"
    assert bench.allowed(bench.submit("near", affinity=["other"])) == "ac"
    assert bench.allowed(bench.submit("far", anti_affinity=["other"])) == "bd"
    assert bench.allowed(bench.submit("both", affinity=["other"], constraints=["zone = y"])) == "c"


def test_the_first_task_that_wants_to_be_beside_its_own_goes_anywhere() -> None:
    bench = Bench()
    job = bench.submit("pack", count=3, affinity=["pack"])
    assert bench.allowed(job) == "abcd"
    (nodes,) = bench.planned().values()
    assert len(nodes) == 3 and len(set(nodes)) == 1, "and the others follow it"


def test_a_port_is_one_per_host() -> None:
    bench = Bench()
    job = bench.submit("web", count=4, ports=[80])
    bench.hold(job, "a")
    assert bench.allowed(job) == "cd", "the nodes of a host share its ports"
    assert len(bench.planned()["web"]) == 1 and bench.planned()["web"] in "cd"


@pytest.mark.parametrize(
    ("attribute", "held", "left"), [("zone", "aab", "cd"), ("node", "abc", "d")]
)
def test_spread_leaves_the_values_with_the_fewest_tasks(
    attribute: str, held: str, left: str
) -> None:
    bench = Bench()
    job = bench.submit("job", count=6, spread=attribute)
    bench.hold(job, *held)
    assert bench.allowed(job) == left


def test_a_value_without_room_does_not_count_for_spread() -> None:
    bench = Bench()
    job = bench.submit("job", count=4, spread="zone")
    bench.hold(job, "a")
    bench.rows.free[2:] = 0
    assert set(bench.planned()["job"]) <= set("ab") and len(bench.planned()["job"]) == 3


def test_a_plan_deducts_as_it_goes() -> None:
    """Sixteen tasks of 1 CPU fill four nodes of 4; the job behind them gets nothing."""
    bench = Bench()
    bench.submit("first", count=16)
    bench.submit("second", count=1)
    planned = bench.planned()
    assert sorted(planned["first"]) == sorted("abcd" * 4) and "second" not in planned


def test_a_gang_goes_whole_or_not_and_gives_back_what_it_took() -> None:
    bench = Bench()
    bench.submit("gang", count=5, gang=True, spread="node", resources={"cpu": 4})
    bench.submit("single", count=4, resources={"cpu": 4})
    assert sorted(bench.planned()["single"]) == list("abcd")
    assert "gang" not in bench.planned()


def test_jobs_alike_need_not_ask_again() -> None:
    bench = Bench()
    for k in range(3):
        bench.submit(f"large-{k}", resources={"cpu": 5})
    round_ = bench.round()
    assert bench.plan(round_) == [] and len(round_.infeasible) == 1


def test_priority_comes_before_order() -> None:
    bench = Bench()
    bench.submit("low", count=16)
    bench.submit("high", count=16, priority=1)
    assert list(bench.planned()) == ["high"]


def test_which_jobs_can_be_decided_on_as_a_whole() -> None:
    bench = Bench()
    assert is_simple(bench.submit("plain", constraints=["zone = x"]))
    rules: list[dict[str, Any]] = [{"spread": "zone"}, {"affinity": ["x"]}, {"ports": [80]}]
    for k, rule in enumerate(rules):
        assert not is_simple(bench.submit(f"ruled-{k}", **rule))


def test_a_gang_without_room_does_not_hold_up_a_single_task_alike() -> None:
    bench = Bench()
    bench.submit("gang", count=17, gang=True)
    bench.submit("single")
    assert len(bench.planned()["single"]) == 1
