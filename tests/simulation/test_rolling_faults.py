"""Rolling updates on the virtual driver: nobody is missed in quiet weather, and whatever crashes,
is cut off or rebooted, every service comes to one version and all tasks run."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from murmuration.base.random import generator
from murmuration.base.resources import Resources
from murmuration.placement.registry import resolve
from murmuration.schedulers.agent import Effect, Message
from murmuration.schedulers.central.master import CentralSettings
from murmuration.schedulers.central.messages import SubmitJob
from murmuration.schedulers.offers.messages import MASTER
from murmuration.simulation.messages.central import SICK, CentralCluster
from murmuration.simulation.messages.central_checks import ClusterChecker
from murmuration.simulation.messages.central_faults import END_S, FAULTS_S, draw_cluster
from murmuration.simulation.messages.drive import BrokenError, VirtualDriver
from murmuration.workload.job_spec import JobSpec, Restart
from murmuration.workload.service_spec import HealthCheck, UpdatePolicy

CPU, GB = 1_000_000, 10**9
COUNT, ALLOWED = 5, 2
POLICY = UpdatePolicy(ALLOWED, min_healthy_s=2.0, deadline_s=30.0)
CHECK = HealthCheck(command=["x"], interval_s=1.0, failures=2)


def service(version: int, is_sick: bool = False) -> JobSpec:
    return JobSpec(
        name="web",
        command=["x", str(version)],
        kind="service",
        count=COUNT,
        resources={"cpu": 0.05, "memory": "10M"},
        environment={SICK: "0"} if is_sick else {},
        health=CHECK,
        update=POLICY,
        restart=Restart(backoff_s=0.5, backoff_max_s=4.0),
    )


class EnoughAreWell(ClusterChecker):
    """Once the service stands, so many processes are really well at every moment: seen on the
    hosts, not in anybody's table."""

    stood = False

    def after(
        self, driver: VirtualDriver, name: str, event: Message, effects: Sequence[Effect]
    ) -> None:
        well = [
            run
            for host in self.cluster.hosts.values()
            for run in host.processes
            if SICK not in host.journal[run].launch.order.environment
        ]
        self.stood |= len(well) == COUNT
        if self.stood and len(well) < COUNT - ALLOWED:
            raise BrokenError(f"only {sorted(well)} are well")


def test_in_quiet_weather_no_more_are_missing_than_may_be() -> None:
    settings = CentralSettings(Resources(), resolve("first-fit"), agent_timeout_s=10.0)
    nodes = {f"node-{k}": {"cpu": 2 * CPU, "memory": 4 * GB} for k in range(3)}
    cluster = CentralCluster(settings, nodes, 1, generator(1, "rolling"))
    cluster.driver.checkers.append(EnoughAreWell(cluster))
    cluster.submit(service(0), None)
    for at_s, spec in ((30.0, service(1)), (90.0, service(2, is_sick=True)), (150.0, service(3))):
        cluster.driver.at(at_s, cluster.driver.tell, MASTER, SubmitJob(spec))
    commands = []
    for end_s in (80.0, 140.0, 200.0):
        cluster.driver.run(end_s)
        assert cluster.master is not None
        commands.append(cluster.master.jobs.jobs["web"].spec.command[1])
        assert not cluster.master.jobs.rolling
    # The sick one in the middle was given up by itself.
    assert commands == ["1", "1", "3"]


@pytest.mark.parametrize("seed", range(1, 26))
def test_whatever_goes_wrong_all_come_to_one_version(seed: int) -> None:
    """The schedules of the central protocol, with a service on top that is updated again and
    again, to versions that are well and to such that are not."""
    cluster, rng = draw_cluster(seed), generator(seed, "updates")
    driver = cluster.driver
    driver.at(0.5, cluster.submit_surely, service(0), None)
    for k in range(int(rng.integers(1, 6))):
        spec = service(k + 1, is_sick=bool(rng.random() < 0.4))
        driver.at(float(rng.uniform(5.0, FAULTS_S)), update, cluster, spec)
    driver.run(END_S)
    driver.finish()
    assert cluster.master is not None
    job = cluster.master.jobs.jobs["web"]
    assert not job.rollout.phase, job.rollout
    assert {task.version for task in job.tasks} == {job.rollout.version}
    assert SICK not in job.spec.environment
    for host in cluster.hosts.values():
        orders = [host.journal[run].launch.order for run in host.processes]
        assert {order.command for order in orders if len(order.command) > 1} <= {
            tuple(job.spec.command)
        }
    stored = {stored.spec.name: stored for stored in cluster.disk.load().recover(0, 0).jobs}
    assert stored["web"].rollout == msgspec.structs.replace(job.rollout)


def update(cluster: CentralCluster, spec: JobSpec) -> None:
    if cluster.master is not None and cluster.disk.has_job(spec.name):
        cluster.driver.tell(MASTER, SubmitJob(spec))
