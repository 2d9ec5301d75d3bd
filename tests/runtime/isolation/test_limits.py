"""Limits hold on the node the tests run on: the task over its limit pays, its neighbours do not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.runtime.isolation.conftest import House, until

from murmuration.runtime.node.isolation import Exit, RunLimits, bundle, processes
from murmuration.runtime.node.isolation.plain import PlainProcess, measure

MB = 2**20
#: Takes memory for good, 16 MB at a time, in a child of the task's first process.
GREEDY = (
    'python3 -c \'import time; x = [bytearray(b"x" * (1 << 24)) for _ in range(20)]; '
    "time.sleep(300)'; exit $?"
)
BUSY = "while :; do :; done"


def test_over_its_memory_a_task_is_ended_and_says_so(home: House) -> None:
    modest = home.shell("modest", "echo up; sleep 300", limits=RunLimits(memory=64 * MB))
    greedy = home.shell("greedy", GREEDY, limits=RunLimits(memory=96 * MB))
    ended = home.wait(greedy)
    assert (ended.signal, ended.reason) == (9, "out of memory")
    assert home.isolation.poll(modest) is None
    found = home.isolation.recover(greedy.folder)
    assert found is not None and found.ended == ended, "the next agent knows it too"


def test_within_its_memory_a_task_ends_well(home: House) -> None:
    script = "python3 -c 'x = bytearray(b\"x\" * (1 << 25))'"
    assert home.run("a", script, limits=RunLimits(memory=128 * MB))[0] == Exit(0, None)


def test_what_several_processes_share_counts_once(plain: House) -> None:
    """Six forks of one process that holds 40 MB are 40 MB, not 280."""
    script = (
        "import os, time; x = bytearray(b'x' * (40 << 20)); pids = [os.fork() for _ in range(1)]\n"
        "for _ in range(5):\n    if pids[0] and os.fork() == 0: break\n"
        "print('up', flush=True); time.sleep(300)"
    )
    handle = plain.start("a", "python3", "-c", script, limits=RunLimits(memory=100 * MB))
    until(lambda: plain.output("a").count("up") == 7)
    assert measure(processes.trees([handle.pid]))[1] > 200 * MB
    handle.watched = 0.0
    assert plain.isolation.poll(handle) is None
    assert plain.isolation.poll(handle) is None and handle.order is None


def test_one_burst_of_a_plain_process_has_an_end(plain: House) -> None:
    script = "python3 -c 'bytearray(1 << 33)'"
    ended, _ = plain.run("a", script, limits=RunLimits(memory=64 * MB))
    assert ended.code == 1 and "MemoryError" in plain.output("a", "stderr")


def test_too_many_processes(home: House) -> None:
    script = "for i in 1 2 3 4 5 6 7 8 9; do sleep 300 & done; echo all; wait"
    handle = home.shell("a", script, limits=RunLimits(pids=5))
    if isinstance(home.isolation, PlainProcess):
        assert home.wait(handle) == Exit(None, 9, "too many processes")
    else:
        ended = home.wait(handle)
        assert (
            ended.code == 2
            and "Cannot fork" in home.output("a", "stderr")
            and "all" not in home.output("a")
        )


def test_pids_up_to_the_limit_are_given(home: House) -> None:
    script = "for i in 1 2 3 4; do sleep 1 & done; wait"  # with the shell itself five
    assert home.run("a", script, limits=RunLimits(pids=5))[0] == Exit(0, None)


#: Seconds of CPU that a quarter of a CPU is worth in each period.
QUARTER_S = 0.25 * bundle.PERIOD_US / 1e6


def periods(folder: str, which: str) -> int:
    """Periods of a group: all (`nr_periods`), or those in which it had to wait for the next one
    (`nr_throttled`)."""
    lines = Path(folder, "cpu.stat").read_text().splitlines()
    return int(dict(line.split() for line in lines)[which])


def test_over_its_cpu_a_task_is_slowed_and_its_neighbour_is_not(runc: House) -> None:
    hog = runc.shell(
        "hog", f"for i in 1 2 3; do ({BUSY}) & done; {BUSY}", limits=RunLimits(cpu=0.25)
    )
    where = "cpu" if "cpu" in hog.cgroups else ""
    # Beside other work its small weight alone could hold it back: let the ceiling do it.
    name, most = ("cpu.shares", "100000") if where else ("cpu.weight", "10000")
    Path(hog.cgroups[where], name).write_text(most)
    neighbour = runc.shell("neighbour", BUSY, limits=RunLimits(cpu=2.0))
    until(lambda: periods(hog.cgroups[where], "nr_throttled") >= 10)
    # The kernel counts periods as it counts CPU time, so a busy machine changes both alike. Usage
    # is read first; the period under way and what was handed out too early are allowed for.
    used_s = runc.isolation.usage(hog)[0]
    assert used_s <= QUARTER_S * (periods(hog.cgroups[where], "nr_periods") + 4)
    assert periods(neighbour.cgroups[where], "nr_throttled") == 0


def test_cpu_is_a_weight_among_plain_processes(plain: House) -> None:
    """Asked for a tenth, a task weighs a tenth: ten steps of nice, each a quarter, for it and for
    its session."""
    small = plain.shell("small", "sleep 300", limits=RunLimits(cpu=0.1))
    large = plain.shell("large", "sleep 300", limits=RunLimits(cpu=3.0))
    nices = [
        int(Path(f"/proc/{handle.pid}/stat").read_text().rpartition(")")[2].split()[16])
        for handle in (small, large)
    ]
    inherited = os.getpriority(os.PRIO_PROCESS, 0)
    assert nices[1] == inherited and nices[0] == pytest.approx(10, abs=1)
    assert 1.25 ** nices[0] == pytest.approx(10, rel=0.13)


def test_limits_reach_the_kernel(runc: House) -> None:
    handle = runc.shell("a", "sleep 300", limits=RunLimits(cpu=0.5, memory=64 * MB, pids=7))
    if "" in handle.cgroups and len(handle.cgroups) == 1:
        (folder,) = handle.cgroups.values()
        expected = {
            "cpu.max": "50000 100000",
            "memory.max": str(64 * MB),
            "memory.swap.max": "0",
            "pids.max": "8",
        }
        read = {name: Path(folder, name).read_text().strip() for name in expected}
    else:
        expected = {
            "cpu.cfs_quota_us": "50000",
            "cpu.shares": "512",
            "memory.limit_in_bytes": str(64 * MB),
            "pids.max": "8",
        }
        read = {
            name: Path(handle.cgroups[name.split(".")[0]], name).read_text().strip()
            for name in expected
        }
    assert read == expected


def test_no_limit_is_no_limit(home: House) -> None:
    assert home.run("a", "exit 0", limits=RunLimits())[0] == Exit(0, None)
