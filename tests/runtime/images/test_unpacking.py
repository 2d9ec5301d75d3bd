"""Unpacking what strangers have packed: it comes out as the layers say, and nothing outside of its
folder is touched, whatever is in it."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.images.made import Entry, Layout, digest_of, entry, folder, link, pack

from murmuration.runtime.node.images import library as images
from murmuration.runtime.node.images.library import HeldImage, ImageLibrary
from murmuration.runtime.node.isolation import StartFailed
from murmuration.runtime.node.isolation.roots import FIRST_ID

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="images need root, as containers do")
ROOMY = 2**40


class Shelf:
    """A library with one layout in it."""

    def __init__(self, place: Path, room: int = ROOMY) -> None:
        self.layout, self.place, self.used = Layout(place / "oci"), place, set[str]()
        self.sources = {"it": str(self.layout.place)}
        self.library = ImageLibrary(place / "images", self.sources, lambda: self.used, room)

    def unpack(self, name: str = "it") -> HeldImage:
        with self.library.hold(name) as held:
            return held

    def refuse(self, name: str = "it") -> str:
        with pytest.raises(StartFailed) as error:
            self.unpack(name)
        assert not list((self.place / "images").glob("new-*")), "nothing is left of it"
        return str(error.value)


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(tmp_path)


def tree(root: Path) -> dict[str, Any]:
    """What is below a folder: text of files, targets of links, None for folders."""
    found: dict[str, Any] = {}
    for place, folders, files in os.walk(root):
        for name in folders + files:
            path = Path(place, name)
            if path.is_symlink():
                found[str(path.relative_to(root))] = os.readlink(path).encode()
            else:
                text = None if path.is_dir() else path.read_text()
                found[str(path.relative_to(root))] = text
    return found


# What layers mean.

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
CHANGES = st.one_of(
    st.tuples(st.just("file"), PATHS),
    st.tuples(st.just("folder"), PATHS),
    st.tuples(st.just("hide"), PATHS),
    st.tuples(st.just("opaque"), PATHS),
)


def write_change(kind: str, path: str, text: str) -> Entry:
    above, _, name = path.rpartition("/")
    match kind:
        case "file":
            return entry(path, text)
        case "folder":
            return folder(path)
        case "hide":
            return entry(f"{above}/.wh.{name}".lstrip("/"))
        case _:
            return entry(f"{path}/.wh..wh..opq")


def lay_over(below: dict[str, Any], layer: list[tuple[str, str, str]]) -> dict[str, Any]:
    """What a layer makes of a tree, by the words of the specification: what is hidden of the lower
    layers goes first, whatever the order, and then everything of the layer is put there."""
    found = dict(below)
    made = {path for kind, path, _ in layer if kind in ("file", "folder")}
    for kind, path, _ in layer:
        for each in list(found):
            is_hit = each.startswith(f"{path}/") or (kind == "hide" and each == path)
            if is_hit and kind in ("hide", "opaque"):
                found.pop(each)
    for kind, path, text in layer:
        parts = path.split("/")
        for k in range(1, len(parts)):
            found.setdefault("/".join(parts[:k]), None)
        if kind == "opaque":
            found.setdefault(path, None)
        elif kind in ("file", "folder"):
            if kind == "file":
                found = {p: v for p, v in found.items() if not p.startswith(f"{path}/")}
            found[path] = text if kind == "file" else None
    assert made <= set(found)
    return found


def is_sensible(below: dict[str, Any], layer: list[tuple[str, str, str]]) -> bool:
    """Whether a layer says one thing: no path twice, no file with something in it."""
    paths = [path for _, path, _ in layer]
    files = {path for kind, path, _ in layer if kind == "file"}
    hidden = {path for kind, path, _ in layer if kind == "hide"}
    solid = {path for path, text in below.items() if text is not None}
    inner = ("/".join(p.split("/")[:k]) for p in paths for k in range(1, p.count("/") + 1))
    above = set(inner)
    opaque = {path for kind, path, _ in layer if kind == "opaque"}
    return (
        len(set(paths)) == len(paths)
        and not above & (files | hidden | solid)
        and not opaque & (solid | files)
        and all(path in below for path in opaque)
        and all(a in below or a in paths for a in above)
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(CHANGES, max_size=6), min_size=1, max_size=4))
def test_layers_mean_what_the_specification_says(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[list[tuple[str, str]]]
) -> None:
    expected: dict[str, Any] = {}
    layers = []
    for k, changes in enumerate(drawn):
        layer: list[tuple[str, str, str]] = []
        for kind, path in changes:
            longer = [*layer, (kind, path, f"{k}{path}")]
            layer = longer if is_sensible(expected, longer) else layer
        layers.append(pack([write_change(*change) for change in layer]))
        expected = lay_over(expected, layer)
    shelf = Shelf(tmp_path_factory.mktemp("shelf"))
    shelf.layout.add(layers)
    assert tree(shelf.unpack().root) == expected


def test_owners_modes_times_and_links(shelf: Shelf) -> None:
    shelf.layout.add(
        [
            pack(
                [
                    folder("usr/bin"),
                    link("bin", "usr/bin"),
                    entry("usr/bin/su", "x", mode=0o6755, uid=0),
                    folder("shared", mode=0o2775, gid=50),
                    folder("tmp", mode=0o1777),
                    entry("home/anna/file", "mine", uid=1000, gid=100, mode=0o640),
                ]
            ),
            pack(
                [
                    entry("bin/new", "through a link of the image"),
                    entry("hard", type=tarfile.LNKTYPE, linkname="home/anna/file"),
                    entry("dev/null", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
                    entry("pipe", type=tarfile.FIFOTYPE),
                ]
            ),
        ]
    )
    root = shelf.unpack().root
    first = root.stat().st_uid
    assert first >= FIRST_ID

    def mode(name: str) -> int:
        return stat.S_IMODE(os.lstat(root / name).st_mode)

    assert (root / "usr/bin/new").read_text() == "through a link of the image"
    assert [mode(n) for n in ("usr/bin/su", "shared", "tmp")] == [0o755, 0o2775, 0o1777]
    mine = (root / "home/anna/file").stat()
    assert (mine.st_uid - first, mine.st_gid - first, mine.st_nlink) == (1000, 100, 2)
    assert mine.st_mtime == 1_700_000_000
    assert not os.path.lexists(root / "dev/null") and not os.path.lexists(root / "pipe")


# What strangers try.


@pytest.mark.parametrize(
    "name",
    [
        "../escaped",
        "../../../../../../escaped",
        "/escaped",
        "a/../../escaped",
        "link/escaped",
        "link2/escaped",
    ],
)
def test_nothing_is_written_outside(tmp_path: Path, shelf: Shelf, name: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o777)
    outside.chmod(0o777)
    for place in (tmp_path, tmp_path / "oci"):
        place.chmod(0o777)
    ups = "../" * 20
    shelf.layout.add(
        [
            pack([link("link", str(outside)), link("link2", f"{ups}{outside}"[: 2**12])]),
            pack([entry(name, "evil", mode=0o666)]),
        ]
    )
    before = sorted(map(str, tmp_path.glob("*")))
    root = shelf.unpack().root
    assert sorted(map(str, tmp_path.glob("*"))) == before and not list(outside.iterdir())
    assert not os.path.lexists("/escaped")
    assert [path for path in tree(root) if path.endswith("escaped")]


def test_no_file_of_the_node_gets_a_second_name(tmp_path: Path, shelf: Shelf) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    secret.chmod(0o666)
    for target in (str(secret), f"{'../' * 20}{secret}", "way/secret"):
        shelf.layout.manifests.clear()
        hard = entry("copy", type=tarfile.LNKTYPE, linkname=target)
        shelf.layout.add([pack([link("way", str(tmp_path))]), pack([hard])])
        assert "no such file" in shelf.refuse().lower()
    assert secret.stat().st_nlink == 1


def test_a_link_in_the_place_of_a_file_is_replaced(tmp_path: Path, shelf: Shelf) -> None:
    victim = tmp_path / "victim"
    victim.write_text("as it was")
    victim.chmod(0o666)
    first = [link("file", str(victim)), entry("one", "1")]
    first += [entry("two", type=tarfile.LNKTYPE, linkname="one")]
    shelf.layout.add([pack(first), pack([entry("file", "new"), entry("two", "2")])])
    root = shelf.unpack().root
    assert victim.read_text() == "as it was"
    # A name of a file is replaced, and not what it has in common with another name.
    assert tree(root) == {"file": "new", "one": "1", "two": "2"}


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: [entry("big", bytes(3 * 2**20))], "more than an image may have"),
        (lambda: [entry(f"f{k}") for k in range(60)], "more files than an image may have"),
        (lambda: [entry("u", uid=65_536)], "expected users below 65536, got 65536:0"),
        (lambda: [entry("/".join(["d" * 200] * 30))], "longer than names can be"),
        (lambda: [entry("f"), entry("f/g")], "f: file exists"),
    ],
)
def test_bombs_and_nonsense(
    monkeypatch: pytest.MonkeyPatch, shelf: Shelf, make: Callable[[], list[Entry]], sentence: str
) -> None:
    monkeypatch.setattr(images, "IMAGE_BYTES_MAX", 2**21)
    monkeypatch.setattr(images, "ENTRIES_MAX", 50)
    shelf.layout.add([pack(make())])
    assert sentence in shelf.refuse().lower()


def test_a_header_that_wants_all_memory(shelf: Shelf) -> None:
    """A PAX header of some gigabytes, which compress to nothing."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 8 * 2**30
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", compresslevel=1) as packed:
        packed.write(info.tobuf(tarfile.GNU_FORMAT))
        for _ in range(160):
            packed.write(bytes(2**23))
    layer = buffer.getvalue()
    shelf.layout.add([layer], compress=bytes, changes={"rootfs": {"diff_ids": [digest_of(b"")]}})
    assert "memory" in shelf.refuse()


# Digests and documents.


def test_bytes_that_are_not_what_their_digest_says(shelf: Shelf) -> None:
    layer = pack([entry("f", "text")])
    shelf.layout.add([layer])
    for path in sorted((shelf.layout.place / "blobs/sha256").iterdir()):
        good = path.read_bytes()
        path.write_bytes(bytes(reversed(good)))
        assert f"expected sha256:{path.name}" in shelf.refuse()
        path.write_bytes(good + b" ")
        assert f"expected {len(good)} bytes" in shelf.refuse()
        path.unlink()
        assert f"the file blobs/sha256/{path.name} is missing" in shelf.refuse()
        path.write_bytes(good)
    assert tree(shelf.unpack().root) == {"f": "text"}


def test_a_layer_that_unpacks_to_something_else(shelf: Shelf) -> None:
    other = {"rootfs": {"diff_ids": [digest_of(b"other")]}}
    shelf.layout.add([pack([entry("f")])], changes=other)
    assert f"expected a layer with {digest_of(b'other')}" in shelf.refuse()


def test_names_of_images(shelf: Shelf) -> None:
    one = shelf.layout.add([pack([entry("f", "1")])], tag="one")
    shelf.layout.add([pack([entry("f", "2")])], tag="registry.lan/two:latest")
    assert tree(shelf.unpack("it:one").root) == {"f": "1"}
    assert tree(shelf.unpack("it").root) == {"f": "2"}
    assert tree(shelf.unpack(f"it@{one}").root) == {"f": "1"}
    assert "expected the tag 'three', got one, registry" in shelf.refuse("it:three")
    assert "and there is none" in shelf.refuse(f"it@{digest_of(b'')}")
    assert "no such image" in shelf.refuse("other")


def test_an_image_for_several_machines(shelf: Shelf) -> None:
    here = shelf.layout.add([pack([entry("f", "here")])])
    other = shelf.layout.add([pack([entry("f", "else")])], changes={"architecture": "vax"})
    assert "expected one image" in shelf.refuse()
    assert "expected an image for linux/" in shelf.refuse(f"it@{other}")
    both = {each["digest"]: each for each in shelf.layout.manifests}
    platforms = {other: "vax", here: images_architecture()}
    nested = {
        "manifests": [
            {**both[d], "platform": {"os": "linux", "architecture": a}}
            for d, a in platforms.items()
        ]
    }
    shelf.layout.manifests = [shelf.layout.blob(json.dumps(nested).encode())]
    shelf.layout.write()
    assert tree(shelf.unpack().root) == {"f": "here"}


def images_architecture() -> str:
    from murmuration.runtime.node.images.layout import machine_architecture

    return machine_architecture()


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({"index.json": "{"}, "index.json"),
        ({"index.json": '{"manifests": []}'}, "expected one image"),
        ({"index.json": '{"manifests": [{"digest": "../x", "size": 1}]}'}, "expected a digest"),
        ({"index.json": '{"manifests": [{"digest": 5}]}'}, "index.json"),
        ({"oci-layout": None}, "it has no file oci-layout"),
        ({"index.json": None}, "with a file index.json"),
    ],
)
def test_documents_that_are_none(shelf: Shelf, files: dict[str, str | None], sentence: str) -> None:
    shelf.layout.add([pack([])])
    for name, text in files.items():
        path = shelf.layout.place / name
        path.unlink() if text is None else path.write_text(text)
    assert sentence in shelf.refuse()


def test_layers_packed_in_every_way(tmp_path: Path) -> None:
    ways: list[Callable[[bytes], bytes]] = [bytes, gzip.compress]
    zstandard = pytest.importorskip("zstandard")
    ways.append(zstandard.ZstdCompressor().compress)
    for k, way in enumerate(ways):
        shelf = Shelf(tmp_path / str(k))
        shelf.layout.add([pack([entry("f", "text" * 1000)])], compress=way)
        assert tree(shelf.unpack().root) == {"f": "text" * 1000}
        archive = shelf.layout.archive(tmp_path / f"{k}.tar")
        shelf.sources["it"] = str(archive)
        assert shelf.unpack().key == Path(shelf.unpack().root).parent.name
        shelf.sources["it"] = str(tmp_path / f"{k}.root")
        Path(shelf.sources["it"]).write_bytes(way(pack([entry("f", "root")])))
        assert tree(shelf.unpack().root) == {"f": "root"}
        Path(shelf.sources["it"]).write_bytes(pack([entry("manifest.json", "[]")]))
        assert "got an archive of docker save" in shelf.refuse()
        Path(shelf.sources["it"]).write_bytes(b"no archive at all")
        assert "no tar archive" in shelf.refuse()


def test_an_image_made_by_another_tool(tmp_path: Path) -> None:
    """umoci packs what changed into layers with whiteouts of its own making."""
    umoci = shutil.which("umoci")
    if umoci is None:
        pytest.skip("umoci is not installed")
    place, bundle = tmp_path / "oci", tmp_path / "bundle"

    def call(*words: str) -> None:
        subprocess.run([umoci, *words], check=True, capture_output=True, timeout=120)

    call("init", "--layout", str(place))
    call("new", "--image", f"{place}:it")
    call("unpack", "--image", f"{place}:it", str(bundle))
    root = bundle / "rootfs"
    for text in ("one", "two"):
        for name in ("kept/file", "gone/file", f"only/{text}"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        if text == "two":
            shutil.rmtree(root / "gone")
            (root / "only/one").unlink()
            os.symlink("file", root / "kept/link")
        call("repack", "--refresh-bundle", "--image", f"{place}:it", str(bundle))
    call("config", "--image", f"{place}:it", "--config.user", "7:8", "--config.env", "A=b")
    shelf = Shelf(tmp_path / "shelf")
    shelf.sources["it"] = str(place)
    held = shelf.unpack()
    assert tree(held.root) == tree(root) and len(tree(root)) == 5
    assert held.run.user == "7:8" and "A=b" in (held.run.env or [])


# Room, and agents that die.


def test_what_is_unused_makes_room(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path, room=5 * 2**20)
    for k in range(4):
        shelf.layout.add([pack([entry("f", os.urandom(2**21))])], tag=f"t{k}")
    first = shelf.unpack("it:t0").key
    shelf.used = {first}
    with shelf.library.hold("it:t1") as second:
        third = shelf.unpack("it:t2").key
        assert not shelf.used - _kept(shelf) and second.key in _kept(shelf)
        fourth = shelf.unpack("it:t3").key
        assert _kept(shelf) == {first, second.key, fourth} and third not in _kept(shelf)
    shelf.used = set()
    shelf.unpack("it:t2")
    assert _kept(shelf) == {fourth, third}


def _kept(shelf: Shelf) -> set[str]:
    return {path.name for path in (shelf.place / "images").glob("sha256-*")}


HOLD = """
import sys
from pathlib import Path
from murmuration.runtime.node.images.library import ImageLibrary
library = ImageLibrary(Path(sys.argv[1]), {"it": sys.argv[2]}, set, 2**40)
print("go", flush=True)
with library.hold("it") as held:
    print(held.key, flush=True)
"""


def killed_after(seconds: float, shelf: Shelf) -> None:
    words = [sys.executable, "-c", HOLD, str(shelf.place / "images"), str(shelf.layout.place)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as agent:
        assert agent.stdout is not None and agent.stdout.readline() == b"go\n"
        time.sleep(seconds)
        agent.send_signal(signal.SIGKILL)


def list_unpacking(shelf: Shelf) -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if b"unpack.py" in words and os.fsencode(shelf.place) in words:
            yield path.parent.name


def test_kill_of_an_agent_while_it_unpacks(shelf: Shelf) -> None:
    """At many moments: what is there afterwards is whole, and the next agent removes the rest."""
    files = [entry(f"d{k % 50}/f{k}", os.urandom(1000).hex()) for k in range(1500)]
    shelf.layout.add([pack(files)])
    expected = {info.name for info, _ in files}
    for k in range(12):
        killed_after(0.04 * k, shelf)
        deadline = time.monotonic() + 60
        while list(list_unpacking(shelf)):
            assert time.monotonic() < deadline, "it dies with its agent"
            time.sleep(0.01)
        for kept in _kept(shelf):
            assert expected <= set(tree(shelf.place / "images" / kept / "root"))
    again = ImageLibrary(shelf.place / "images", shelf.sources, set, ROOMY)
    assert not list((shelf.place / "images").glob("new-*"))
    with again.hold("it") as held:
        assert expected <= set(tree(held.root))


def test_a_disk_that_is_full_is_the_fault_of_the_node(tmp_path: Path) -> None:
    place = tmp_path / "small"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "small", str(place)], check=True)
    try:
        shelf = Shelf(place)
        shelf.sources["it"] = str(tmp_path / "root.tar")
        Path(shelf.sources["it"]).write_bytes(pack([entry("f", os.urandom(2**24))]))
        with pytest.raises(StartFailed, match="o space left") as error:
            shelf.unpack()
        assert isinstance(error.value.__cause__, OSError)
        assert not list((place / "images").glob("new-*"))
    finally:
        subprocess.run(["umount", str(place)], check=True)
