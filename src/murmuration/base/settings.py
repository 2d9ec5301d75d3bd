"""Checks of settings that a user may write.

The module that holds a group of settings also says which values make sense, as an iterator of
problems: sentences that name the key and what was expected. The scenario raises the first of them.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Collection, Iterator

from murmuration.base.errors import InputError, did_you_mean

#: Nodes at most: the limit of every setting that counts nodes.
NODES_MAX = 1_000_000


def check_number(
    key: str,
    value: float,
    *,
    above: float | None = None,
    low: float | None = None,
    high: float = math.inf,
) -> Iterator[str]:
    """A sentence if the value is not finite, not `above` (or below `low`), or beyond `high`."""
    bound = above if above is not None else low
    bad = not math.isfinite(value) or value > high
    bad |= (above is not None and value <= above) or (low is not None and value < low)
    if bad:
        words = f"above {above:g}" if above is not None else f"from {bound:g}"
        limit = "" if math.isinf(high) else f" up to {high:g}"
        yield f"{key}: expected a number {words}{limit}, got {value:g}"


def check_word(key: str, word: str, known: Collection[str]) -> Iterator[str]:
    """A sentence if the word is not one of those known."""
    if word not in known:
        yield f"{key}: unknown word {word!r}; {did_you_mean(word, known)}"


def parse_setting(text: str) -> tuple[str, object]:
    """`a.b.c=VALUE` as written after `--set`; a value that is not TOML is taken as text."""
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise InputError(
            f"--set: expected KEY=VALUE such as scheduler.conflict=machine, got {text!r}"
        )
    return key.strip(), parse_value(value)


def parse_value(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text.strip()
