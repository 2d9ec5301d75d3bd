"""The executor: it starts, watches and ends the processes of a node's tasks through an isolation.

Each run has a folder of its own with its output and what the isolation knows of it; what was
ordered and how it ended is in the journal of the node. A node agent that starts again finds
everything there.

Two records, because each alone leaves a hole. The journal is written before the folder is made, so
a run that was ordered is known even if the agent dies before its process starts; the folder is what
the process itself leaves behind, so a run that ended while no agent was there is known too. `find`
lays one beside the other: in the journal and running, it goes on; in the journal and ended, its end
is told now; in the journal without a folder, it was never started and is lost; a folder without an
entry is output that is kept for a while.

Nothing here decides. The state machine (`schedulers/central/node_agent.py`) says what to start and
what to end, and is told what happened; this class may be slow, refuse or fail, but a run that it
was asked to start always leads to exactly one `Exited` or one `Started` and later one `Exited`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import pwd
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from murmuration.base.errors import InputError
from murmuration.runtime.folder import remove_tree
from murmuration.runtime.net.wire import Output
from murmuration.runtime.node.disks.kept import KeptRuns
from murmuration.runtime.node.disks.own_disk import has_own
from murmuration.runtime.node.disks.watch import TOO_MUCH_DISK
from murmuration.runtime.node.host import NodeHost, ThisHost
from murmuration.runtime.node.images.library import ImageLibrary
from murmuration.runtime.node.images.settings import dress
from murmuration.runtime.node.isolation import (
    Handle,
    Isolation,
    RunLimits,
    RunSpec,
    StartFailed,
    task_folder,
)
from murmuration.runtime.node.isolation.folder import (
    STDERR,
    STDOUT,
    STREAMS,
    is_locked,
    open_plain,
)
from murmuration.runtime.node.isolation.interface import Exit, RunVolume
from murmuration.runtime.node.isolation.roots import NOBODY, USER_ID_MIN
from murmuration.runtime.node.journal import Begun, Journal, Over, Settled, Stopping
from murmuration.runtime.node.probes import probe
from murmuration.runtime.options import KEPT_BYTES, NodeVolume
from murmuration.schedulers.central.messages import JOBS, Ended, Launch, Order
from murmuration.schedulers.central.node_agent import (
    Exited,
    Found,
    Freeze,
    RunStopping,
    Start,
    Started,
    Thaw,
    ending,
)
from murmuration.schedulers.central.services.health import CheckHealth, HealthSeen
from murmuration.schedulers.offers.messages import Status
from murmuration.workload.job_spec import GRACE_S
from murmuration.workload.service_spec import HealthCheck, VolumeMount

#: Bytes that a run may write to its outputs; looked at once a second.
OUTPUT_MAX = 2**30
TOO_MUCH_OUTPUT = "too much output"
PIDS_MAX = 4096
#: When a run is looked at again whose end is not fully known.
AGAIN_S = 0.05
#: How soon after a run has ended its folder is counted among those that are kept.
ROOM_S = 1.0
#: Runs that are looked at side by side.
LOOKS_MAX = 8
MICRO = 1_000_000
#: What a run of another scheduler may have on disk if that says nothing.
DISK_BYTES = 10 * 2**30
AWAY = "its node agent was away for too long"
NEVER_STARTED = "it was never started"
#: What is left of the time of a run that has no limit, in the journal.
UNLIMITED = -1.0

log = logging.getLogger("murmuration.agent")
Tell = Callable[[Any], None]


def folder_name(framework: str, run: str) -> str:
    """Runs of the job manager are called by their names; those of other schedulers have theirs in
    front."""
    return run if framework == JOBS else f"{framework}+{run}"


class DiskBounds(msgspec.Struct, frozen=True):
    """What a run may have on disk here, whoever ordered it, and runs that have ended together; 0 is
    no bound."""

    run_max: int = 0
    kept_max: int = KEPT_BYTES

    def bound(self, launch: Launch) -> int:
        """Bytes for a run. Jobs say what they mean; other schedulers may not know of it."""
        asked = launch.order.disk
        if not asked and launch.framework != JOBS:
            asked = DISK_BYTES
        return min(asked or self.run_max, self.run_max) if self.run_max else asked


class HeldLease:
    """Whether a start that has waited for its turn may still begin: the lease under which it was
    ordered has not ended, or was renewed before it could.

    An order is known by the end of the lease at that time. Once a lease has ended, orders that were
    given under it or before are void for good, whatever is renewed later: by then their runs may be
    elsewhere."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        #: When the lease ends, the latest end there was, and that when a lease last ended.
        self._until_s = self._latest_s = self._lapsed_s = -math.inf

    def renew(self, until_s: float) -> None:
        if self._clock() >= self._until_s:
            self._lapsed_s = self._latest_s
        self._until_s = until_s
        self._latest_s = max(self._latest_s, until_s)

    def covers(self, ordered_until_s: float) -> bool:
        now = self._clock()
        is_renewed = ordered_until_s > self._lapsed_s and now < self._until_s
        return now < ordered_until_s or is_renewed


class Executor:
    """The runs of one node agent."""

    def __init__(
        self,
        folder: Path,
        isolation: Isolation,
        fenced: Callable[[], set[str]],
        tell: Tell,
        host: NodeHost | None = None,
        volumes: Mapping[str, NodeVolume] | None = None,
        images: ImageLibrary | None = None,
        bounds: DiskBounds | None = None,
    ) -> None:
        self.folder, self.isolation, self._tell = folder, isolation, tell
        self._host: NodeHost = host or ThisHost()
        self._volumes, self._images = volumes or {}, images
        self.lease = HeldLease(self._host.monotonic)
        #: The folders of runs that a watchdog has ended: they did not fail by themselves.
        self._fenced = fenced
        self._slow: set[asyncio.Task[None]] = set()
        self._looks = asyncio.Semaphore(LOOKS_MAX)
        self._handles: dict[str, Handle] = {}
        self._folders: dict[str, Path] = {}
        self._bounds = bounds or DiskBounds()
        self._disk = self._host.watch_disk(lambda run: self.kill(run, TOO_MUCH_DISK, now=False))
        self._kept = KeptRuns(self._bounds.kept_max if self._disk is not None else 0)
        self._makes_room = False
        # A process starts in a millisecond, a container in a tenth of a second: that must not hold
        # up heartbeats.
        self._threads = ThreadPoolExecutor(4, "start") if isolation.is_slow else None
        # An image may have to be unpacked first: what needs none must not wait for that.
        self._unpacking = ThreadPoolExecutor(4, "image") if images else None
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._journal = Journal(folder.parent / "journal")

    # Another agent was here before.

    def find(self) -> tuple[list[Found], list[Ended]]:
        """The runs that go on, and the ends nobody has recorded."""
        running: list[Found] = []
        ended: list[Ended] = list(self._journal.over.values())
        open_folders = {
            folder_name(begun.framework, run): begun for run, begun in self._journal.begun.items()
        }
        for folder in sorted(self.folder.iterdir(), key=lambda path: path.stat().st_mtime):
            begun = open_folders.pop(folder.name, None)
            if begun is None:
                self._kept.add(folder)
                continue
            self._folders[begun.run] = folder
            if begun.run in self._journal.over:
                continue
            end = self._look(begun, folder)
            if end is None:
                running.append(self._find_times(begun))
            else:
                self.note_end(end)
                ended.append(end)
        # What has no folder was never started.
        gone = [begun for begun in open_folders.values() if begun.run not in self._journal.over]
        return running, ended + [
            Ended(b.framework, b.run, Status.LOST, reason=NEVER_STARTED) for b in gone
        ]

    def _find_times(self, begun: Begun) -> Found:
        """A run that goes on, or is suspended: then nobody knows whether it has been told."""
        ends_s = math.inf if begun.ends_s is None else begun.ends_s
        left_s = math.inf if begun.left_s == UNLIMITED else begun.left_s
        if left_s is not None:
            self.isolation.freeze(self._handles[begun.run])
        return Found(begun.framework, begun.run, begun.request, ends_s, begun.health, left_s)

    def _look(self, begun: Begun, folder: Path) -> Ended | None:
        handle = self.isolation.recover(folder)
        if handle is None:
            self.isolation.clean(folder)
            return self._ending(begun, Exited(begun.run, reason="it ended without a trace"))
        exit_ = self.isolation.poll(handle)
        if exit_ is None:
            self._handles[begun.run] = handle
            return None
        self.isolation.clean(folder)
        return self._ending(begun, self._exit(begun.run, folder, exit_))

    def _ending(self, begun: Begun, exited: Exited) -> Ended:
        """How a run ended that no agent saw ending, after what it was told to stop for."""
        stop = self._journal.stopping.get(begun.run)
        asked, why = (None, "") if stop is None else (stop.asked, stop.reason)
        return ending(begun.framework, exited, asked, why)

    def _exit(self, run: str, folder: Path, end: Exit) -> Exited:
        if end.code != 0 and folder.name in self._fenced():
            return Exited(run, reason=AWAY)
        return Exited(run, end.code, end.signal, end.reason)

    @property
    def stopping(self) -> dict[str, RunStopping]:
        """What runs were told to stop for."""
        return self._journal.stopping

    @property
    def unsettled(self) -> set[str]:
        """The folders of runs whose ends are not recorded."""
        return {folder_name(begun.framework, run) for run, begun in self._journal.begun.items()}

    def watch_found(self) -> None:
        for run, handle in self._handles.items():
            self._watch(run, handle)

    # Starting.

    def start(self, command: Start) -> None:
        launch = command.launch
        if not self.lease.covers(command.until_s):
            # The agent was suspended after it had decided; the run may go elsewhere by now.
            self._tell(Exited(launch.run, reason=AWAY))
            return
        # Before anything of the task is touched: journal, folder, ports. A failure up to here is
        # the node's, and the master may try the task elsewhere at once.
        try:
            folder = task_folder(self.folder, folder_name(launch.framework, launch.run))
            ends = None if command.ends_s == float("inf") else command.ends_s
            if (
                launch.framework == JOBS
                and launch.run not in self._journal.begun
                and not is_locked(folder)
            ):
                # A job of this name was forgotten long ago; what is left of it is only its output.
                remove_tree(folder)
            grace_s = launch.order.grace_s
            begun = Begun(launch.framework, launch.run, launch.request, ends, grace_s)
            self._journal.write(begun)
            given = self._host.find_ports(launch.order.ports)
            self._note_health(begun, launch.order.health, given)
            folder.mkdir(mode=0o700)
            environment = {**launch.order.environment, **name_ports(given)}
            user = launch.order.user
            volumes = tuple(self._find_volume(each, user) for each in launch.order.volumes)
        except (OSError, StartFailed, InputError) as error:
            # Nothing of the task was looked at yet, so that it cannot be its fault.
            sentence = _sentence(error)
            self._tell(Exited(launch.run, reason=sentence, started=False, node_fault=True))
            return
        self._folders[launch.run] = folder
        cpu, memory = launch.request[0] / MICRO, launch.request[1]
        spec = RunSpec(
            launch.run,
            list(launch.order.command),
            environment,
            RunLimits(cpu, memory, PIDS_MAX, self._bounds.bound(launch)),
            folder,
            tuple(given),
            launch.order.host_network,
            volumes,
        )
        if launch.order.image:
            self._later(self._start_image(launch.order, spec, command.until_s))
        elif self._threads is None:
            self._on_started(launch.run, self._try(spec, command.until_s))
        else:
            self._later(self._start_slowly(launch.run, spec, command.until_s))

    def _find_volume(self, wanted: VolumeMount, user: str) -> RunVolume:
        """A volume as the operator has allowed it. The master knows what there is; what is gone
        since is the node's fault."""
        if wanted.name not in self._volumes:
            raise InputError(f"there is no volume {wanted.name!r} here")
        volume = self._volumes[wanted.name]
        if not Path(volume.path).is_dir():
            raise InputError(f"volume {wanted.name!r}: {volume.path} is no folder any more")
        is_read_only = volume.is_read_only or wanted.read_only
        account = find_account(user) if volume.is_by_account else None
        return RunVolume(Path(volume.path), wanted.at, is_read_only, account)

    def _note_health(self, begun: Begun, check: HealthCheck | None, ports: Sequence[int]) -> None:
        """Keep how a run is looked at, now that its ports are known."""
        if check is not None:
            if not check.command and not check.port:
                check = msgspec.structs.replace(check, port=ports[0])
            self._journal.write(msgspec.structs.replace(begun, health=check))

    def probe(self, look: CheckHealth) -> None:
        """See whether a run is well; one answer comes of it, unless the run ends before."""
        handle, begun = self.running(look.run), self._journal.begun.get(look.run)
        if handle is not None and begun is not None and begun.health is not None:
            self._later(self._probe(look, handle, begun.health))

    async def _probe(self, look: CheckHealth, handle: Handle, check: HealthCheck) -> None:
        async with self._looks:
            error = await probe(check, handle, self.isolation)
        self._tell(HealthSeen(look.run, look.number, error))

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something slow beside the loop. The task is held, because asyncio keeps only a weak
        reference to it."""
        task = asyncio.get_running_loop().create_task(work)
        self._slow.add(task)
        task.add_done_callback(self._slow.discard)

    async def _start_slowly(self, run: str, spec: RunSpec, until_s: float) -> None:
        result = await asyncio.get_running_loop().run_in_executor(
            self._threads, self._try, spec, until_s
        )
        self._on_started(run, result)

    async def _start_image(self, order: Order, spec: RunSpec, until_s: float) -> None:
        result = await asyncio.get_running_loop().run_in_executor(
            self._unpacking, self._try_image, order, spec, until_s
        )
        self._on_started(spec.task, result)

    def _try_image(self, order: Order, spec: RunSpec, until_s: float) -> Handle | Exited:
        """Start a run in an image, which stays while it starts and as long as its bundle does."""
        try:
            if self._images is None:
                raise StartFailed(f"image {order.image}: this node has no images")
            with self._images.hold(order.image) as held:
                return self._try(dress(spec, order, held), until_s)
        except (StartFailed, InputError) as error:
            return self._refuse(spec.task, error)

    def _try(self, spec: RunSpec, until_s: float) -> Handle | Exited:
        """Start a run, unless its lease is over. A command that is no program is the fault of its
        task; what the operating system refuses is its node's."""
        # Asked again here, on the thread that starts: a start may have waited for its turn behind
        # others, and a task that starts after its lease may run twice, because the master has given
        # it to another node by then.
        if not self.lease.covers(until_s):
            return Exited(spec.task, reason=AWAY)
        try:
            return self.isolation.start(spec)
        except (StartFailed, InputError, OSError) as error:
            return self._refuse(spec.task, error)

    def _refuse(self, run: str, error: Exception) -> Exited:
        is_refused = isinstance(error, OSError) or isinstance(error.__cause__, OSError)
        return Exited(run, reason=_sentence(error), started=False, node_fault=is_refused)

    def _on_started(self, run: str, handle: Handle | Exited) -> None:
        if isinstance(handle, Exited):
            self._tell(handle)
            return
        self._handles[run] = handle
        self._tell(Started(run))
        self._watch(run, handle)

    def _watch(self, run: str, handle: Handle) -> None:
        if handle.ended is not None:
            self._on_exited(run)
            return
        # A descriptor of the process (pidfd), not its number: numbers are used again, and a signal
        # by number could hit a stranger. It becomes readable when the process ends.
        try:
            asyncio.get_running_loop().add_reader(handle.fileno(), self._on_exited, run)
        except ProcessLookupError:
            self._on_exited(run)

    # Suspending.

    def freeze(self, act: Freeze) -> None:
        """Written down first: whoever finds the run must not let it go on, nor its time limit."""
        self._note_left(act.run, act.left_s if act.left_s < math.inf else UNLIMITED, None)
        if act.run in self._handles:
            self.isolation.freeze(self._handles[act.run])

    def thaw(self, act: Thaw) -> None:
        self._note_left(act.run, None, act.ends_s if act.ends_s < math.inf else None)
        if act.run in self._handles:
            self.isolation.thaw(self._handles[act.run])

    def _note_left(self, run: str, left_s: float | None, ends_s: float | None) -> None:
        begun = self._journal.begun.get(run)
        if begun is not None:
            with contextlib.suppress(OSError):
                changed = msgspec.structs.replace(begun, left_s=left_s, ends_s=ends_s)
                self._journal.write(changed)

    # Ending.

    def kill(self, run: str, reason: str, now: bool) -> None:
        handle = self._handles.get(run)
        if handle is not None:
            self.isolation.kill(handle, 0.0 if now else self._grace_s(run), reason)

    def _grace_s(self, run: str) -> float:
        begun = self._journal.begun.get(run)
        return GRACE_S if begun is None else begun.grace_s

    def kill_all(self, runs: Iterable[str]) -> None:
        """End these without patience: all are killed before anything is cleared up."""
        doomed = [self._handles[run].folder for run in runs if run in self._handles]
        if doomed:
            self.isolation.kill_all(doomed)

    def _on_exited(self, run: str) -> None:
        handle = self._handles.get(run)
        if handle is None:
            return
        if handle.pidfd >= 0:
            asyncio.get_running_loop().remove_reader(handle.pidfd)
        end = self.isolation.poll(handle)
        if end is None:
            # The descriptor became readable before all was known of the end.
            asyncio.get_running_loop().call_later(AGAIN_S, self._on_exited, run)
            return
        del self._handles[run]
        handle.close()
        exited = self._exit(run, handle.folder, end)
        # Clean first, tell afterwards: once the master knows of the end it may place something else
        # here, and a port or an amount of memory that is still held would fail that task.
        if self._threads is None:
            self.isolation.clean(handle.folder)
            self._tell(exited)
        else:
            self._later(self._clean_slowly(handle.folder, exited))

    async def _clean_slowly(self, folder: Path, exited: Exited) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(
                self._threads, self.isolation.clean, folder
            )
        except OSError as error:
            log.warning("something of %s is left: %s", exited.run, error)
        self._tell(exited)

    def poll(self) -> None:
        """Once a second: graces end, limits are watched, and ends that nobody noticed are."""
        for _ in self.poll_each():
            pass

    def poll_each(self) -> Iterator[None]:
        """The same, one run after the other: with many of them a heartbeat shall come between."""
        # A copy, because `_on_exited` takes entries out. One that is told to stop already keeps its
        # first reason.
        for run, handle in list(self._handles.items()):
            if self._handles.get(run) is not handle:
                continue
            if handle.order is None and output_size(handle.folder) > output_max(handle):
                self.isolation.kill(handle, self._grace_s(run), TOO_MUCH_OUTPUT)
            begun = self._journal.begun.get(run)
            if begun is not None and begun.left_s is not None:
                # It may have been told before its command ran.
                self.isolation.freeze(handle)
            if handle.ended is not None or self.isolation.poll(handle) is not None:
                self._on_exited(run)
            else:
                self.isolation.usage(handle)
            yield
        if self._disk is not None:
            self._disk.look(
                {
                    run: (handle.folder, handle.limits.disk)
                    for run, handle in self._handles.items()
                    if handle.limits.disk and handle.order is None and not has_own(handle.folder)
                }
            )

    def note_end(self, ended: Ended) -> None:
        """Keep an end until it is recorded; a full disk loses it only if the agent dies too."""
        with contextlib.suppress(OSError):
            self._journal.write(Over(ended))

    def note_stop(self, stop: RunStopping) -> None:
        """Keep what a run is about to be stopped for. A full disk must not keep it from being
        stopped: a task that fills the disk is one that has to be."""
        with contextlib.suppress(OSError):
            self._journal.write(Stopping(stop))

    def forget(self, run: str) -> None:
        """The end is recorded: only the output is kept, for the last runs."""
        with contextlib.suppress(OSError):
            self._journal.write(Settled(run))
        folder = self._folders.pop(run, None)
        if folder is not None:
            self._kept.add(folder)
            if self._kept.has_to_look and not self._makes_room:
                self._makes_room = True
                asyncio.get_running_loop().call_later(ROOM_S, self._make_room)

    def _make_room(self) -> None:
        """Look at what has ended meanwhile all at once: a thread for each end would cost more than
        the look."""
        self._makes_room = False
        asyncio.get_running_loop().run_in_executor(None, self._kept.make_room)

    # Looking.

    def running(self, run: str) -> Handle | None:
        """The handle of a run that has started and was not told to stop."""
        handle = self._handles.get(run)
        return handle if handle is not None and handle.order is None else None

    def usage(self) -> dict[str, tuple[float, int]]:
        """As of the last look at each."""
        return {run: handle.used for run, handle in self._handles.items() if handle.ended is None}

    def read(self, run: str, stream: str, offset: int, size: int) -> Output:
        """A part of a run's output; never through a link, never outside the folder."""
        try:
            path = task_folder(self.folder, run) / (stream if stream in STREAMS else STDOUT)
            with open_plain(path) as file:
                data = os.pread(file.fileno(), max(0, min(size, 2**20)), offset)
                return Output(data, os.fstat(file.fileno()).st_size)
        except InputError as error:
            return Output(error=str(error))
        except (OSError, OverflowError):
            return Output(error=f"no output of {run} is kept")


def _sentence(error: Exception) -> str:
    if isinstance(error, FileExistsError):
        return "a task of this name has run here before"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'starting it'}: {error.strerror.lower()}"
    return str(error)


def find_account(user: str) -> tuple[int, int] | None:
    """The account of a user on this node, by its numbers. Those of the system are nobody's to
    become."""
    try:
        known = pwd.getpwnam(user)
    except (KeyError, ValueError):
        return None
    is_person = all(USER_ID_MIN <= number < NOBODY for number in (known.pw_uid, known.pw_gid))
    return (known.pw_uid, known.pw_gid) if is_person else None


def output_max(handle: Handle) -> int:
    """What a run may write to its outputs, which are not on a disk of its own."""
    is_bounded = handle.limits.disk and has_own(handle.folder)
    return min(OUTPUT_MAX, handle.limits.disk) if is_bounded else OUTPUT_MAX


def output_size(folder: Path) -> int:
    """Bytes on disk of what a run has written to both outputs."""
    size = 0
    for name in (STDOUT, STDERR):
        with contextlib.suppress(OSError):
            size += os.lstat(folder / name).st_blocks * 512
    return size


def name_ports(ports: Sequence[int]) -> dict[str, str]:
    """The environment that names the ports of a task."""
    if not ports:
        return {}
    return {"MURMUR_PORT": str(ports[0]), "MURMUR_PORTS": ",".join(map(str, ports))}
