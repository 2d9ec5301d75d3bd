"""The store in a real etcd: it keeps what SQLite's keeps, whole batches only, one writer only, and
members may die."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.etcd import Members, running_etcd
from tests.runtime.test_store import entries, story
from tests.schedulers.central.clusters import spec

from murmuration.base.errors import InputError
from murmuration.runtime.net import etcd_client as etcd
from murmuration.runtime.net.etcd_client import parse_members
from murmuration.runtime.store.etcd import EtcdStore
from murmuration.runtime.store.interface import Deposed, Entry, StoreError
from murmuration.schedulers.central.memory import MasterMemory
from murmuration.schedulers.central.messages import KillJob, Recover, SubmitJob, TaskPlaced

NAMES = count()


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    with running_etcd(tmp_path_factory.mktemp("etcd")) as members:
        yield members


def make_store(members: Members, name: str = "", snapshot_bytes: int = 2**24) -> EtcdStore:
    return EtcdStore(members.client(), name or f"c{next(NAMES)}", snapshot_bytes)


def fold(facts: list[tuple[float, object]]) -> MasterMemory:
    memory = MasterMemory()
    for at, fact in facts:
        memory.apply(fact, at)
    return memory


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(0, 20), max_size=30), st.integers(1, 7), st.sampled_from([1, 400, 2**24])
)
def test_a_master_starts_from_the_same_as_the_simulated_one(
    members: Members, choices: list[int], batch: int, snapshot_bytes: int
) -> None:
    """However often snapshots are taken, and by whichever master the facts were written."""
    facts, name = story(choices), f"c{next(NAMES)}"
    half = len(facts) // 2 // batch * batch
    for part, first in ((facts[:half], 1), (facts[half:], half + 1)):
        store = make_store(members, name, snapshot_bytes)
        store.recover(1)
        for start in range(0, len(part), batch):
            store.write(entries(part[start : start + batch], first + start))
        store.close()
    store = make_store(members, name)
    assert store.recover(1) == fold(facts).recover(2, 1)
    assert store.last_number() == len(facts)
    store.close()


def test_the_log_comes_back_as_it_was_told(members: Members) -> None:
    store = make_store(members)
    store.recover(1)
    told = [SubmitJob(spec(), 2.0), KillJob("job"), Recover(0, 1), TaskPlaced("job", 0, 1, "n")]
    store.write([Entry(k + 1, 0.5, "event", value) for k, value in enumerate(told)])
    assert [entry.value for entry in store.entries()] == told
    store.close()


def test_followers_begin_in_the_middle_of_a_batch(members: Members) -> None:
    store, facts = make_store(members), story([0, 1, 2, 3])
    store.recover(1)
    for start in range(0, len(facts), 3):
        store.write(entries(facts[start : start + 3], start + 1))
    for after in range(len(facts) + 1):
        numbers = [row[0] for row in store.facts(after, 4)]
        assert numbers == list(range(after + 1, min(len(facts), after + 4) + 1))
    store.close()


def test_a_batch_of_many_parts_is_there_whole_or_not_at_all(members: Members) -> None:
    name = f"c{next(NAMES)}"
    store = make_store(members, name)
    store.recover(1)
    large = [
        Entry(1 + k, 0.0, "event", SubmitJob(spec(environment={"A": "x" * 400_000})))
        for k in range(8)
    ]
    with pytest.MonkeyPatch.context() as patch:
        # The last key fails: the parts are there, and count for nothing.
        commits, commit = count(), store._client.commit
        patch.setattr(
            store._client,
            "commit",
            lambda *words: commit(*words) if next(commits) < 3 else raise_away(),
        )
        with pytest.raises(StoreError, match="away"):
            store.write(large)
    assert store.last_number() == 0 and list(store.entries()) == []
    store.write(large)
    assert [entry.number for entry in store.entries()] == list(range(1, 9))
    again = make_store(members, name)
    again.recover(1)
    assert again.last_number() == 8
    store.close()
    again.close()


def raise_away() -> bool:
    raise etcd.EtcdError("away")


def test_a_snapshot_of_many_parts(members: Members) -> None:
    name = f"c{next(NAMES)}"
    store = make_store(members, name, snapshot_bytes=2**20)
    store.recover(1)
    facts = [
        fact for k in range(6) for fact in story([k]) if type(fact[1]).__name__ == "JobSubmitted"
    ]
    for k, (at, fact) in enumerate(facts):
        large = fact.__class__(
            f"job-{k}", k, fact.first_run, spec(f"job-{k}", environment={"A": "x" * 700_000}), None
        )
        facts[k] = (at, large)
        store.write(entries([facts[k]], k + 1))
    again = make_store(members, name)
    assert again.recover(1) == fold(facts).recover(1, 1)
    store.close()
    again.close()


def test_the_log_is_bounded_and_its_newest_lines_are_kept(members: Members) -> None:
    name = f"c{next(NAMES)}"
    store = make_store(members, name, snapshot_bytes=5_000)
    store.recover(1)
    for k in range(1, 400):
        store.write([Entry(k, 0.0, "event", KillJob("x" * 60))])
    kept = [entry.number for entry in store.entries()]
    assert kept == list(range(kept[0], 400)) and 40 < len(kept) < 200
    keys = store._client.scan(f"/murmuration/{name}/", f"/murmuration/{name}0")
    assert len(keys) < len(kept) + 10
    store.close()


def test_a_master_that_was_replaced_can_write_nothing_more(members: Members) -> None:
    name, facts = f"c{next(NAMES)}", story([0])
    before, after = make_store(members, name), make_store(members, name)
    assert before.recover(1).epoch == 0
    before.write(entries(facts[:1]))
    assert after.recover(1).epoch == 1
    with pytest.raises(Deposed, match="a later master"):
        before.write(entries(facts, 10))
    with pytest.raises(Deposed):
        before.probe(1)
    assert after.last_number() == 1
    after.write(entries(facts[1:], 2))
    assert [row[0] for row in after.facts(0, 100)] == list(range(1, len(facts) + 1))
    before.close()
    after.close()


def test_a_batch_whose_answer_was_lost_is_written_once(members: Members) -> None:
    store, facts = make_store(members), story([0, 1])
    store.recover(1)
    with pytest.MonkeyPatch.context() as patch:
        commit = store._client.commit
        patch.setattr(store._client, "commit", lambda *words: (commit(*words), raise_away())[0])
        with pytest.raises(StoreError):
            store.write(entries(facts))
    store.write(entries(facts))
    assert [row[0] for row in store.facts(0, 100)] == list(range(1, len(facts) + 1))
    store.close()


def test_damage_and_other_versions_are_said(members: Members) -> None:
    name = f"c{next(NAMES)}"
    store = make_store(members, name)
    store.recover(1)
    store.write(entries(story([0])))
    key = f"/murmuration/{name}/log/{1:020}"
    stored = store._client.get(key)
    assert stored is not None
    flipped = stored.value[:-1] + bytes([stored.value[-1] ^ 1])
    store._client.commit([], [etcd.put(key, flipped)])
    again = make_store(members, name)
    with pytest.raises(InputError, match="damaged"):
        again.recover(1)
    store._client.commit([], [etcd.put(f"/murmuration/{name}/version", b"9")])
    with pytest.raises(InputError, match="expected a store of version 3 or older, got 9"):
        again.recover(1)
    store.close()
    again.close()


def test_any_member_may_die_but_not_a_majority(tmp_path_factory: pytest.TempPathFactory) -> None:
    facts = story([0, 1, 2])
    with running_etcd(tmp_path_factory.mktemp("three"), 3) as members:
        store = EtcdStore(members.client(5.0), "c")
        store.recover(1)
        store.write(entries(facts[:2]))
        for k in range(3):
            members.kill(k)
            retry(lambda k=k: store.write(entries(facts[2 + k : 3 + k], 3 + k)))
            members.start(k)
            members.wait()
        members.kill(0)
        members.kill(1)
        with pytest.raises(StoreError, match="etcd does not answer"):
            store.write(entries(facts[5:6], 6))
        members.start(0)
        members.wait()
        retry(lambda: store.write(entries(facts[5:6], 6)))
        assert store.recover(1) == fold(facts[:6]).recover(1, 1)
        store.close()


def retry(write: object) -> None:
    """As the notes of a master do."""
    assert callable(write)
    for _ in range(60):
        try:
            write()
            return
        except StoreError:
            continue
    raise AssertionError("it was never written")


def test_names_of_members() -> None:
    assert [str(a) for a in parse_members("etcd://a:1,[::1]:2")] == ["a:1", "[::1]:2"]
    with pytest.raises(InputError, match="expected etcd://HOST:PORT"):
        parse_members("etcd://nowhere")
