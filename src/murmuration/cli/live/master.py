"""`murmur master`: one master in the foreground, for those who start the parts themselves."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.cli import common
from murmuration.cli.live import common as live


@click.command()
@live.DIR
@live.PORT
@live.SCHEDULER
@live.PLACEMENT
@live.ALLOCATOR
@live.QUEUE
@live.SETTINGS
@click.option(
    "--resource",
    "extra",
    multiple=True,
    metavar="NAME",
    help="A resource besides CPU and memory that nodes may have.",
)
@live.AGENT_TIMEOUT
@click.option(
    "--store",
    default="",
    metavar="etcd://HOST:PORT,…",
    help="Keep the cluster in etcd. Masters on several hosts then stand by for each other.",
)
@click.option(
    "--store-tls",
    default="",
    metavar="FOLDER",
    help="The certificate that etcd wants, as murmur ca issue makes it.",
)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="The address to listen on; beyond this host it needs certificates.",
)
@click.option(
    "--advertise",
    default="",
    metavar="HOST",
    help="Where others reach it, if that is not --host; needed for 0.0.0.0.",
)
@click.option(
    "--cluster", default="murmuration", show_default=True, help="The cluster's name in etcd."
)
@click.option(
    "--agents-port", type=click.IntRange(0, 65535), default=0, help="Port for node agents."
)
@click.option(
    "--leader-timeout",
    "leader_timeout_s",
    type=click.IntRange(2, 600),
    default=3,
    show_default=True,
    help="Seconds after which a leader that is gone is replaced.",
)
@click.option(
    "--allocation-interval",
    "allocation_interval_s",
    type=click.FloatRange(0, 60),
    default=0.0,
    show_default=True,
    help="Seconds between rounds of offers; 0: as soon as there is something to offer.",
)
@live.RATE_LIMIT
@live.TASK_DISK
@live.TASK_DISK_MAX
@live.LOG_FORMAT
@common.SEED
def master(
    folder: Path | None,
    port: int,
    scheduler: str,
    placement: str,
    allocator: str,
    queue: str,
    settings: tuple[str, ...],
    extra: tuple[str, ...],
    agent_timeout_s: float,
    store: str,
    store_tls: str,
    host: str,
    advertise: str,
    cluster: str,
    agents_port: int,
    leader_timeout_s: int,
    allocation_interval_s: float,
    rate_limit: float,
    disk: str,
    disk_max: str,
    log_format: str,
    seed: int | None,
) -> None:
    """Run a master in the foreground.

    Node agents find it through the folder. Ctrl-C stops the master and leaves tasks running.
    """
    from murmuration.runtime.folder import find_folder
    from murmuration.runtime.master import process as process
    from murmuration.runtime.options import MasterOptions

    process.main(
        MasterOptions(
            folder=str(find_folder(folder)),
            port=port,
            scheduler=scheduler,
            placement=placement,
            allocator=allocator,
            queue=queue,
            settings=list(settings),
            resources=list(extra),
            agent_timeout_s=agent_timeout_s,
            store=store,
            store_tls=store_tls,
            host=host,
            advertise=advertise,
            cluster=cluster,
            agents_port=agents_port,
            leader_timeout_s=leader_timeout_s,
            allocation_interval_s=allocation_interval_s,
            rate_limit=rate_limit,
            disk=live.check_size(disk, "--disk"),
            disk_max=live.check_size(disk_max, "--disk-max"),
            log_format=log_format,
            seed=1 if seed is None else seed,
        )
    )
