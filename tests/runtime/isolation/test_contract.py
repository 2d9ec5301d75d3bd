"""What every isolation promises a node agent, told as stories; each must hold for processes and for
containers."""

from __future__ import annotations

import os
import resource
import select
import signal
import threading
import time
from pathlib import Path

import pytest
from tests.runtime.isolation.conftest import ROOMY, House, until

from murmuration.base.errors import InputError
from murmuration.runtime.node.isolation import Exit, RunSpec, StartFailed, shim
from murmuration.runtime.node.isolation import folder as files


@pytest.mark.parametrize(
    ("script", "ended"),
    [
        ("exit 0", Exit(0, None)),
        ("exit 7", Exit(7, None)),
        ("exit 255", Exit(255, None)),
        ("kill -9 $$", Exit(None, 9)),
        ("kill -SEGV $$", Exit(None, 11)),
        ("nonesuch-command", Exit(127, None)),
    ],
)
def test_an_exit_is_told_as_it_was(home: House, script: str, ended: Exit) -> None:
    assert home.run("a", script)[0] == ended


def test_output_environment_and_place_are_the_tasks_own(home: House) -> None:
    script = (
        "echo $MURMUR_TASK $COLOUR; pwd >&2; cat; echo made > file; ls -l /proc/self/fd | "
        "grep -c tasks/a/state"
    )
    ended, out = home.run("a", script, COLOUR="two words  kept")
    assert out == "a two words kept\n0\n" and ended == Exit(1, None)
    assert (home.base / "a/work/file").read_text() == "made\n"
    assert Path(home.output("a", "stderr").strip()).name in ("work", "murmur")


def test_arguments_arrive_untouched(home: House) -> None:
    words = ["$HOME", "a b", "", "'\"\\", "new\nline", "-n", "*", "é"]
    home.wait(home.start("a", "printf", "<%s>", *words))
    assert home.output("a") == "".join(f"<{word}>" for word in words)


def test_a_task_has_the_usual_number_of_open_files(home: House) -> None:
    """The agent allows itself more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert soft >= min(hard, 2**16)
    assert home.run("a", "ulimit -S -n")[1] == f"{shim.OPEN_FILES}\n"


def test_an_ignored_signal_of_the_agent_is_not_ignored_by_a_task(home: House) -> None:
    """Python ignores SIGPIPE; `yes | head` would complain for ever if its children did."""
    ended, out = home.run("a", "grep -E 'Sig(Ign|Blk)' /proc/self/status")
    masks = [
        int(line.split()[1], 16) & 0x7FFFFFFF for line in out.splitlines()
    ]  # 32 and above are the C library's
    assert ended.code == 0 and masks == [0, 0]


@pytest.mark.parametrize(
    "program", ["no-such-program", "/no/such/one", "./absent", "/etc/passwd", "/etc", "exit", "if"]
)
def test_a_command_that_cannot_run_is_said_at_once(home: House, program: str) -> None:
    """Nor is a word of the shell a command."""
    with pytest.raises(StartFailed, match=f"command {program}: not found, or not a program"):
        home.start("a", program, "3")


def test_an_empty_command_is_refused(home: House) -> None:
    with pytest.raises(StartFailed, match="expected a command"):
        home.start("a")
    with pytest.raises(StartFailed, match="NUL"):
        home.start("a", "echo", "a\0b")
    with pytest.raises(StartFailed, match="NUL"):
        home.start("a", "env", limits=ROOMY, **{"A=B": "c"})


def test_a_name_that_leaves_the_folder_is_refused(home: House) -> None:
    with pytest.raises(InputError, match="task"):
        home.isolation.start(RunSpec("../a", ["true"], {}, ROOMY, home.base))


@pytest.mark.parametrize("folder", ["absent", "file", "link", "relative"])
def test_a_folder_that_is_none_is_refused(home: House, tmp_path: Path, folder: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(home.base)
    place = Path("tests") if folder == "relative" else tmp_path / folder
    with pytest.raises(StartFailed, match="expected a folder by its whole path"):
        home.isolation.start(RunSpec("a", ["true"], {}, ROOMY, place))


@pytest.mark.parametrize("name", ["state", "record", "stdout", "stderr", "work"])
def test_no_file_of_a_task_is_written_through_a_link(
    home: House, tmp_path: Path, name: str
) -> None:
    """A task owns its folder of work only, but one that got further must not make the agent write
    elsewhere."""
    target = tmp_path / "precious"
    target.write_text("precious")
    spec = home.spec("a", "echo", "overwritten")
    (spec.folder / name).symlink_to(target)
    with pytest.raises(StartFailed, match=name):
        home.isolation.start(spec)
    assert target.read_text() == "precious"


def test_a_folder_runs_one_task_at_a_time(home: House) -> None:
    first = home.shell("a", "echo ran; sleep 100")
    with pytest.raises(StartFailed, match="runs already"):
        home.shell("a", "echo ran again")
    until(lambda: home.output("a") == "ran\n")
    assert home.isolation.poll(first) is None
    home.isolation.kill(first, 0.0)
    home.wait(first)
    assert home.output("a") == "ran\n"


def test_a_folder_can_be_used_again(home: House) -> None:
    handle = home.shell("a", "sleep 100")
    home.isolation.kill(handle, 0.0)
    assert home.wait(handle).reason == "killed"
    home.isolation.clean(handle.folder)
    assert home.run("a", "exit 4")[0] == Exit(4, None)


def test_the_end_shows_on_the_descriptor(home: House) -> None:
    handle = home.shell("a", "sleep 0.2")
    poller = select.poll()
    poller.register(handle.fileno(), select.POLLIN)
    assert poller.poll(30_000), "the descriptor did not become readable"
    assert home.isolation.poll(handle) == Exit(0, None)
    assert poller.poll(0), "it stays open until its holder closes it: a loop may still watch it"
    handle.close()
    handle.close()
    assert home.isolation.poll(handle) == Exit(0, None)


TREE = (
    "(trap 'exit 0' TERM; echo up; {0}) & setsid sh -c 'echo up; exec sleep 300' & {{}}; {0}"
).format("while :; do sleep 0.05; done")


def test_the_whole_tree_is_asked_to_end(home: House) -> None:
    handle = home.shell("a", TREE.format("trap 'echo bye; exit 5' TERM; echo up"))
    until(lambda: home.output("a").count("up") == 3)
    home.isolation.kill(handle, 30.0, "time limit")
    assert home.wait(handle) == Exit(5, None, "time limit")
    assert home.output("a").endswith("bye\n")


def test_what_does_not_listen_is_ended_after_the_grace(home: House) -> None:
    handle = home.shell("a", TREE.format("trap '' TERM; echo up"))
    until(lambda: home.output("a").count("up") == 3)
    home.isolation.kill(handle, 0.2)
    assert home.wait(handle) == Exit(None, 9, "killed")


def test_a_task_can_be_asked_to_end_from_its_first_moment(home: House) -> None:
    for k in range(4):
        handle = home.shell(f"t{k}", "sleep 300")
        home.isolation.kill(handle, 60.0)
        assert home.wait(handle) == Exit(None, signal.SIGTERM, "killed")


def test_a_frozen_task_does_nothing_with_its_children_and_goes_on(home: House) -> None:
    """Two processes that write beside each other: frozen and thawed twice, then asked to end while
    they are frozen."""
    write = "while :; do echo $1; sleep 0.02; done"
    script = f"trap 'exit 7' TERM; sh -c '{write}' x a & sh -c '{write}' x b & wait; wait"
    handle = home.shell("a", script)
    until(lambda: {"a", "b"} <= set(home.output("a").split()))
    for _ in range(2):
        home.isolation.freeze(handle)
        size = len(home.output("a"))
        time.sleep(0.5)
        assert len(home.output("a")) == size
        home.isolation.thaw(handle)
        until(lambda: len(home.output("a")) > size)  # noqa: B023 - it is asked at once
    home.isolation.freeze(handle)
    home.isolation.kill(handle, 60.0)
    assert home.wait(handle).code == 7, "it heard that it shall end, and had time for it"


def test_a_stopped_task_can_be_ended(home: House) -> None:
    handle = home.shell("a", "echo up; kill -STOP $$")
    until(lambda: "up" in home.output("a"))
    home.isolation.kill(handle, 0.0)
    assert home.wait(handle) == Exit(None, 9, "killed")


def test_killing_what_has_ended_changes_nothing(home: House) -> None:
    handle = home.shell("a", "exit 3")
    until(lambda: not files.is_locked(handle.folder))
    home.isolation.kill(handle, 0.0)
    assert home.wait(handle) == Exit(3, None)
    home.isolation.kill(handle, 0.0)
    assert home.isolation.poll(handle) == Exit(3, None)


def test_what_a_task_leaves_running_ends_with_it(home: House) -> None:
    """A child, and a daemon in a session of its own; the fixture looks for what is left."""
    script = "setsid sh -c 'touch one; exec sleep 300' & sh -c 'touch two; exec sleep 300' & "
    ended, _ = home.run(
        "a", script + "while [ ! -e one ] || [ ! -e two ]; do sleep 0.02; done; exit 8"
    )
    assert ended == Exit(8, None)


def test_usage_counts_the_whole_tree(home: House) -> None:
    spin = "i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done"
    handle = home.shell("a", f"({spin}) & ({spin}) & wait; echo done; sleep 300")
    until(lambda: "done" in home.output("a"))
    cpu_s, memory = home.isolation.usage(handle)
    assert cpu_s > 0.03 and memory > 100_000
    home.isolation.kill(handle, 0.0)
    home.wait(handle)
    assert home.isolation.usage(handle)[1] == 0


def test_a_running_task_is_found_again(home: House) -> None:
    started = home.shell("a", "while [ ! -e go ]; do sleep 0.02; done; exit 6")
    found = home.isolation.recover(started.folder)
    assert found is not None and (found.task, found.pid, found.limits) == (
        "a",
        started.pid,
        started.limits,
    )
    assert home.isolation.poll(found) is None
    (started.folder / "work/go").touch()
    assert home.wait(found) == Exit(6, None)
    assert home.wait(started) == Exit(6, None)


def test_an_ended_task_is_found_again(home: House) -> None:
    started = home.shell("a", "exit 6")
    until(lambda: not files.is_locked(started.folder))
    found = home.isolation.recover(started.folder)
    assert found is not None and home.isolation.poll(found) == Exit(6, None)


def test_an_order_to_end_outlives_the_agent_that_gave_it(home: House) -> None:
    started = home.shell("a", "trap '' TERM; echo up; while :; do sleep 0.05; done")
    until(lambda: "up" in home.output("a"))
    home.isolation.kill(started, 0.5, "time limit")
    found = home.isolation.recover(started.folder)
    assert found is not None
    assert home.wait(found) == Exit(None, 9, "time limit")
    again = home.isolation.recover(started.folder)
    assert again is not None and again.ended == Exit(None, 9, "time limit")


def test_what_ended_without_a_trace_is_not_found(home: House) -> None:
    assert home.isolation.recover(home.spec("never", "true").folder) is None
    started = home.shell("a", "sleep 300")
    os.kill(started.pid, signal.SIGKILL)
    until(lambda: not files.is_locked(started.folder))
    assert home.isolation.recover(started.folder) is None
    assert home.wait(started) == Exit(None, None, "ended without a trace")


def test_the_task_of_another_isolation_is_left_alone(home: House) -> None:
    started = home.shell("a", "sleep 300")
    record = started.folder / files.RECORD
    whole = record.read_bytes()
    name = home.isolation.name.encode()
    for other in (whole.replace(name, b"another"), whole[:20], b""):
        record.write_bytes(other)
        assert home.isolation.recover(started.folder) is None
        assert files.is_locked(started.folder)
    record.write_bytes(whole)


def test_cleaning_ends_what_runs_and_may_be_repeated(home: House) -> None:
    handle = home.shell("a", TREE.format("echo up"))
    until(lambda: home.output("a").count("up") == 3)
    for _ in range(2):
        home.isolation.clean(handle.folder)
    assert not files.is_locked(handle.folder)
    assert home.output("a").count("up") == 3, "output stays"


def test_many_start_at_once_from_threads(home: House) -> None:
    count = 40 if home.isolation.name == "process" else 4
    codes: dict[int, int | None] = {}

    def one(k: int) -> None:
        codes[k] = home.wait(home.shell(f"t{k}", f"exit {k}")).code

    threads = [threading.Thread(target=one, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert codes == {k: k for k in range(count)}


def test_no_secret_shows_in_the_list_of_processes(home: House) -> None:
    handle = home.shell("a", "sleep 300", TOKEN="se" + "cret-value")
    shown = [Path(f"/proc/{pid}/cmdline") for pid in os.listdir("/proc") if pid.isdecimal()]
    for place in shown:
        try:
            assert b"secret-value" not in place.read_bytes()
        except OSError:
            continue
    kept = [
        path
        for path in handle.folder.rglob("*")
        if path.is_file() and b"secret-value" in path.read_bytes()
    ]
    assert [path.name for path in kept] in ([], ["config.json"])
    assert all(path.parent.stat().st_mode & 0o077 == 0 for path in kept), "for its owner alone"
