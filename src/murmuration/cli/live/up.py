"""`murmur up`: a cluster on this host, with a master and some node agents."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from murmuration.base.errors import InputError
from murmuration.cli import common
from murmuration.cli.live import common as live


@click.command()
@live.DIR
@click.option(
    "--agents",
    type=click.IntRange(1, 1000),
    default=3,
    show_default=True,
    help="Node agents to start.",
)
@click.option(
    "--detach", is_flag=True, help="Return when the cluster is ready; murmur down ends it."
)
@live.PORT
@live.SCHEDULER
@live.PLACEMENT
@live.ALLOCATOR
@live.QUEUE
@live.SETTINGS
@click.option(
    "--cpu", type=float, help="CPUs of each node (default: the host's, divided; at least 1)."
)
@click.option("--memory", help="Memory of each node, e.g. 4Gi (default: the host's, divided).")
@click.option(
    "--resource",
    "extra",
    multiple=True,
    metavar="NAME=AMOUNT",
    help="A resource of each node besides CPU and memory.",
)
@click.option(
    "--attribute",
    multiple=True,
    metavar="KEY=VALUE",
    help="An attribute of each node that constraints can test.",
)
@live.VOLUME
@live.IMAGE
@click.option("--isolation", default="auto", show_default=True, help=live.ISOLATION_HELP)
@live.AGENT_TIMEOUT
@live.RATE_LIMIT
@live.TASK_DISK
@live.TASK_DISK_MAX
@live.LOG_FORMAT
@common.with_options(common.SEED, common.JSON)
def up(
    folder: Path | None,
    agents: int,
    detach: bool,
    port: int,
    scheduler: str,
    placement: str,
    allocator: str,
    queue: str,
    settings: tuple[str, ...],
    cpu: float | None,
    memory: str | None,
    extra: tuple[str, ...],
    attribute: tuple[str, ...],
    volumes: tuple[str, ...],
    images: tuple[str, ...],
    isolation: str,
    agent_timeout_s: float,
    rate_limit: float,
    disk: str,
    disk_max: str,
    log_format: str,
    seed: int | None,
    as_json: bool,
) -> None:
    """Start a cluster on this host.

    It has a master and some node agents, and needs no setup.
    """
    from murmuration.runtime import supervisor
    from murmuration.runtime.folder import find_folder
    from murmuration.runtime.local import local_parts
    from murmuration.runtime.options import MasterOptions

    place = find_folder(folder)
    amounts = node_resources(agents, cpu, memory, extra)
    folders = live.parse_volumes(volumes)
    roots = live.parse_images(images)
    attributes = {
        **parse_attributes(attribute),
        **live.volume_attributes(folders),
        **live.image_attributes(roots),
    }
    check_isolation(isolation, {"--volume": folders, "--image": roots})
    master = MasterOptions(
        folder=str(place),
        port=port,
        scheduler=scheduler,
        placement=placement,
        allocator=allocator,
        queue=queue,
        settings=list(settings),
        resources=[name for name in amounts if name not in ("cpu", "memory")],
        seed=1 if seed is None else seed,
        agent_timeout_s=agent_timeout_s,
        isolation=isolation,
        rate_limit=rate_limit,
        disk=live.check_size(disk, "--disk"),
        disk_max=live.check_size(disk_max, "--disk-max"),
        log_format=log_format,
    )
    parts = local_parts(master, agents, amounts, attributes, folders, roots)
    if detach:
        _print_ready(supervisor.start_detached(parts), place, agents, as_json)
    else:
        supervisor.run_attached(parts, lambda url: _print_ready(url, place, agents, as_json))


def check_isolation(isolation: str, given: Mapping[str, object]) -> None:
    """InputError if there is no such isolation, or what needs containers is given without."""
    from murmuration.base.errors import unknown
    from murmuration.runtime.isolations import ISOLATIONS, PROCESS

    if isolation not in ISOLATIONS:
        raise unknown("isolation", isolation, ISOLATIONS)
    for flag in (flag for flag, value in given.items() if value and isolation == PROCESS):
        raise InputError(f"{flag}: expected only with containers (--isolation runc)")


def _print_ready(url: str, folder: Path, agents: int, as_json: bool) -> None:
    link = page_link(folder)
    if as_json:
        common.print_json({"url": url, "dir": str(folder), "agents": agents, "link": link})
        return
    common.say(f"{agents} node agents are up; folder {folder}")
    common.say(f"web page, once and within ten minutes: {link}")
    click.echo(url)


def page_link(folder: Path | None) -> str:
    """An address that opens the web page of the cluster of a folder once."""
    from murmuration.runtime.client.requests import ApiClient

    return str(ApiClient(folder).post("links")["link"])


def node_resources(
    agents: int, cpu: float | None, memory: str | None, extra: tuple[str, ...]
) -> dict[str, int]:
    """The resources of each node as the options give them."""
    from murmuration.runtime.local import node_amounts

    named = dict(_pair(text, "--resource", "gpu=2") for text in extra)
    return node_amounts(agents, cpu, memory, named)


def parse_attributes(texts: tuple[str, ...]) -> dict[str, str | float]:
    import socket

    from murmuration.cluster.constraints import as_value

    given = dict(_pair(text, "--attribute", "zone=a") for text in texts)
    return {"host": socket.gethostname(), **{key: as_value(value) for key, value in given.items()}}


def _pair(text: str, option: str, example: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator or not key.strip() or not value.strip():
        raise InputError(f"{option}: expected something such as {example}, got {text!r}")
    return key.strip(), value.strip()
