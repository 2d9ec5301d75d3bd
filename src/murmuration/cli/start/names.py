"""What can be named on a command line and in a scenario, with a line on each."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import get_args, get_origin

import msgspec

Rows = list[tuple[str, ...]]


def list_presets() -> Rows:
    from murmuration.simulation.scenarios import scenario as sc

    return [(name, str(sc.load(name).get("description", ""))) for name in sc.preset_names()]


#: What each architecture is, in a line; the docs have a page on each.
ARCHITECTURES = {
    "monolithic": "one scheduler, or one per workload, that decides on the whole cluster",
    "partitioned": "a fixed part of the cluster for each workload",
    "offers": "a master offers free resources to frameworks, which choose (Mesos)",
    "shared-state": "schedulers decide side by side on copies and commit (Omega)",
    "negotiation": "node agents negotiate and move running tasks (MASB)",
    "swarm": "containers move themselves along pheromones",
    "genetic": "a genetic algorithm places batches and moves what runs (Kapellmeister)",
}


def list_schedulers() -> Rows:
    from murmuration.simulation.architectures.table import kinds

    return [(kind, ARCHITECTURES.get(kind, "installed")) for kind in kinds()]


def list_placements() -> Rows:
    from murmuration.placement.registry import NAMES
    from murmuration.placement.scores import SCORES

    first = ("first-fit", "the first node with room, in an order drawn for each job")
    scored = [(name, _first_line(SCORES[name])) for name in NAMES if name in SCORES]
    return [first, *scored, ("module:name", "a score or a class of your own")]


def list_objectives() -> Rows:
    from murmuration.assignment.objectives import MEANINGS

    return list(MEANINGS.items())


def list_experiments() -> Rows:
    from murmuration.experiments.catalogue import EXPERIMENTS
    from murmuration.experiments.papers.claims import find_paper

    return [(name, entry.title, find_paper(name)) for name, entry in EXPERIMENTS.items()]


def list_keys() -> Rows:
    """Every key of a scenario with its type and default; NAME stands for a name of the user's, []
    for each table of a list."""
    from murmuration.simulation.architectures.table import settings_tables
    from murmuration.simulation.scenarios import scenario as sc

    rows = [*_keys(sc.Scenario, ""), *_keys(sc.Generator, "workload.NAME.")]
    rows += _keys(sc.ReplaySettings, "workload.")
    for name, table in settings_tables().items():
        rows += _keys(table.struct, f"scheduler.{name}.")
    return [row for row in rows if row[0] not in ("workload", "variant", "scheduler.settings")]


def _keys(struct: type[msgspec.Struct], prefix: str) -> Iterator[tuple[str, ...]]:
    for field in msgspec.structs.fields(struct):
        nested = _find_nested(field.type)
        if nested is None:
            yield f"{prefix}{field.encode_name}", type_name(field.type), default_text(field)
            continue
        below, path = nested
        yield from _keys(below, f"{prefix}{field.encode_name}{path}")


def _find_nested(kind: object) -> tuple[type[msgspec.Struct], str] | None:
    """The table behind a key, and how its keys go on: several by name, a list, or just one."""
    paths: dict[object, str] = {dict: ".NAME.", list: "[]."}
    for candidate in (kind, *get_args(kind)):
        if inspect.isclass(candidate) and issubclass(candidate, msgspec.Struct):
            return candidate, paths.get(get_origin(kind), ".")
    return None


def type_name(kind: object) -> str:
    if get_origin(kind) is not None and "Literal" in str(get_origin(kind)):
        return " | ".join(map(str, get_args(kind)))
    name = kind.__name__ if inspect.isclass(kind) and not get_args(kind) else str(kind)
    name = re.sub(r"\b(?:murmuration\.[\w.]*|typing)\.", "", name)
    return name.replace("str", "text")


def default_text(field: msgspec.structs.FieldInfo) -> str:
    if field.default is not msgspec.NODEFAULT:
        return (
            ""
            if field.default in (None, msgspec.UNSET)
            else msgspec.json.encode(field.default).decode()
        )
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.json.encode(field.default_factory()).decode()
    return "required"


def _first_line(thing: object) -> str:
    text = inspect.getdoc(thing) or ""
    return " ".join(text.split("\n\n")[0].split())


#: Each list with the headings of its columns.
LISTS: dict[str, tuple[tuple[str, ...], Callable[[], Rows]]] = {
    "presets": (("preset", "what it is"), list_presets),
    "schedulers": (("scheduler", "what it is"), list_schedulers),
    "placements": (("placement", "which node it prefers"), list_placements),
    "objectives": (("objective", "what a plan minimises"), list_objectives),
    "experiments": (("experiment", "what it reproduces", "paper"), list_experiments),
    "keys": (("key", "type", "default"), list_keys),
}
