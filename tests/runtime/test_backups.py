"""Backups of either store: what is copied is what was there, and a master goes on from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.runtime.clusters import live_cluster, until
from tests.runtime.etcd import Members, running_etcd
from tests.runtime.masters import many_masters

from murmuration.base.errors import InputError
from murmuration.cli import murmur
from murmuration.runtime.store.etcd import EtcdStore
from murmuration.runtime.store.interface import SKIPPED_EPOCHS, Entry, StoreCopy
from murmuration.runtime.store.sqlite import SqliteStore, read_copy, read_log
from murmuration.schedulers.central.messages import (
    JobSubmitted,
    NodeDraining,
    QuotaSet,
    TaskPlaced,
    TokenIssued,
)
from murmuration.workload.job_spec import job_from_tables


def murmur_store(*arguments: str) -> Result:
    return CliRunner().invoke(murmur, ["store", *arguments])


def facts() -> list[Entry]:
    spec = job_from_tables({"name": "a", "command": ["true"], "environment": {"K": "v"}})
    return [
        Entry(k + 1, float(k), "fact", fact)
        for k, fact in enumerate(
            [
                JobSubmitted("a", 1, 0, spec),
                TaskPlaced("a", 0, 1, "n1"),
                NodeDraining("n2", True),
                TokenIssued("t", "viewer", "anna", "d", 5.0),
                QuotaSet("anna", {"cpu": 3, "jobs": 1}),
            ]
        )
    ]


def plain(copied: StoreCopy) -> Any:
    return dict(copied.tables), [tuple(line) for line in copied.lines]


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as running:
        yield running


def test_a_copy_goes_from_either_store_to_either(tmp_path: Path, members: Members) -> None:
    """SQLite to etcd and back, in parts that are smaller than the log."""
    first = SqliteStore(tmp_path / "first.db")
    first.recover(1)
    first.write(facts())
    copied = first.copy()
    first.close()
    in_etcd = EtcdStore(members.client(), "copied")
    in_etcd.fill(copied)
    there = in_etcd.copy()
    assert plain(there) == plain(copied)
    assert there.epoch == copied.epoch + SKIPPED_EPOCHS
    second = SqliteStore(tmp_path / "second.db")
    second.fill(there)
    assert plain(second.copy()) == plain(copied) and second.check() == len(facts())
    recovered = [store.recover(1) for store in (second, in_etcd)]
    for event in recovered:
        assert event.jobs[0].runs[0].node == "n1" and event.draining == ("n2",)
        assert event.tokens[0].user == "anna" and event.quotas == {"anna": {"cpu": 3, "jobs": 1}}
        assert event.epoch > copied.epoch
    in_etcd.write([Entry(6, 9.0, "fact", NodeDraining("n2", False))])
    assert in_etcd.recover(1).draining == ()
    second.close()
    in_etcd.close()


def test_a_store_that_is_there_is_not_lost_by_mistake(tmp_path: Path, members: Members) -> None:
    store = EtcdStore(members.client(), "kept")
    store.recover(1)
    store.write(facts())
    url = ("--store", members.url, "--cluster", "kept")
    assert murmur_store("backup", str(tmp_path / "b.db"), *url).exit_code == 0
    refused = murmur_store("restore", str(tmp_path / "b.db"), *url)
    assert isinstance(refused.exception, InputError) and "--replace" in str(refused.exception)
    again = murmur_store("backup", str(tmp_path / "b.db"), *url)
    assert isinstance(again.exception, InputError)
    nowhere = murmur_store("backup", str(tmp_path / "c.db"), *url[:2], "--cluster", "no")
    assert isinstance(nowhere.exception, InputError) and not (tmp_path / "c.db").exists()
    assert murmur_store("restore", str(tmp_path / "b.db"), *url, "--replace").exit_code == 0
    restored = store.copy()
    assert plain(restored) == plain(read_copy(tmp_path / "b.db"))
    store.close()


def test_masters_go_on_from_a_backup_of_etcd(tmp_path: Path) -> None:
    """The store is lost with all its members' data; tasks that run are found again."""
    with many_masters(tmp_path / "all", masters=1, agents=1) as cluster:
        resources = {"cpu": 0.2, "memory": "16Mi"}
        job = {"name": "stays", "command": ["sleep", "600"], "resources": resources}
        cluster.client.post("jobs", body={**job, "kind": "service"})
        (before,) = cluster.running("stays", 1)
        file, url = str(tmp_path / "backup.db"), ("--store", cluster.etcd.url)
        made = murmur_store("backup", file, *url)
        assert made.exit_code == 0, made.exception
        assert read_log(Path(file)), "a backup replays too"
        early = murmur_store("restore", file, *url, "--replace")
        assert isinstance(early.exception, InputError) and "no master" in str(early.exception)
        cluster.kill("m0")
        client = cluster.etcd.client()
        until(lambda: client.get("/murmuration/murmuration/leader") is None)
        client.close()
        restored = murmur_store("restore", file, *url, "--replace")
        assert restored.exit_code == 0, restored.exception
        cluster.start("m0")
        (after,) = cluster.running("stays", 1)
        assert (after["run"], after["started_s"]) == (before["run"], before["started_s"])


def test_a_cluster_of_one_host_moves_to_etcd(tmp_path: Path, members: Members) -> None:
    with live_cluster(tmp_path / "one", agents=1) as cluster:
        cluster.submit("done", "true")
        cluster.wait("done")
    # A master answers from memory, moments before the disk has it; one that has ended left it all.
    made = murmur_store("backup", str(tmp_path / "b.db"), "--dir", str(tmp_path / "one"))
    assert made.exit_code == 0
    url = ("--store", members.url, "--cluster", "moved")
    assert murmur_store("restore", str(tmp_path / "b.db"), *url).exit_code == 0
    store = EtcdStore(members.client(), "moved")
    (job,) = store.recover(1).jobs
    assert job.spec.name == "done" and job.runs[0].status == "finished"
    store.close()
