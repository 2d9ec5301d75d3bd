"""Where an image comes from: an OCI image layout (a folder, or a tar archive of one), or a tar
archive of a root file system.

Everything that a digest names is checked against it: the manifest and the configuration when they
are read, a layer before it is unpacked (`verify`) and once more while it is (`unpack.py`). A tar
archive of a root has no digest in it, and is known by that of its own bytes.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from murmuration.base.errors import InputError

#: A digest that can be checked, and be the name of a file.
DIGEST = re.compile(r"(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})")
DOCUMENT_BYTES_MAX = 4 * 2**20
LAYERS_MAX = 256
#: An archive whose first members are all something else is no layout.
MEMBERS_MAX = 10_000
NESTING_MAX = 4
#: At the top of what docker save writes.
DOCKER = "manifest.json"
CHUNK = 2**20
TAG = "org.opencontainers.image.ref.name"
LATEST = "latest"
#: What OCI calls the processors that Python calls otherwise.
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "i686": "386"}


class Blob(msgspec.Struct, frozen=True):
    """Some bytes of a file."""

    path: Path
    offset: int
    size: int

    def read(self, size_max: int = DOCUMENT_BYTES_MAX) -> bytes:
        if self.size > size_max:
            raise InputError(f"{self.path}: expected at most {size_max} bytes, got {self.size}")
        with open(self.path, "rb") as file:
            return os.pread(file.fileno(), self.size, self.offset)


class Platform(msgspec.Struct, frozen=True):
    """What a program must run on."""

    os: str = "linux"
    architecture: str = ""


class Descriptor(msgspec.Struct, frozen=True, rename="camel"):
    """How one part of an image names another."""

    digest: str
    size: int
    media_type: str = ""
    annotations: dict[str, str] | None = None
    platform: Platform | None = None


class ImageIndex(msgspec.Struct, frozen=True):
    """The images of a layout, or one image for several platforms."""

    manifests: list[Descriptor]


class Manifest(msgspec.Struct, frozen=True):
    """One image: its configuration, and its layers from below."""

    config: Descriptor
    layers: list[Descriptor]


class RunConfig(msgspec.Struct, frozen=True, rename="pascal"):
    """How an image wants to be run."""

    env: list[str] | None = None
    entrypoint: list[str] | None = None
    cmd: list[str] | None = None
    working_dir: str = ""
    user: str = ""


class RootLayers(msgspec.Struct, frozen=True):
    """The digests of the layers as they are before they are compressed."""

    diff_ids: list[str] = []


class ImageConfig(msgspec.Struct, frozen=True):
    """The configuration of an image, as far as it is obeyed."""

    architecture: str = ""
    os: str = "linux"
    config: RunConfig | None = None
    rootfs: RootLayers = RootLayers()


class Layer(msgspec.Struct, frozen=True):
    """A layer, packed, and the digests it must have: packed, and as a plain tar archive."""

    blob: Blob
    digest: str
    diff_id: str = ""


class ImageSource(msgspec.Struct, frozen=True):
    """An image as it was found. `key` is the digest that names its content."""

    key: str
    layers: tuple[Layer, ...]
    run: RunConfig
    is_layout: bool = True


Document = TypeVar("Document")
#: Finds a file of a layout by its name.
Locate = Callable[[str], Blob | None]


def find_image(path: Path, tag: str = "", digest: str = "") -> ImageSource:
    """The image of a path. InputError says what is wrong with it, OSError that it cannot be
    read."""
    if path.is_dir():
        locate: Locate | None = lambda name: _stat_blob(path / name)  # noqa: E731
        if _stat_blob(path / "oci-layout") is None:
            raise InputError(f"{path}: expected an OCI image layout, but it has no file oci-layout")
    else:
        locate = _open_archive(path)
    return _find_root(path, tag, digest) if locate is None else _find(locate, tag, digest)


def verify(blob: Blob, digest: str) -> None:
    """Refuse bytes that are not what their digest says."""
    algorithm, _, expected = digest.partition(":")
    found = hashlib.new(algorithm)
    with open(blob.path, "rb", buffering=0) as file:
        for data in read_chunks(file.fileno(), blob.offset, blob.size):
            found.update(data)
    if found.hexdigest() != expected:
        raise InputError(f"{blob.path}: expected {digest}, got {algorithm}:{found.hexdigest()}")


def read_chunks(descriptor: int, offset: int, size: int) -> Iterator[bytes]:
    """Some bytes of a file, piece by piece."""
    end = offset + size
    while offset < end and (data := os.pread(descriptor, min(CHUNK, end - offset), offset)):
        yield data
        offset += len(data)


def _stat_blob(path: Path) -> Blob | None:
    return Blob(path, 0, path.stat().st_size) if path.is_file() else None


def _open_archive(path: Path) -> Locate | None:
    """The files of a layout in an archive; None if it is an archive of something else."""
    found: dict[str, Blob] = {}
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                if member.isreg() and not member.issparse():
                    found[name] = Blob(path, member.offset_data, member.size)
                if len(found) > MEMBERS_MAX and "oci-layout" not in found:
                    return None
    except tarfile.TarError:
        return None  # compressed: only a root is
    if "oci-layout" not in found and DOCKER in found:
        raise InputError(
            f"{path}: expected an OCI image layout or a root, got an archive of docker save; "
            "skopeo copy docker-archive:FILE oci:FOLDER:TAG makes a layout of it"
        )
    return found.get if "oci-layout" in found else None


def _find_root(path: Path, tag: str, digest: str) -> ImageSource:
    """An archive of a root: one layer, and nothing is said about how to run it."""
    if tag:
        raise InputError(f"{path}: expected no tag, because it is no OCI image layout, got {tag!r}")
    blob, found = Blob(path, 0, path.stat().st_size), hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        for data in read_chunks(file.fileno(), 0, blob.size):
            found.update(data)
    key = f"sha256:{found.hexdigest()}"
    if digest not in ("", key):
        raise InputError(f"{path}: expected {digest}, got {key}")
    return ImageSource(key, (Layer(blob, key),), RunConfig(), is_layout=False)


def _find(locate: Locate, tag: str, digest: str) -> ImageSource:
    top = locate("index.json")
    if top is None:
        raise InputError("expected an OCI image layout with a file index.json")
    index = _decode(top, ImageIndex)
    chosen = _pick(locate, index, tag, digest)
    for _ in range(NESTING_MAX):
        blob = _locate_blob(locate, chosen)
        if not _is_index(blob):
            return _read_image(locate, chosen, _decode(blob, Manifest))
        chosen = _pick_platform(_decode(blob, ImageIndex).manifests)
    raise InputError(f"expected a manifest at most {NESTING_MAX} steps below index.json")


def _pick(locate: Locate, index: ImageIndex, tag: str, digest: str) -> Descriptor:
    """The image of an index that was asked for; the only one, or the latest, if nothing was."""
    if digest:
        found = next((each for each in _list_all(locate, index) if each.digest == digest), None)
        if found is None:
            raise InputError(f"expected an image with {digest}, and there is none")
        return found
    tags = {(each.annotations or {}).get(TAG, ""): each for each in index.manifests}
    named = tags | {name.rpartition(":")[2]: each for name, each in tags.items()}
    if not tag and len(index.manifests) == 1:
        return index.manifests[0]
    if (tag or LATEST) in named:
        return named[tag or LATEST]
    wanted = f"the tag {tag!r}" if tag else "one image, or a tag such as name:latest"
    raise InputError(f"expected {wanted}, got {', '.join(sorted(filter(None, tags))) or 'no tag'}")


def _list_all(locate: Locate, index: ImageIndex, depth: int = 0) -> Iterator[Descriptor]:
    for each in index.manifests:
        yield each
        blob = _locate_blob(locate, each) if depth < NESTING_MAX else None
        if blob is not None and _is_index(blob):
            yield from _list_all(locate, _decode(blob, ImageIndex), depth + 1)


def _pick_platform(manifests: list[Descriptor]) -> Descriptor:
    here = machine_architecture()
    for each in manifests:
        if each.platform is None or each.platform == Platform("linux", here):
            return each
    offered = sorted({f"{p.os}/{p.architecture}" for each in manifests if (p := each.platform)})
    raise InputError(f"expected an image for linux/{here}, got {', '.join(offered) or 'none'}")


def machine_architecture() -> str:
    """This machine's architecture by OCI's name."""
    return ARCHITECTURES.get(platform.machine(), platform.machine())


def _read_image(locate: Locate, chosen: Descriptor, manifest: Manifest) -> ImageSource:
    config = _decode(_locate_blob(locate, manifest.config), ImageConfig)
    here = machine_architecture()
    if config.os != "linux" or config.architecture not in ("", here):
        got = f"{config.os}/{config.architecture}"
        raise InputError(f"expected an image for linux/{here}, got {got}")
    ids = config.rootfs.diff_ids
    if len(ids) != len(manifest.layers) or len(ids) > LAYERS_MAX:
        sentence = f"expected a digest for each of at most {LAYERS_MAX} layers"
        raise InputError(f"{sentence}, got {len(ids)} for {len(manifest.layers)}")
    for each in ids:
        _check_digest(each)
    layers = tuple(
        Layer(_stat_layer(locate, each), each.digest, diff_id)
        for each, diff_id in zip(manifest.layers, ids, strict=True)
    )
    return ImageSource(chosen.digest, layers, config.config or RunConfig())


def _is_index(blob: Blob) -> bool:
    try:
        return "manifests" in msgspec.json.decode(blob.read(), type=dict[str, msgspec.Raw])
    except msgspec.DecodeError as error:
        raise InputError(f"{blob.path}: expected JSON: {error}") from error


def _locate_blob(locate: Locate, descriptor: Descriptor) -> Blob:
    """A document that is what its digest says."""
    blob = _stat_layer(locate, descriptor)
    if blob.size <= DOCUMENT_BYTES_MAX:
        verify(blob, descriptor.digest)
    return blob


def _stat_layer(locate: Locate, descriptor: Descriptor) -> Blob:
    _check_digest(descriptor.digest)
    blob = locate(f"blobs/{descriptor.digest.replace(':', '/')}")
    if blob is None:
        raise InputError(f"the file blobs/{descriptor.digest.replace(':', '/')} is missing")
    if blob.size != descriptor.size:
        sentence = f"expected {descriptor.size} bytes of {descriptor.digest}, got {blob.size}"
        raise InputError(f"{blob.path}: {sentence}")
    return blob


def _check_digest(digest: str) -> None:
    if not DIGEST.fullmatch(digest):
        raise InputError(f"expected a digest sha256:… or sha512:…, got {digest[:80]!r}")


def _decode(blob: Blob, kind: type[Document]) -> Document:
    try:
        return msgspec.json.decode(blob.read(), type=kind)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise InputError(f"{blob.path}: {error}") from error
