"""Images made for a test: layers of chosen entries, laid out as OCI says."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import shutil
import tarfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from murmuration.runtime.node.images.shell import read_loader

#: A static program with a shell and all that a test wants to call in it.
BUSYBOX = shutil.which("busybox") or ""
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
Entry = tuple[tarfile.TarInfo, bytes]
GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"


def need_busybox() -> None:
    if not BUSYBOX or read_loader(Path(BUSYBOX)) is not None:
        pytest.skip("a static busybox is needed (Debian's busybox-static)")


def entry(name: str, content: bytes | str = b"", **fields: Any) -> Entry:
    """A file of a layer; `type`, `linkname`, `mode`, `uid` and so on are those of tar."""
    info = tarfile.TarInfo(name)
    data = content.encode() if isinstance(content, str) else content
    info.size, info.mode, info.mtime = len(data), 0o644, 1_700_000_000
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def folder(name: str, **fields: Any) -> Entry:
    return entry(name, type=tarfile.DIRTYPE, **{"mode": 0o755, **fields})


def link(name: str, target: str, **fields: Any) -> Entry:
    return entry(name, type=tarfile.SYMTYPE, linkname=target, **fields)


def pack(entries: Iterable[Entry]) -> bytes:
    """A plain tar archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in entries:
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def busybox_layer() -> bytes:
    names = ("sh", "cat", "ls", "id", "env", "sleep", "echo", "touch", "pwd", "grep", "stat")
    return pack(
        [
            folder("bin"),
            folder("etc"),
            entry("bin/busybox", Path(BUSYBOX).read_bytes(), mode=0o755),
            *(link(f"bin/{name}", "busybox") for name in names),
            entry("etc/passwd", "root:x:0:0::/:/bin/sh\nanna:x:1000:100::/home:/bin/sh\n"),
            entry("etc/group", "root:x:0:\nusers:x:100:\nextra:x:77:anna\n"),
        ]
    )


def digest_of(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Layout:
    """An OCI image layout in a folder."""

    def __init__(self, place: Path) -> None:
        self.place = place
        (place / "blobs/sha256").mkdir(parents=True)
        (place / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
        self.manifests: list[dict[str, Any]] = []

    def blob(self, data: bytes, **fields: Any) -> dict[str, Any]:
        digest = digest_of(data)
        (self.place / "blobs" / digest.replace(":", "/")).write_bytes(data)
        return {"digest": digest, "size": len(data), **fields}

    def add(
        self,
        layers: Iterable[bytes],
        tag: str = "",
        compress: Callable[[bytes], bytes] = gzip.compress,
        changes: dict[str, Any] | None = None,
        **run: Any,
    ) -> str:
        """Add an image of these layers; the digest of its manifest."""
        layers = list(layers)
        config = {
            "os": "linux",
            "architecture": ARCHITECTURE,
            "config": run,
            "rootfs": {"type": "layers", "diff_ids": [digest_of(layer) for layer in layers]},
            **(changes or {}),
        }
        manifest = {
            "schemaVersion": 2,
            "config": self.blob(json.dumps(config).encode()),
            "layers": [self.blob(compress(layer), mediaType=GZIP) for layer in layers],
        }
        made = self.blob(json.dumps(manifest).encode())
        names = {"org.opencontainers.image.ref.name": tag} if tag else {}
        self.manifests.append({**made, "annotations": names})
        self.write()
        return str(made["digest"])

    def write(self) -> None:
        index = {"schemaVersion": 2, "manifests": self.manifests}
        (self.place / "index.json").write_text(json.dumps(index))

    def archive(self, path: Path) -> Path:
        """The same as a tar archive."""
        with tarfile.open(path, "w") as archive:
            archive.add(self.place, ".")
        return path
