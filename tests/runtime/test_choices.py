"""Other clusters than the usual one: a policy of one's own, sharing by offers, the foreground,
parts by hand."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.runtime.clusters import WAIT_S, LiveCluster, live_cluster, marked, until
from tests.runtime.policies import HighestRank

from murmuration.base.errors import InputError
from murmuration.experiments.live import replay_log
from murmuration.runtime import supervisor
from murmuration.runtime.master.settings import live_settings
from murmuration.runtime.options import MasterOptions

OWN = f"{HighestRank.__module__}:{HighestRank.__name__}"


def test_a_policy_of_ones_own_runs_live_and_replays(tmp_path: Path) -> None:
    with live_cluster(tmp_path / "c", scheduler=OWN) as cluster:
        cluster.submit("job", "sleep", "300", count=3, resources={"cpu": 1})
        assert sorted(row["node"] for row in cluster.running("job", 3)) == ["n1", "n2", "n2"]
        assert cluster.client.get("status")["placement"] == OWN
        assert replay_log(cluster.folder).agrees


def test_offers_are_made_together_where_an_operator_says_so(tmp_path: Path) -> None:
    """Slices of several nodes come in one offer, once in an interval, and tasks run as ever."""
    rules = live_settings(MasterOptions(folder="", allocation_interval_s=0.5))[0].rules
    assert rules.period_s == 0.5
    with live_cluster(tmp_path / "c", 2, scheduler="offers", allocation_interval_s=0.1) as cluster:
        cluster.submit("shared", "true", count=4)
        assert cluster.wait("shared")["code"] == 0


def test_sharing_by_offers(tmp_path: Path) -> None:
    with live_cluster(tmp_path / "c", scheduler="offers", placement="best-fit") as cluster:
        cluster.submit("batch", "true", count=40)
        assert cluster.wait("batch")["code"] == 0
        assert replay_log(cluster.folder).agrees


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"scheduler": "swarm"}, "expected monolithic, shared-state, offers"),
        ({"scheduler": "nothing.at.all:X"}, "cannot be imported"),
        ({"placement": "best-fti"}, "did you mean 'best-fit'"),
        ({"allocator": "fair"}, "drf"),
        ({"resources": ["cpu"]}, "distinct names"),
    ],
)
def test_a_cluster_that_cannot_be(change: dict[str, object], says: str) -> None:
    with pytest.raises(InputError, match=says):
        live_settings(msgspec.structs.replace(MasterOptions(folder=""), **change))


def test_up_in_the_foreground_ends_with_ctrl_c(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    command = [
        sys.executable,
        "-c",
        "from murmuration.cli import main; main()",
        "up",
        "--dir",
        str(folder),
    ]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        [*command, "--agents", "1", "--isolation", "process"],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None and process.stdout.readline().startswith(
            "http://127.0.0.1:"
        )
        again = subprocess.run(
            [*command, "--detach"], capture_output=True, text=True, env=environment, check=False
        )
        assert again.returncode == 2 and "runs already" in again.stderr
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 0
    until(lambda: not marked(folder))
    assert (folder / "store.db").exists(), "Ctrl-C keeps what there is; murmur down removes it"
    supervisor.bring_down(folder, keep=False)


def test_a_master_started_by_hand_serves_agents_started_by_hand(tmp_path: Path) -> None:
    """`murmur master` and `murmur agent --emulate` are the parts `up` is made of."""
    folder = str(tmp_path / "c")
    command = [sys.executable, "-c", "from murmuration.cli import main; main()"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    parts = (["master"], ["agent", "--name", "e", "--emulate", "50", "--cpu", "1"])
    started = [
        subprocess.Popen(
            [*command, *part, "--dir", folder], stderr=subprocess.DEVNULL, env=environment
        )
        for part in parts
    ]
    try:
        cluster = LiveCluster.__new__(LiveCluster)
        cluster.folder = Path(folder)
        until(lambda: len(cluster.client.get("nodes")["nodes"]) == 50)
        cluster.client.post(
            "jobs", body={"name": "j", "command": ["x"], "count": 200}, duration_s=0.05
        )
        assert cluster.wait("j")["code"] == 0
    finally:
        for process in reversed(started):
            process.terminate()
            assert process.wait(WAIT_S) == 0
