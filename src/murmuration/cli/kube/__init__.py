"""`murmur kube`: a Kubernetes cluster, by its API. Commands are imported when they are used."""

from __future__ import annotations

import importlib

import click

COMMANDS = ("snapshot", "schedule", "why", "plan", "apply", "rebalance", "watch")


class KubeCommands(click.Group):
    """Each command lies in the module of its name."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command = getattr(importlib.import_module(f"murmuration.cli.kube.{name}"), name)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from murmuration.base.errors import unknown

        if arguments and arguments[0] not in COMMANDS and not arguments[0].startswith("-"):
            raise unknown("command", arguments[0], COMMANDS)
        return super().resolve_command(context, arguments)


@click.group(cls=KubeCommands)
def kube() -> None:
    """A Kubernetes cluster: look at it, schedule its pods, carry plans out."""
