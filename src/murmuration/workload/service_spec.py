"""The parts of a job's specification that only services have: how to see whether a task is well,
how a service is updated; and the folders and images of its nodes that a job may use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

import msgspec

SECONDS_MAX = 86_400.0
VOLUME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
#: The attribute of a node that has a volume: "rw", or "ro" if it can only be read.
VOLUME_ATTRIBUTE = "volume."
#: Where nothing can be mounted, and nothing below.
RESERVED = ("proc", "sys", "dev", "murmur")
#: The attribute of a node that has an image.
IMAGE_ATTRIBUTE = "image."
#: What a job calls an image: the operator's name for it, and which of several it is.
IMAGE = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9_-]{0,62})(:(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?"
    r"(@(?P<digest>sha256:[0-9a-f]{64}))?"
)
FAILURES_MAX = 1000


class HealthCheck(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a node agent sees whether a task is well: a command that ends with 0, a port that takes
    connections, or a page that is answered for."""

    command: list[str] = []
    tcp: bool = False
    #: The path of a page; a status from 200 to 399 is well.
    http: str = ""
    #: 0 stands for the first port of the task's own.
    port: int = 0
    interval_s: float = 10.0
    timeout_s: float = 5.0
    #: A task that was well is not when so many checks in a row have failed.
    failures: int = 3
    #: A task that was never well has this long, and after it as long as that many checks take.
    start_period_s: float = 0.0

    @property
    def patience_s(self) -> float:
        """How long a task may take until it is well for the first time."""
        return self.start_period_s + self.failures * self.interval_s


class UpdatePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a service that is changed gets its new specification, task by task."""

    #: So many tasks may be missing at a time.
    max_unavailable: int = 1
    #: A new task counts when it has been ready for so long.
    min_healthy_s: float = 5.0
    #: An update that gets no further for so long has failed.
    deadline_s: float = 300.0
    #: An update that has failed is undone.
    rollback: bool = True


def find_update_errors(update: UpdatePolicy) -> Iterator[tuple[str, str]]:
    """What is wrong with a policy: field and sentence."""
    if not 1 <= update.max_unavailable <= 100_000:
        sentence = f"expected a number from 1 to 100000, got {update.max_unavailable}"
        yield "update.max_unavailable", sentence
    for name, least in (("min_healthy_s", 0.0), ("deadline_s", 1.0)):
        value = getattr(update, name)
        if not least <= value <= SECONDS_MAX:
            sentence = f"expected seconds from {least:g} to {SECONDS_MAX:g}, got {value:g}"
            yield f"update.{name}", sentence
    if update.min_healthy_s >= update.deadline_s:
        yield "update.deadline_s", "expected more than min_healthy_s"


def find_health_errors(
    check: HealthCheck | None, kind: str, ports: list[int]
) -> Iterator[tuple[str, str]]:
    """What is wrong with a check of a job: field and sentence."""
    if check is None:
        return
    if kind != "service":
        yield "health", 'expected only for kind = "service"'
    if sum(map(bool, (check.command, check.tcp, check.http))) != 1:
        yield "health", "expected one of command, tcp = true and http"
    if check.command and (not check.command[0] or any("\0" in word for word in check.command)):
        yield "health.command", "expected a program and its arguments, without zero bytes"
    if check.command and check.port:
        yield "health.port", "expected only with tcp or http"
    if not 0 <= check.port <= 65535:
        yield "health.port", f"expected a port from 1 to 65535, or 0, got {check.port}"
    if not check.command and not check.port and not ports:
        yield "health.port", "expected a port, because the job has none of its own (ports)"
    if check.http and not _is_path(check.http):
        yield "health.http", f"expected a path such as /ready, got {check.http[:60]!r}"
    yield from _find_time_errors(check)


def _find_time_errors(check: HealthCheck) -> Iterator[tuple[str, str]]:
    for name in ("interval_s", "timeout_s"):
        value = getattr(check, name)
        if not 0.1 <= value <= SECONDS_MAX:
            yield f"health.{name}", f"expected seconds from 0.1 to {SECONDS_MAX:g}, got {value:g}"
    if not 0 <= check.start_period_s <= SECONDS_MAX:
        sentence = f"expected seconds from 0 to {SECONDS_MAX:g}, got {check.start_period_s:g}"
        yield "health.start_period_s", sentence
    if not 1 <= check.failures <= FAILURES_MAX:
        yield "health.failures", f"expected from 1 to {FAILURES_MAX}, got {check.failures}"


def _is_path(path: str) -> bool:
    """Whether it can stand in a request as it is."""
    is_plain = path.isascii() and path.isprintable() and " " not in path
    return path.startswith("/") and is_plain and len(path) <= 1024


class VolumeMount(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A folder of the node that the operator has named, and where a task finds it."""

    name: str
    at: str
    read_only: bool = False


def find_volume_errors(volumes: list[VolumeMount]) -> Iterator[tuple[str, str]]:
    """What is wrong with the volumes of a job: field and sentence."""
    for k, volume in enumerate(volumes):
        field = f"volumes[{k}]"
        if not VOLUME.fullmatch(volume.name):
            sentence = f"expected up to 63 letters, digits, - and _, got {volume.name[:70]!r}"
            yield f"{field}.name", sentence
        parts = PurePosixPath(volume.at).parts
        is_path = volume.at.startswith("/") and "\0" not in volume.at and ".." not in parts
        if not is_path or len(parts) < 2 or len(volume.at) > 1024:
            yield f"{field}.at", f"expected a path such as /data, got {volume.at[:60]!r}"
        elif parts[1] in RESERVED:
            yield f"{field}.at", f"expected a path outside of /{parts[1]}, got {volume.at!r}"
        elif any(_is_inside(volume.at, other.at) for other in volumes[:k]):
            yield f"{field}.at", f"expected places apart from each other, got {volume.at!r}"


def find_image_errors(image: str) -> Iterator[tuple[str, str]]:
    """What is wrong with how a job names its image: field and sentence."""
    if image and not IMAGE.fullmatch(image):
        sentence = f"expected NAME, NAME:TAG or NAME@sha256:DIGEST, got {image[:100]!r}"
        yield "image", sentence


def _is_inside(one: str, other: str) -> bool:
    """Whether one of two places lies in the other."""
    a, b = PurePosixPath(one), PurePosixPath(other)
    return a.is_relative_to(b) or b.is_relative_to(a)
