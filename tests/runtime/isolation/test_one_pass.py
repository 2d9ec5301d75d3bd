"""Many tasks are killed in one pass over the processes of the host, and cleared up without another
one."""

from __future__ import annotations

import pytest
from tests.runtime.isolation.conftest import House, until

from murmuration.runtime.node.isolation import processes
from murmuration.runtime.node.isolation.plain import PlainProcess


def test_what_was_killed_in_one_pass_is_not_looked_for_again(
    plain: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five tasks of another agent, each with a process that has left it."""
    script = "setsid sleep 600 & echo up; exec sleep 600"
    folders = [plain.shell(f"t{k}", script).folder for k in range(5)]
    until(lambda: all("up" in plain.output(folder.name) for folder in folders))
    passes: list[int] = []
    list_all = processes.all_pids

    def count() -> list[int]:
        passes.append(1)
        return list_all()

    another = PlainProcess()
    monkeypatch.setattr(processes, "all_pids", count)
    another.kill_all(folders)
    looks = len(passes)
    for folder in folders:
        another.clean(folder)
    assert len(passes) == looks <= processes.KILLING_ROUNDS
