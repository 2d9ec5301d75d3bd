"""The images of a node: each is unpacked once, when a task first needs it, into a folder named by
its digest; tasks share it and write into layers of their own.

A folder is there whole or not at all: it is filled under another name and renamed when it is on
disk, so an agent that is killed meanwhile leaves something that the next one removes. An image is
in use while a task's bundle names it; those that are not make room, the longest unused first, when
all together take more than their bound.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from murmuration.base.errors import InputError
from murmuration.runtime.folder import remove_tree
from murmuration.runtime.node.images import unpack
from murmuration.runtime.node.images.layout import (
    ImageSource,
    RunConfig,
    find_image,
    verify,
)
from murmuration.runtime.node.images.shell import Shell, make_shell
from murmuration.runtime.node.isolation.bundle import BUNDLE
from murmuration.runtime.node.isolation.bundle import IMAGE as IMAGE_NAME
from murmuration.runtime.node.isolation.interface import StartFailed
from murmuration.runtime.node.isolation.roots import IDS, choose_range
from murmuration.runtime.options import AgentOptions
from murmuration.workload.service_spec import IMAGE

ROOT, ABOUT, FRESH = "root", "image.json", "new-"
#: What one image may take on disk, and how many files it may have.
IMAGE_BYTES_MAX, ENTRIES_MAX = 32 * 2**30, 2_000_000
KEY = re.compile(r"sha(256|512)-[0-9a-f]+")
#: What is the node's fault and not the image's.
NODE_ERRORS = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EIO,
    errno.EROFS,
    errno.ENOMEM,
    errno.EMFILE,
    errno.ENFILE,
    errno.EAGAIN,
}

log = logging.getLogger("murmuration.agent")


class KeptImage(msgspec.Struct, frozen=True):
    """What is known of an image that was unpacked: how it is run, and its size."""

    run: RunConfig
    size: int


class HeldImage(msgspec.Struct, frozen=True):
    """An image that stays as long as it is held."""

    key: str
    root: Path
    shell: Shell
    run: RunConfig


class UnpackAnswer(msgspec.Struct, frozen=True):
    """What the process that unpacks says in the end."""

    size: int = 0
    error: str = ""
    errno: int | None = None


class ImageLibrary:
    """The images of one node. Its methods may be called from any thread."""

    def __init__(
        self,
        folder: Path,
        sources: Mapping[str, str],
        list_used: Callable[[], set[str]],
        bytes_max: int,
    ) -> None:
        self._folder, self._sources = folder, sources
        self._list_used, self._bytes_max = list_used, bytes_max
        self._held: Counter[str] = Counter()
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._lock = threading.Lock()
        #: What a path held when it was looked at last, by what the file system says of it.
        self._seen: dict[tuple[object, ...], ImageSource] = {}
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in folder.glob(f"{FRESH}*"):
            remove_tree(left)
        self._shell = make_shell(folder)

    @contextlib.contextmanager
    def hold(self, wanted: str) -> Iterator[HeldImage]:
        """The image of a job's name for it, unpacked, for as long as the caller needs it.
        StartFailed if it cannot be had."""
        try:
            source = self._find(wanted)
        except (InputError, OSError) as error:
            raise explain(wanted, error) from error.__cause__ or error
        key = source.key.replace(":", "-")
        self._pin(key, 1)
        try:
            with self._locks[key]:
                kept = self._read(key) or self._unpack(wanted, key, source)
            os.utime(self._folder / key / ABOUT)
            yield HeldImage(key, self._folder / key / ROOT, self._shell, kept.run)
        finally:
            self._pin(key, -1)

    def _pin(self, key: str, by: int) -> None:
        with self._lock:
            self._held[key] += by

    def _find(self, wanted: str) -> ImageSource:
        """What a job's name for an image stands for at this moment."""
        parts = IMAGE.fullmatch(wanted)
        if parts is None or parts["name"] not in self._sources:
            raise InputError("there is no such image here")
        path, tag, digest = (
            Path(self._sources[parts["name"]]),
            parts["tag"] or "",
            parts["digest"] or "",
        )
        # A layout in a folder is three small files; an archive is read whole.
        seen = path.stat()
        mark = (wanted, seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns)
        if path.is_dir() or mark not in self._seen:
            self._seen = {old: each for old, each in self._seen.items() if old[0] != wanted}
            self._seen[mark] = find_image(path, tag, digest)
        return self._seen[mark]

    def _read(self, key: str) -> KeptImage | None:
        try:
            return msgspec.json.decode((self._folder / key / ABOUT).read_bytes(), type=KeptImage)
        except (OSError, msgspec.DecodeError):
            return None

    def _unpack(self, wanted: str, key: str, source: ImageSource) -> KeptImage:
        log.info("image %s is unpacked (%s)", wanted, source.key)
        fresh = Path(tempfile.mkdtemp(prefix=FRESH, dir=self._folder))
        try:
            size = fill_root(fresh / ROOT, source, choose_range(key.encode()))
            kept = KeptImage(source.run, size)
            (fresh / ABOUT).write_bytes(msgspec.json.encode(kept))
            flush(fresh)
            remove_tree(self._folder / key)
            fresh.rename(self._folder / key)
        except (InputError, OSError) as error:
            remove_tree(fresh)
            raise explain(wanted, error) from error.__cause__ or error
        self._make_room()
        return kept

    def _make_room(self) -> None:
        """Remove what nobody uses, the longest unused first, until the rest is within bounds."""
        with self._lock:
            images = sorted(self._list_kept())
            left = sum(size for _, size, _ in images)
            used = {key for key, count in self._held.items() if count} | self._list_used()
            for _, size, key in images:
                if left > self._bytes_max and key not in used:
                    (self._folder / key / ABOUT).unlink(missing_ok=True)
                    remove_tree(self._folder / key)
                    log.info("image %s was removed to make room", key)
                    left -= size

    def _list_kept(self) -> Iterator[tuple[float, int, str]]:
        for path in self._folder.iterdir():
            kept = self._read(path.name) if KEY.fullmatch(path.name) else None
            if kept is not None:
                yield (path / ABOUT).stat().st_mtime, kept.size, path.name


def explain(wanted: str, error: Exception) -> StartFailed:
    """What is said of an image that cannot be had."""
    if isinstance(error, OSError):
        error_text = f"{error.filename or 'it cannot be read'}: {(error.strerror or '').lower()}"
        return StartFailed(f"image {wanted}: {error_text}")
    return StartFailed(f"image {wanted}: {error}")


def fill_root(root: Path, source: ImageSource, first_id: int) -> int:
    """Unpack an image into a new folder that belongs to the users from this number on; its size in
    bytes."""
    for layer in source.layers:
        verify(layer.blob, layer.digest)
    root.mkdir()
    os.chown(root, first_id, first_id)
    root.chmod(0o755)
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(layer.blob.path, "rb")) for layer in source.layers]
        numbers = [file.fileno() for file in files]
        process = stack.enter_context(start_unpacking(root, numbers))
        stack.callback(process.kill)
        answer = direct(process, source, numbers, first_id)
    if answer.error:
        failure = InputError(answer.error)
        if answer.errno in NODE_ERRORS:
            failure.__cause__ = OSError(answer.errno, answer.error)
        raise failure
    return answer.size


def start_unpacking(root: Path, files: list[int]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", unpack.__file__, str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=files,
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
    )


def direct(
    process: subprocess.Popen[bytes], source: ImageSource, files: list[int], first_id: int
) -> UnpackAnswer:
    """Map the users of the process, tell it what to do, and hear how it went."""
    assert process.stdin is not None and process.stdout is not None
    line = process.stdout.readline()
    if line.decode().strip() == unpack.READY:
        for name in ("uid_map", "gid_map"):
            Path(f"/proc/{process.pid}/{name}").write_text(f"0 {first_id} {IDS}\n")
        asked = {
            "files": files,
            "layers": [
                {
                    "file": k,
                    "offset": layer.blob.offset,
                    "size": layer.blob.size,
                    "diff_id": layer.diff_id,
                }
                for k, layer in enumerate(source.layers)
            ],
            "bytes_max": IMAGE_BYTES_MAX,
            "entries_max": ENTRIES_MAX,
        }
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode(asked) + b"\n")
            process.stdin.flush()
        line = process.stdout.readline()
    code = process.wait()
    try:
        return msgspec.json.decode(line, type=UnpackAnswer)
    except msgspec.DecodeError:
        return UnpackAnswer(error=f"unpacking ended with code {code} and no word")


def flush(folder: Path) -> None:
    """Have everything on the folder's file system on disk: a name must not outlive a power cut that
    its content does not."""
    place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        ctypes.CDLL(None).syncfs(place)
    finally:
        os.close(place)


def open_library(folder: Path, tasks: Path, options: AgentOptions) -> ImageLibrary | None:
    """The images of a node, if its operator has named any."""
    if not options.images:
        return None
    try:
        return ImageLibrary(
            folder / "images", options.images, lambda: list_used(tasks), options.image_bytes_max
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(f"--image: the shell of this node cannot be copied: {error}") from error


def list_used(tasks: Path) -> set[str]:
    """The images that bundles of tasks name."""
    found = set()
    for path in tasks.glob(f"*/{BUNDLE}/{IMAGE_NAME}"):
        with contextlib.suppress(OSError):
            found.add(path.read_text()[:200])
    return found
