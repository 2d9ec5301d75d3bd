"""The process that unpacks an image: it can reach nothing but the folder it fills.

What is in an image was written by strangers, so the kernel is asked to hold what they can do, and
not only this code: the process has users of its own, whose root is nobody on the node, the folder
is its root (`chroot`), and its memory, its time and the size of a file are limited. A path that
climbs out, a link that leads out, a device or a program that makes root cannot do any harm then.

It is a file to run by itself (`python unpack.py FOLDER`), with the standard library alone. It says
when its users can be mapped, is told what to do in a line of JSON, and answers with another one.
"""

from __future__ import annotations

import contextlib
import ctypes
import gzip
import hashlib
import importlib
import io
import json
import os
import posixpath
import resource
import shutil
import signal
import stat
import sys
import tarfile
from typing import IO, Any

CLONE_NEWUSER = 0x10000000
PR_SET_PDEATHSIG = 1
MEMORY_BYTES_MAX = 2**30
CPU_S_MAX = 1800
USERS = 65_536
PATH_MAX = 4096
WINDOW_MAX = 2**27
WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
GZIP, ZSTANDARD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
READY, ENCODING = "ready", "utf-8"


class BadImageError(Exception):
    """The image cannot be unpacked; the sentence says why."""


class FileSlice(io.RawIOBase):
    """Some bytes of a file that others read too."""

    def __init__(self, descriptor: int, offset: int, size: int) -> None:
        self._descriptor, self._at, self._end = descriptor, offset, offset + size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        size = min(len(buffer), self._end - self._at)
        data = os.pread(self._descriptor, size, self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class MeasuredStream(io.RawIOBase):
    """A stream whose bytes are counted, bounded and digested."""

    def __init__(self, stream: IO[bytes], bytes_max: int, algorithm: str) -> None:
        self._stream, self._left = stream, bytes_max
        self.digest = hashlib.new(algorithm)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray) -> int:  # type: ignore[override]
        data = self._stream.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise BadImageError("it unpacks to more than an image may have")
        self.digest.update(data)
        buffer[: len(data)] = data
        return len(data)

    def drain(self) -> None:
        while self.read(2**16):
            pass


class Unpacker:
    """Lays layers one over the other, in the root of this process."""

    def __init__(self, bytes_max: int, entries_max: int) -> None:
        self._left, self._entries_left = bytes_max, entries_max
        #: What the layer at hand has brought, and when its folders were changed last.
        self._made: set[str] = set()
        self._times: dict[str, float] = {}
        self.size = 0

    def add(self, layer: dict[str, object], files: list[int]) -> None:
        """Unpack one layer; what it unpacked to must be what its digest says."""
        file, diff_id = files[int(str(layer["file"]))], str(layer["diff_id"])
        algorithm, _, expected = diff_id.partition(":")
        where = int(str(layer["offset"])), int(str(layer["size"]))
        packed = io.BufferedReader(FileSlice(file, *where), 2**16)  # type: ignore[type-var]
        measured = MeasuredStream(open_packed(packed), self._left, algorithm or "sha256")
        self._made, self._times = set(), {}
        with tarfile.open(fileobj=measured, mode="r|", errorlevel=2) as archive:
            for member in archive:
                self._take(archive, member)
        measured.drain()
        for path, time in self._times.items():
            with contextlib.suppress(OSError):
                os.utime(path, (time, time), follow_symlinks=False)
        if expected and measured.digest.hexdigest() != expected:
            found = f"{algorithm}:{measured.digest.hexdigest()}"
            raise BadImageError(f"expected a layer with {diff_id}, got {found}")

    def _take(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        self._entries_left -= 1
        if self._entries_left < 0:
            raise BadImageError("it has more files than an image may have")
        path = posixpath.normpath(f"/{member.name}")
        if len(os.fsencode(path)) >= PATH_MAX or "\0" in path:
            raise BadImageError("it has a name that is longer than names can be")
        folder, name = posixpath.split(path)
        # Folders may be links to others; a file has one name here, whichever way it was reached.
        folder = os.path.realpath(folder)
        path = posixpath.join(folder, name)
        if name == OPAQUE:
            self._clear(folder)
            self._note(folder)
        elif name.startswith(WHITEOUT):
            self._hide(posixpath.join(folder, name.removeprefix(WHITEOUT)))
        elif path == "/":
            own(path, member)
        elif not (member.ischr() or member.isblk() or member.isfifo()):
            os.makedirs(folder, exist_ok=True)
            self._make(archive, member, path)
            self._note(path)

    def _note(self, path: str) -> None:
        """This layer has brought a file, and so the folders above it."""
        while path not in self._made:
            self._made.add(path)
            path = posixpath.dirname(path)

    def _make(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        """Put one file there, in the place of whatever was."""
        if not (member.isdir() and is_folder(path)):
            remove(path)
        if member.isdir():
            with contextlib.suppress(FileExistsError):
                os.mkdir(path)
            self._times[path] = member.mtime
        elif member.islnk():
            os.link(posixpath.normpath(f"/{member.linkname}"), path, follow_symlinks=False)
            return
        elif member.issym():
            os.symlink(member.linkname, path)
        else:
            self._write(archive, member, path)
        own(path, member)

    def _write(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        source = archive.extractfile(member)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            if source is not None:
                shutil.copyfileobj(source, file, 2**18)
            file.flush()
            size = os.fstat(file.fileno()).st_blocks * 512
        self.size += size
        self._left -= size
        if self._left < 0:
            raise BadImageError("it unpacks to more than an image may have")

    def _hide(self, path: str) -> None:
        """A layer takes away what lower ones have brought, and not what itself has."""
        if path in self._made:
            self._clear(path)
        else:
            remove(path)

    def _clear(self, folder: str) -> None:
        if not is_folder(folder):
            return
        for name in os.listdir(folder):
            self._hide(posixpath.join(folder, name))


def open_packed(packed: io.BufferedReader[Any]) -> IO[bytes]:
    """What a layer holds, however it is compressed; its first bytes tell."""
    first = packed.peek(4)
    if first.startswith(GZIP):
        return gzip.GzipFile(fileobj=packed)  # type: ignore[return-value]
    if first.startswith(ZSTANDARD):
        return open_zstandard(packed)
    return packed


def open_zstandard(packed: IO[bytes]) -> IO[bytes]:
    try:
        library = importlib.import_module("zstandard")
    except ImportError:
        sentence = "a layer is compressed with zstd; install the package zstandard"
        raise BadImageError(sentence) from None
    reader: IO[bytes] = library.ZstdDecompressor(max_window_size=WINDOW_MAX).stream_reader(
        packed, read_across_frames=True
    )
    return reader


def own(path: str, member: tarfile.TarInfo) -> None:
    """Give a file its owner, mode and time. No program becomes another user by being started."""
    if not (0 <= member.uid < USERS and 0 <= member.gid < USERS):
        sentence = f"expected users below {USERS}, got {member.uid}:{member.gid}"
        raise BadImageError(f"{member.name[:200]}: {sentence}")
    os.chown(path, member.uid, member.gid, follow_symlinks=False)
    if not member.issym():
        keeps = 0o3777 if member.isdir() else 0o1777
        os.chmod(path, member.mode & keeps)
    with contextlib.suppress(OSError, OverflowError, ValueError):
        os.utime(path, (member.mtime, member.mtime), follow_symlinks=False)


def is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def remove(path: str) -> None:
    if is_folder(path):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(path)


def confine(folder: str, bytes_max: int) -> None:
    """Make a folder the root, and root of it nobody on the node; die with who started this."""
    os.chroot(folder)
    os.chdir("/")
    os.setgroups([])
    os.setresgid(0, 0, 0)
    os.setresuid(0, 0, 0)
    os.umask(0o022)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for kind, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES_MAX),
        (resource.RLIMIT_CPU, CPU_S_MAX),
        (resource.RLIMIT_FSIZE, bytes_max),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(kind, (most, most))
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def separate() -> None:
    """Users of its own, which whoever started this maps."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "no user namespace can be made")


def work(folder: str) -> dict[str, object]:
    """Do what is asked for; the answer."""
    separate()
    print(READY, flush=True)
    asked = json.loads(sys.stdin.readline())
    with contextlib.suppress(ImportError):  # before there is nothing to import from
        importlib.import_module("zstandard")
    confine(folder, asked["bytes_max"])
    unpacker = Unpacker(asked["bytes_max"], asked["entries_max"])
    for layer in asked["layers"]:
        unpacker.add(layer, asked["files"])
    return {"size": unpacker.size}


def main() -> None:
    try:
        answer = work(sys.argv[1])
    except BadImageError as error:
        answer = {"error": str(error)}
    except OSError as error:
        name = str(error.filename or "").lstrip("/")[:200]
        sentence = ": ".join(filter(None, (name, (error.strerror or str(error)).lower())))
        answer = {"error": sentence, "errno": error.errno}
    except MemoryError:
        answer = {"error": "it needs too much memory to be unpacked"}
    except (tarfile.TarError, EOFError, ValueError, RecursionError) as error:
        answer = {"error": f"a layer is no tar archive that can be read: {error}"[:300]}
    except Exception as error:  # what a decompressor raises has no common class
        answer = {"error": f"a layer cannot be read: {error}"[:300]}
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
