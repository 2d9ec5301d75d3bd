"""`murmur kube watch`: what happens to the pods of a cluster, told and recorded."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from murmuration.cli import common
from murmuration.cli.kube.access import CONTEXT, KUBECONFIG, with_client
from murmuration.cli.kube.rebalance import parse_duration
from murmuration.cli.kube.schedule import start_recording

if TYPE_CHECKING:
    from murmuration.kubernetes.api.client import KubeClient


@click.command()
@click.option(
    "--record",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Keep all of it; murmur replay FOLDER schedules the same pods by another policy.",
)
@click.option("--for", "lasts", metavar="TIME", help="Stop after this long, e.g. 2h (default: no).")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing of single pods.")
@common.with_options(KUBECONFIG, CONTEXT)
def watch(
    record: Path | None,
    lasts: str | None,
    quiet: bool,
    kubeconfig: Path | None,
    context: str | None,
) -> None:
    """Tell of every pod that comes, gets a node and leaves, until stopped (TERM or Ctrl-C).

    Needs the right to list and watch, and writes nothing into the cluster.
    """
    ends_s = None if lasts is None else parse_duration(lasts, "--for")

    async def observe(client: KubeClient) -> None:
        from murmuration.kubernetes.recording.observer import Observer

        recorder = await start_recording(client, record, None)
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)

        def say_ready() -> None:
            common.say("watching; everything there is was read")
            if ends_s is not None:
                loop.call_later(ends_s, stop.set)

        await Observer(client, recorder, _ignore if quiet else _tell, say_ready).run(stop)
        if recorder is not None:
            recorder.close()
            common.say(f"{record}: {recorder.lines:,} events recorded")

    with_client(kubeconfig, context, observe)


def _tell(sentence: str) -> None:
    click.echo(f"{time.strftime('%H:%M:%S')} {sentence}")


def _ignore(sentence: str) -> None:
    pass
