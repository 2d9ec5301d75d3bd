"""What the commands of a live cluster share: where it is, and listings that print at once."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from murmuration.base.errors import InputError
from murmuration.cli import common
from murmuration.runtime.isolations import ISOLATIONS
from murmuration.runtime.options import LOG_FORMATS as FORMATS
from murmuration.workload.job_spec import DISK

if TYPE_CHECKING:
    from murmuration.runtime.client.requests import ApiClient
    from murmuration.runtime.options import NodeVolume

DIR = click.option(
    "--dir",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="The cluster's folder (default: MURMUR_DIR, else ~/.murmur).",
)
ISOLATION_HELP = f"{', '.join(ISOLATIONS[:-1])} or {ISOLATIONS[-1]}."
#: Where commands keep what these two say.
_JOIN, _TOKEN_FILE = "murmur.join", "murmur.token_file"


def _keep(name: str) -> Callable[[click.Context, click.Parameter, object], None]:
    def keep(context: click.Context, _: click.Parameter, value: object) -> None:
        context.meta[name] = value

    return keep


JOIN = click.option(
    "--join",
    multiple=True,
    metavar="HOST:PORT",
    envvar="MURMUR_JOIN",
    expose_value=False,
    callback=_keep(_JOIN),
    help="The API of a master elsewhere; again for each master (default: MURMUR_JOIN).",
)
TOKEN_FILE = click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    envvar="MURMUR_TOKEN_FILE",
    expose_value=False,
    callback=_keep(_TOKEN_FILE),
    metavar="FILE",
    help="A token of murmur token issue (default: MURMUR_TOKEN_FILE, else the cluster's own).",
)
CLIENT = (DIR, JOIN, TOKEN_FILE, common.JSON)
PORT = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    help="Port of the API (default: any free one).",
)
SCHEDULER = click.option(
    "-s",
    "--scheduler",
    default="monolithic",
    show_default=True,
    metavar="NAME",
    help="monolithic, shared-state, offers, or module:Class as in a simulation.",
)
PLACEMENT = click.option(
    "--placement",
    default="first-fit",
    show_default=True,
    help="first-fit, best-fit, … or module:function.",
)
ALLOCATOR = click.option(
    "--allocator",
    default="drf",
    show_default=True,
    help="With offers, who gets the next one: drf, priority or lottery.",
)
QUEUE = click.option(
    "--queue",
    default="",
    metavar="NAME",
    help="Start whole jobs in the order of a queue discipline: fcfs, easy, … (docs/queues.md).",
)
SETTINGS = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set a key of the queue as in a scenario, e.g. scheduler.queue_settings.preempt=requeue; "
    "may be repeated (docs/queues.md).",
)
AGENT_TIMEOUT = click.option(
    "--agent-timeout",
    "agent_timeout_s",
    type=click.FloatRange(0.5, 86_400),
    default=60.0,
    show_default=True,
    help="Seconds without a master after which a node agent kills its tasks.",
)
RATE_LIMIT = click.option(
    "--rate-limit",
    type=click.FloatRange(0.1, 1e6),
    default=100.0,
    show_default=True,
    help="Requests per second that each user may make of the API.",
)
TASK_DISK = click.option(
    "--disk",
    metavar="SIZE",
    default=DISK,
    show_default=True,
    help="What a task may have on disk if its job does not say.",
)
TASK_DISK_MAX = click.option(
    "--disk-max",
    metavar="SIZE",
    default="",
    help="The most that a task may have on disk, whatever its job says.",
)
LOG_FORMAT = click.option(
    "--log-format",
    type=click.Choice(FORMATS),
    default=FORMATS[0],
    show_default=True,
    help="Lines for people, or one JSON object a line.",
)
VOLUME = click.option(
    "--volume",
    "volumes",
    multiple=True,
    metavar="NAME=PATH[:ro][:accounts]",
    help="A folder that tasks in containers may use by this name; with accounts, as the account "
    "of their user on the node.",
)
IMAGE = click.option(
    "--image",
    "images",
    multiple=True,
    metavar="NAME=PATH",
    help="An image that tasks in containers may name: an OCI layout or a tar archive.",
)
EVERY = click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    help="Seconds between two updates.",
)
#: A row of an answer.
Row = dict[str, Any]
Answer = TypeVar("Answer")
#: A master that starts again is waited for this long, and asked this often.
AWAY_S, AGAIN_S = 60.0, 0.2
#: HTTP's word for what cannot be answered for now.
NOT_NOW = 503
_COLOURS = {
    "running": "32",
    "finished": "32",
    "up": "32",
    "failed": "31",
    "unreachable": "31",
    "waiting": "33",
    "draining": "33",
    "stopping": "33",
    "starting": "36",
    "killed": "35",
}


def check_size(text: str, flag: str) -> str:
    """An amount of bytes, or none, that the option can have."""
    from murmuration.base.resources import parse_quantity

    parse_quantity(text or 0, flag)
    return text


def parse_volumes(texts: Sequence[str]) -> dict[str, NodeVolume]:
    """Folders of this host by name."""
    from murmuration.runtime.options import NodeVolume
    from murmuration.workload.service_spec import VOLUME as NAME

    volumes: dict[str, NodeVolume] = {}
    for text in texts:
        name, _, path = text.partition("=")
        path, is_by_account = path.removesuffix(":accounts"), path.endswith(":accounts")
        path, is_read = path.removesuffix(":ro"), path.endswith(":ro")
        place = Path(path)
        if not NAME.fullmatch(name) or not path:
            raise InputError(f"--volume: expected NAME=PATH[:ro][:accounts], got {text!r}")
        if not place.is_absolute() or not place.is_dir():
            raise InputError(f"--volume: expected a folder by its whole path, got {str(place)!r}")
        if name in volumes:
            raise InputError(f"--volume: expected each name once, got {name!r} twice")
        volumes[name] = NodeVolume(str(place.resolve()), is_read, is_by_account)
    return volumes


def volume_attributes(volumes: dict[str, NodeVolume]) -> dict[str, str | float]:
    """What a node says of its volumes."""
    from murmuration.workload.service_spec import VOLUME_ATTRIBUTE

    return {
        f"{VOLUME_ATTRIBUTE}{name}": "ro" if volume.is_read_only else "rw"
        for name, volume in volumes.items()
    }


def parse_images(texts: Sequence[str]) -> dict[str, str]:
    """Images of this host by name."""
    from murmuration.workload.service_spec import VOLUME as NAME

    images: dict[str, str] = {}
    for text in texts:
        name, _, path = text.partition("=")
        if not NAME.fullmatch(name) or not path:
            raise InputError(f"--image: expected NAME=PATH, got {text!r}")
        if not Path(path).is_absolute() or not Path(path).exists():
            sentence = "expected an OCI layout or a tar archive by its whole path"
            raise InputError(f"--image: {sentence}, got {path!r}")
        if name in images:
            raise InputError(f"--image: expected each name once, got {name!r} twice")
        images[name] = str(Path(path).resolve())
    return images


def image_attributes(images: dict[str, str]) -> dict[str, str | float]:
    """What a node says of its images."""
    from murmuration.workload.service_spec import IMAGE_ATTRIBUTE

    return {f"{IMAGE_ATTRIBUTE}{name}": "yes" for name in images}


def client(folder: Path | None) -> ApiClient:
    from murmuration.runtime.client.requests import ApiClient, Reach

    context = click.get_current_context(silent=True)
    meta = {} if context is None else context.meta
    return ApiClient(folder, Reach(meta.get(_JOIN, ()), meta.get(_TOKEN_FILE)))


def ask_again(client: ApiClient, *path: str, patience_s: float, **query: object) -> Any:
    """Ask for something; while the master is away, ask again for so long."""
    return ask_patiently(lambda: client.again().get(*path, **query), patience_s)


def ask_patiently(ask: Callable[[], Answer], patience_s: float) -> Answer:
    """The same for any question."""
    from murmuration.runtime.client.requests import AnswerError

    deadline = time.monotonic() + patience_s
    while True:
        try:
            return ask()
        except InputError as error:
            # A refusal is an answer, unless it says that a node is not back yet.
            is_final = isinstance(error, AnswerError) and error.status != NOT_NOW
            if is_final or time.monotonic() >= deadline:
                raise
        time.sleep(AGAIN_S)


def follow(client: ApiClient, index: int) -> Iterator[Row]:
    """Facts as they come, without end; a connection that breaks is taken up where it broke, once
    there is a master again."""
    from murmuration.runtime.client.requests import AnswerError

    away_since = time.monotonic()
    while True:
        try:
            for row in client.again().events(index):
                index = row["index"]
                yield row
                away_since = time.monotonic()
        except AnswerError:
            raise
        except (InputError, OSError, ValueError):
            if time.monotonic() - away_since > AWAY_S:
                raise
        time.sleep(AGAIN_S)


def begin_page(is_repeated: bool, is_first: bool) -> None:
    """Before a listing that is printed again and again: on a terminal over the one before, else
    below it."""
    if is_repeated and sys.stdout.isatty():
        sys.stdout.write("\x1b[H\x1b[2J")
    elif not is_first:
        sys.stdout.write("\n")


def print_rows(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table as plain text, without a library that is slow to import; the last column is cut to a
    terminal's width."""
    terminal = sys.stdout.isatty()
    widths = [max(map(len, column)) for column in zip(headers, *rows, strict=True)]
    room = (
        shutil.get_terminal_size().columns - sum(widths[:-1]) - 2 * (len(widths) - 1)
        if terminal
        else 0
    )
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(headers, widths, strict=True))
        .rstrip()
        .upper()
    ]
    for row in rows:
        cells = [text.ljust(width) for text, width in zip(row, widths, strict=True)]
        if terminal:
            cells = [_colour_cell(cell) for cell in cells[:-1]] + [
                cells[-1].rstrip()[: max(room, 10)]
            ]
        lines.append("  ".join(cells).rstrip())
    sys.stdout.write("\n".join(lines) + "\n")


def _colour_cell(cell: str) -> str:
    colour = _COLOURS.get(cell.strip())
    return f"\x1b[{colour}m{cell}\x1b[0m" if colour else cell


def duration(seconds: float | None) -> str:
    """Seconds as people say them."""
    if seconds is None:
        return ""
    if seconds < 100:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    if seconds < 6000:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172_800 else f"{seconds / 86_400:.0f} d"


def size(amount: float | None) -> str:
    if amount is None:
        return ""
    for unit, step in (("GB", 1e9), ("MB", 1e6)):
        if amount >= step:
            return f"{amount / step:.3g} {unit}"
    return f"{amount / 1e3:.3g} kB"


def job_cells(row: Row) -> list[str]:
    done = sum(row["tasks"].get(state, 0) for state in ("running", "finished"))
    code = "" if row["code"] is None else str(row["code"])
    age = duration(row["age_s"])
    return [
        row["job"],
        row["kind"],
        row["state"],
        f"{done}/{row['count']}",
        code,
        age,
        row["reason"],
    ]


def task_cells(row: Row) -> list[str]:
    code = "" if row["code"] is None else str(row["code"])
    began, lasted = row["started_s"], None
    if began is not None:
        lasted = (row["ended_s"] or began + row["age_s"]) - began
    reason = row["reason"]
    if row["health"] == "not yet":
        reason = reason or "not healthy yet"
    return [row["task"], row["state"], row["node"], code, duration(lasted), reason]


def share(used: float | None, requested: float, show: Callable[[float | None], str]) -> str:
    """What is used beside what was asked for, and the one in hundredths of the other."""
    if used is None:
        return f"-/{show(requested)}"
    percent = f" {100 * used / requested:.0f}%" if requested else ""
    return f"{show(used)}/{show(requested)}{percent}"


def node_cells(row: Row) -> list[str]:
    cpu = f"{row['required']['cpu']:.3g}/{row['total']['cpu']:.3g}"
    memory = f"{size(row['required']['memory'])}/{size(row['total']['memory'])}"
    used = f"{row['used'].get('cpu', 0.0):.2f} CPU, {size(row['used'].get('memory', 0.0))}"
    return [row["node"], row["state"], str(row["tasks"]), cpu, memory, used, row["reason"]]


JOB_HEADERS = ("job", "kind", "state", "tasks", "code", "age", "reason")
TASK_HEADERS = ("task", "state", "node", "code", "ran", "reason")
NODE_HEADERS = ("node", "state", "tasks", "cpu", "memory", "used", "reason")
