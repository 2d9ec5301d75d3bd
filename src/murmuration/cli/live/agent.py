"""`murmur agent`: one node agent in the foreground."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.base.errors import InputError
from murmuration.cli.live import common as live
from murmuration.cli.live.up import node_resources, parse_attributes


@click.command()
@live.DIR
@click.option("--name", required=True, help="The node's name.")
@click.option("--cpu", type=float, help="CPUs (default: the host's).")
@click.option("--memory", help="Memory, e.g. 4Gi (default: the host's).")
@click.option(
    "--resource",
    "extra",
    multiple=True,
    metavar="NAME=AMOUNT",
    help="A resource besides CPU and memory.",
)
@click.option(
    "--attribute",
    multiple=True,
    metavar="KEY=VALUE",
    help="An attribute that constraints can test.",
)
@live.VOLUME
@live.IMAGE
@click.option(
    "--image-room",
    metavar="SIZE",
    default="20Gi",
    show_default=True,
    help="What unpacked images may take on disk before unused ones are removed.",
)
@live.TASK_DISK_MAX
@click.option(
    "--output-room",
    metavar="SIZE",
    default="20Gi",
    show_default=True,
    help="What ended tasks may leave on disk before the oldest of it is removed.",
)
@click.option(
    "--join",
    multiple=True,
    metavar="HOST:PORT",
    help="Where a master may listen for node agents; again for each master.",
)
@click.option(
    "--token-file",
    default="",
    metavar="FILE",
    help="With --join: the cluster's token (default: the one in the folder, or a certificate).",
)
@click.option("--isolation", default="auto", show_default=True, help=live.ISOLATION_HELP)
@click.option("--root", default="/", show_default=True, help="Root folder of containers.")
@click.option(
    "--emulate",
    type=click.IntRange(0, 100_000),
    default=0,
    help="Emulate so many nodes, which only pretend to run tasks.",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    help="Answer Prometheus on this port of loopback; 0 for any, told in the node's folder.",
)
@live.LOG_FORMAT
def agent(
    folder: Path | None,
    name: str,
    cpu: float | None,
    memory: str | None,
    extra: tuple[str, ...],
    attribute: tuple[str, ...],
    volumes: tuple[str, ...],
    images: tuple[str, ...],
    image_room: str,
    disk_max: str,
    output_room: str,
    join: tuple[str, ...],
    token_file: str,
    isolation: str,
    root: str,
    emulate: int,
    metrics_port: int | None,
    log_format: str,
) -> None:
    """Run a node agent in the foreground.

    It serves the master of the folder, or one that --join names. Ctrl-C kills its tasks and stops
    it; SIGHUP ends the agent and leaves its tasks to the next one.
    """
    from murmuration.base.resources import parse_quantity
    from murmuration.runtime.folder import find_folder
    from murmuration.runtime.node import process as process
    from murmuration.runtime.options import AgentOptions, EmulatedNode
    from murmuration.workload.job_spec import NAME

    if not NAME.fullmatch(name):
        raise InputError(
            f"--name: expected up to 63 letters, digits, - and _, no sign in front, got {name!r}"
        )
    resources, attributes = node_resources(1, cpu, memory, extra), parse_attributes(attribute)
    folders = live.parse_volumes(volumes)
    roots = live.parse_images(images)
    attributes |= live.volume_attributes(folders) | live.image_attributes(roots)
    names = [f"{name}-{k + 1}" for k in range(emulate)]
    process.main(
        AgentOptions(
            folder=str(find_folder(folder)),
            name=name,
            resources=resources,
            attributes={**attributes, "node": name},
            volumes=folders,
            images=roots,
            image_bytes_max=int(parse_quantity(image_room, "--image-room")),
            disk_bytes_max=int(parse_quantity(disk_max or 0, "--disk-max")),
            kept_bytes_max=int(parse_quantity(output_room, "--output-room")),
            join=list(join),
            token_file=token_file,
            isolation=isolation,
            root=root,
            metrics_port=metrics_port,
            log_format=log_format,
            emulated=[
                EmulatedNode(each, resources, {**attributes, "node": each, "host": each})
                for each in names
            ],
        )
    )
