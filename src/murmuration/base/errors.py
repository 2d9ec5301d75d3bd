"""The one error a user can cause: a sentence that says what was wrong, where, and what was
expected."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

#: Names listed at most.
NAMES_MAX = 40


class InputError(Exception):
    """Bad input. The command prints the sentence and exits with code 2."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name: the same in upper or lower case, the closest known one, else all
    of them."""
    known_names = sorted(known)
    same = [other for other in known_names if other.casefold() == name.casefold()]
    close = same or difflib.get_close_matches(name, known_names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    more = [f"and {len(known_names) - NAMES_MAX} more"] if len(known_names) > NAMES_MAX else []
    return f"known: {', '.join([*known_names[:NAMES_MAX], *more])}"


def unknown(what: str, name: str, known: Iterable[str]) -> InputError:
    """The error for a name that is not known, with the nearest one that is."""
    return InputError(f"unknown {what} {name!r}; {did_you_mean(name, known)}")
