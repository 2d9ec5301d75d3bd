"""Completion of values on the command line: presets, schedulers, keys, experiments, jobs and nodes
of a live cluster. What is not known is completed as a file, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import click
from click.shell_completion import CompletionItem

Items = list[CompletionItem]
Completer = Callable[[click.Context, click.Parameter, str], Items]


def _matching(names: Iterable[str], typed: str, prefix: str = "") -> Items:
    return [CompletionItem(f"{prefix}{name}") for name in names if name.startswith(typed)]


def scenarios(context: click.Context, parameter: click.Parameter, typed: str) -> Items:
    """Presets, and files."""
    from murmuration.simulation.scenarios.scenario import preset_names

    return [*_matching(preset_names(), typed), CompletionItem(typed, type="file")]


def schedulers(context: click.Context, parameter: click.Parameter, typed: str) -> Items:
    """Architectures and the variants of the scenario that was named; several behind commas."""
    from murmuration.simulation.architectures.table import kinds
    from murmuration.simulation.scenarios import scenario as sc

    before, comma, last = typed.rpartition(",")
    names = list(kinds())
    # While an option lacks its value, Click leaves the arguments before it where they are.
    given = context.params.get("scenario") or next(iter(context.args), None)
    with suppress(Exception):
        names = [*sc.variants(sc.load(str(given))), *names] if given else names
    return _matching(dict.fromkeys(names), last, f"{before}{comma}")


def keys(context: click.Context, parameter: click.Parameter, typed: str) -> Items:
    """Keys of a scenario, with `=` behind them; behind `scheduler.placement=` the placements."""
    from murmuration.cli.start.names import list_keys, list_placements

    key, equals, value = typed.partition("=")
    if key == "scheduler.placement" and equals:
        return _matching((row[0] for row in list_placements()[:-1]), value, f"{key}=")
    return [] if equals else _matching((f"{row[0]}=" for row in list_keys()), typed)


def experiments(context: click.Context, parameter: click.Parameter, typed: str) -> Items:
    from murmuration.experiments.catalogue import EXPERIMENTS

    return _matching(EXPERIMENTS, typed)


def _ask_cluster(context: click.Context, *path: str) -> list[dict[str, object]]:
    """What a live cluster lists; nothing where there is none."""
    from murmuration.cli.live.common import client

    folder = context.params.get("folder")
    with suppress(Exception):
        answer = client(Path(str(folder)) if folder else None).get(*path)
        return list(answer[path[-1]] if path[-1] in answer else answer["nodes"])
    return []


def jobs(context: click.Context, parameter: click.Parameter, typed: str) -> Items:
    return _matching((str(row["job"]) for row in _ask_cluster(context, "jobs")), typed)


def tasks(context: click.Context, parameter: click.Parameter, typed: str) -> Items:
    """Jobs, and behind a dot their tasks."""
    if "." not in typed:
        return jobs(context, parameter, typed)
    return _matching((str(row["task"]) for row in _ask_cluster(context, "tasks")), typed)


def nodes(context: click.Context, parameter: click.Parameter, typed: str) -> Items:
    return _matching((str(row["node"]) for row in _ask_cluster(context, "status")), typed)


#: How the values of arguments and options are completed, by the name of the parameter. Those of
#: commands that mean something else by it are listed with the command.
COMPLETERS: dict[str, Completer] = {
    "scenario": scenarios,
    "scheduler": schedulers,
    "schedulers": schedulers,
    "settings": keys,
    "axes": keys,
    "job": jobs,
    "task": tasks,
    "node": nodes,
    "reproduce name": experiments,
    "kill job": tasks,
    "why job": tasks,
}


def attach(name: str, command: click.Command) -> click.Command:
    """Let the parameters of a command complete their values."""
    for parameter in command.params:
        completer = COMPLETERS.get(f"{name} {parameter.name}") or COMPLETERS.get(
            str(parameter.name)
        )
        if completer is not None and parameter._custom_shell_complete is None:
            parameter._custom_shell_complete = completer
    return command
