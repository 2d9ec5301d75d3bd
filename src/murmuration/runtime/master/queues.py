"""The queue of a live cluster as an operator sets it: the keys of a scenario's `[scheduler]`, given
as texts (`--set scheduler.queue_settings.preempt=requeue`)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from typing import NamedTuple, TypeVar

import msgspec

from murmuration.base.documents import Json
from murmuration.base.errors import InputError, did_you_mean
from murmuration.base.settings import parse_setting
from murmuration.base.words import plain_types
from murmuration.schedulers.queues.checking import find_queue_problems
from murmuration.schedulers.queues.discipline import (
    AdvanceReservation,
    FactorWeights,
    QueueDiscipline,
    QueueSettings,
    find_discipline,
)

Kind = TypeVar("Kind")
Table = dict[str, Json]
PATH = "scheduler."
#: What a live job asks for is its time limit, so there is nothing to estimate.
NOT_LIVE = ("estimate", "estimate_factor")
TIMES = frozenset(("from_s", "until_s"))
FIELDS = [name for name in QueueSettings.__struct_fields__ if name not in NOT_LIVE]
KEYS = (
    f"{PATH}queue",
    f"{PATH}reservation",
    *(f"{PATH}queue_settings.{name}" for name in FIELDS),
    *(f"{PATH}queue_settings.weights.{name}" for name in FactorWeights.__struct_fields__),
)


class LiveQueue(NamedTuple):
    """In which order jobs start, and for whom room is kept."""

    discipline: QueueDiscipline | None
    settings: QueueSettings
    reservations: tuple[AdvanceReservation, ...]


def read_queue(queue: str, texts: Iterable[str]) -> LiveQueue:
    """The queue of these settings, or a sentence about the first that cannot be."""
    tables: Table = {"queue": queue, "queue_settings": {}, "reservation": []}
    for text in texts:
        _set(tables, *parse_setting(text))
    reservations = [_set_times(each, k) for k, each in enumerate(_list(tables["reservation"]))]
    settings = _convert(tables["queue_settings"], QueueSettings, "queue_settings")
    kept = tuple(
        _convert(each, AdvanceReservation, f"reservation[{k}]")
        for k, each in enumerate(reservations)
    )
    discipline = find_discipline(tables["queue"]) if tables["queue"] else None
    for problem in find_queue_problems(tables["queue"], settings, kept, PATH):
        raise InputError(problem)
    return LiveQueue(discipline, settings, kept)


def _set(tables: Table, key: str, value: object) -> None:
    is_share = key.startswith(f"{PATH}queue_settings.shares.")
    if key not in KEYS and not is_share:
        raise InputError(f"--set: unknown key {key!r}; {did_you_mean(key, KEYS)}")
    *path, last = key.removeprefix(PATH).split(".")
    for step in path:
        tables = tables.setdefault(step, {})
        if not isinstance(tables, dict):
            raise InputError(f"--set: {key}: {step!r} is a value, not a table")
    tables[last] = value


def _list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise InputError(
            f"{PATH}reservation: expected a list such as "
            "[{from_s = 2030-01-01T08:00:00, until_s = 2030-01-01T12:00:00, share = 0.5}]"
        )
    return value


def _set_times(each: object, k: int) -> object:
    """A reservation whose times are dates, as seconds since 1970. Without a zone they are of this
    host's."""
    if not isinstance(each, dict):
        return each
    dates = {
        key: _seconds(each[key], f"{PATH}reservation[{k}].{key}") for key in each.keys() & ENDS
    }
    return {**each, **dates}


ENDS = frozenset(("from_s", "until_s"))


def _seconds(value: object, key: str) -> object:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError as error:
            raise InputError(
                f"{key}: expected a time such as 2030-01-01T08:00:00, or seconds since 1970, got "
                f"{value!r}"
            ) from error
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    return value.timestamp() if isinstance(value, datetime) else value


def _convert(table: object, kind: type[Kind], name: str) -> Kind:
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        text, separator, path = str(error).rpartition(" - at `$")
        where = path.rstrip("`") if separator else ""
        sentence = plain_types(text if separator else str(error))
        raise InputError(f"{PATH}{name}{where}: {sentence[0].lower()}{sentence[1:]}") from error
