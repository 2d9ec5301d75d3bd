"""A job as a user writes it: what to run, how often, what it needs, and where it may go.

The same structure is read from TOML, from Python and from JSON. What can be checked without a
cluster is checked here; amounts and constraints are checked by the master, which knows the
resources and the nodes.
"""

from __future__ import annotations

import re
from typing import Any, Literal, get_type_hints

import msgspec

from murmuration.base.errors import InputError, did_you_mean
from murmuration.base.words import plain_types
from murmuration.workload.service_spec import (
    HealthCheck,
    UpdatePolicy,
    VolumeMount,
    find_health_errors,
    find_image_errors,
    find_update_errors,
    find_volume_errors,
)

COUNT_MAX = 100_000
#: What a task may have on disk where neither its job nor an operator says how much.
DISK, DISK_MAX = "10Gi", 2**53
GRACE_S, GRACE_MAX_S = 5.0, 3600.0
TASK = re.compile(r"(.+)(?:\.([0-9]{1,9})|\[([0-9]{1,9})\])")
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")


class Restart(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When a task that ended is run again: after `backoff_s`, twice as long each time, never more
    than the maximum."""

    #: None: a service is restarted every time, a task of a terminating job not at all.
    retries: int | None = None
    backoff_s: float = 1.0
    backoff_max_s: float = 60.0


class JobSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One job."""

    #: Letters, digits, `-` and `_`; no two jobs that have not ended share one.
    name: str
    #: The program and its first arguments; no shell is between. Only with an image it may be left
    #: out: then the image's entry point is run.
    command: list[str] = []
    #: What follows the command.
    arguments: list[str] = []
    #: Variables of its tasks beside those of Murmuration (`MURMUR_TASK` and others).
    environment: dict[str, str] = {}
    #: A terminating job ends when its tasks do; the tasks of a service are run again.
    kind: Literal["terminating", "service"] = "terminating"
    #: How many tasks it has.
    count: int = 1
    #: So many tasks instead, each of which starts when there is room for it, also where jobs start
    #: whole; they are called `name[0]`, `name[1]` and so on.
    array: int = 0
    #: Jobs that must have ended before, well or in any way.
    after: list[str] = []
    after_any: list[str] = []
    #: What each task may use, and is placed by.
    resources: dict[str, str | int | float] = msgspec.field(
        default_factory=lambda: {"cpu": 0.1, "memory": "64Mi"}
    )
    #: The higher goes first, and may preempt the lower where the cluster lets it.
    priority: int = 0
    #: Whose job it is; set by the cluster where users have tokens or certificates.
    user: str = ""
    #: Tests of a node's attributes, e.g. `zone = a`.
    constraints: list[str] = []
    #: Jobs that must have a task on the node; jobs that must not. A job may name itself.
    affinity: list[str] = []
    anti_affinity: list[str] = []
    #: Tasks are kept even over the values of this attribute, or over nodes for `node`.
    spread: str = ""
    #: All tasks start together or none does.
    gang: bool = False
    #: What happens after a task has ended.
    restart: Restart = Restart()
    #: Ports of the node a task needs for itself; 0 stands for any free one, passed in MURMUR_PORT
    #: and MURMUR_PORTS.
    ports: list[int] = []
    #: In a container: a network of its own with a way out, or the node's.
    network: Literal["own", "host"] = "own"
    #: What a task may have on disk; 0 is no bound. Unless it is said, what the operator has set.
    disk: str | int | float = ""
    #: A task that runs longer is ended; backfilling plans with it.
    time_limit_s: float | None = None
    #: What a task that is told to stop (SIGTERM) has until it is killed (SIGKILL).
    grace_s: float = GRACE_S
    #: How a node agent sees whether a task of a service is well.
    health: HealthCheck | None = None
    #: How a service that is changed gets its new specification.
    update: UpdatePolicy = UpdatePolicy()
    #: Folders of the node, by the names its operator gave them.
    volumes: list[VolumeMount] = []
    #: The root of its tasks, by the name its operator gave an image: `NAME`, `NAME:TAG` or
    #: `NAME@sha256:DIGEST`.
    image: str = ""


class FieldError(InputError):
    """Something wrong with one field of a job; `field` is its dotted path, so that a reader can
    name the line."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(f"{field}: {sentence}" if field else sentence)
        self.field = field
        self.sentence = sentence


def job_from_tables(tables: Any) -> JobSpec:
    """The job these tables describe, or the first thing wrong with them."""
    if not isinstance(tables, dict):
        raise FieldError("", f"expected a job as a table, got {type(tables).__name__}")
    _check_fields(tables, JobSpec, "")
    if isinstance(tables.get("restart"), dict):
        _check_fields(tables["restart"], Restart, "restart.")
    if isinstance(tables.get("health"), dict):
        _check_fields(tables["health"], HealthCheck, "health.")
    if isinstance(tables.get("update"), dict):
        _check_fields(tables["update"], UpdatePolicy, "update.")
    _check_values(tables, "resources", (str, int, float), "a number or a text such as '32Mi'")
    _check_values(tables, "environment", (str,), "a text")
    try:
        spec = msgspec.convert(tables, JobSpec)
    except msgspec.ValidationError as error:
        raise _readable(str(error)) from error
    if spec.array > 0 and spec.count == 1:
        spec = msgspec.structs.replace(spec, count=spec.array)
    check_spec(spec)
    return spec


def task_name(spec: JobSpec, index: int) -> str:
    """What a task is called: `hello.3`, or of an array `hello[3]`."""
    return f"{spec.name}[{index}]" if spec.array else f"{spec.name}.{index}"


def split_task(name: str) -> tuple[str, int | None]:
    """`hello.0` and `hello[0]` are a task of job `hello`; `hello` is a job."""
    parts = TASK.fullmatch(name)
    return (parts[1], int(parts[2] or parts[3])) if parts else (name, None)


def _check_fields(table: dict[str, Any], kind: type[msgspec.Struct], path: str) -> None:
    known = get_type_hints(kind)
    for key in table:
        if key not in known:
            raise FieldError(f"{path}{key}", f"unknown field; {did_you_mean(str(key), known)}")
    if kind is JobSpec:
        for key in ("name", "command"):
            if key not in table and (key == "name" or not table.get("image")):
                raise FieldError("", f"expected the field {key!r}")


def _check_values(tables: dict[str, Any], key: str, kinds: tuple[type, ...], expected: str) -> None:
    """The values of a table with names of the user's own, which msgspec would not name."""
    table = tables.get(key)
    for name, value in table.items() if isinstance(table, dict) else ():
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise FieldError(f"{key}.{name}", f"expected {expected}, got {value!r}")


def _readable(message: str) -> FieldError:
    """msgspec's "Expected `int`, got `str` - at `$.count`" as a problem of the field `count`."""
    text, separator, path = message.rpartition(" - at `$")
    if not separator:
        return FieldError("", plain_types(message))
    return FieldError(path.rstrip("`").lstrip("."), plain_types(f"{text[0].lower()}{text[1:]}"))


def check_spec(spec: JobSpec) -> None:
    """Refuse what makes no sense on any cluster."""
    for error in _find_errors(spec):
        raise error


def _find_errors(spec: JobSpec) -> Any:
    # Only who checks a job needs amounts; a node agent reads jobs and carries no NumPy.
    from murmuration.base.resources import parse_quantity

    if not NAME.fullmatch(spec.name):
        yield FieldError(
            "name",
            f"expected up to 63 letters, digits, - and _, no sign in front, got {spec.name!r}",
        )
    if not (spec.command or spec.image) or spec.command[:1] == [""]:
        yield FieldError(
            "command", 'expected a program and its arguments, e.g. ["sh", "-c", "echo hello"]'
        )
    if any("\0" in word for word in [*spec.command, *spec.arguments]):
        yield FieldError("command", "expected no zero bytes")
    for key, value in spec.environment.items():
        if not key or "=" in key or "\0" in key + value:
            yield FieldError(f"environment.{key}", "expected a name without '=' and no zero bytes")
    yield from _find_in_array(spec)
    if not 1 <= spec.count <= COUNT_MAX:
        yield FieldError("count", f"expected a number from 1 to {COUNT_MAX}, got {spec.count}")
    for key in ("after", "after_any"):
        if spec.name in getattr(spec, key):
            yield FieldError(key, f"{spec.name!r} cannot run after itself")
    if not -1_000_000 <= spec.priority <= 1_000_000:
        yield FieldError(
            "priority", f"expected a number from -1000000 to 1000000, got {spec.priority}"
        )
    for k, port in enumerate(spec.ports):
        if not 0 <= port <= 65535 or (port and spec.ports.count(port) > 1):
            yield FieldError(
                f"ports[{k}]", f"expected distinct ports from 1 to 65535, or 0 for any, got {port}"
            )
    if spec.time_limit_s is not None and not 0 < spec.time_limit_s < 1e9:
        yield FieldError(
            "time_limit_s", f"expected a number of seconds above 0, got {spec.time_limit_s:g}"
        )
    if not 0 <= spec.grace_s <= GRACE_MAX_S:
        yield FieldError(
            "grace_s", f"expected seconds from 0 to {GRACE_MAX_S:g}, got {spec.grace_s:g}"
        )
    try:
        if parse_quantity(spec.disk or 0, "disk") > DISK_MAX:
            yield FieldError("disk", f"expected at most {DISK_MAX} bytes, got {spec.disk!r}")
    except InputError as error:
        yield FieldError("disk", str(error).removeprefix("disk: "))
    yield from _restart_problems(spec.restart)
    for name, sentence in (
        *find_health_errors(spec.health, spec.kind, spec.ports),
        *find_update_errors(spec.update),
        *find_volume_errors(spec.volumes),
        *find_image_errors(spec.image),
    ):
        yield FieldError(name, sentence)


def _find_in_array(spec: JobSpec) -> Any:
    if not 0 <= spec.array <= COUNT_MAX:
        yield FieldError("array", f"expected a number from 1 to {COUNT_MAX}, got {spec.array}")
    if spec.array and spec.count not in (1, spec.array):
        yield FieldError("array", f"expected one of array and count, got {spec.count} for count")
    if spec.array and (spec.gang or spec.kind == "service"):
        kind = "a gang" if spec.gang else "a service"
        yield FieldError("array", f"expected tasks that start one by one, got {kind}")


def _restart_problems(restart: Restart) -> Any:
    if restart.retries is not None and restart.retries < 0:
        yield FieldError("restart.retries", f"expected a number from 0, got {restart.retries}")
    if not 0 <= restart.backoff_s <= restart.backoff_max_s < 1e9:
        yield FieldError(
            "restart.backoff_s", "expected seconds from 0, and no more than backoff_max_s"
        )
