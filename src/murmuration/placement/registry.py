"""Placements by name: built in, or the user's own by module path. Compiled where possible, plain
Python otherwise."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from typing import Any

from murmuration.base.errors import InputError, unknown
from murmuration.base.loading import is_module_path, load_object
from murmuration.placement.plain import FirstFit, RankedPolicy
from murmuration.placement.scores import SCORES
from murmuration.placement.view import Policy

NAMES = ("first-fit", *SCORES)
ENTRY_POINTS = "murmuration.schedulers"


@dataclass(frozen=True)
class Placement:
    """A placement: the plain policy, and what the kernels call in its stead if it can be
    compiled."""

    name: str
    policy: Policy
    #: The score behind the ranking, if there is one.
    score: Any = None
    #: Compiled by the kernels: first fit, or a ranking by `score`.
    fast: bool = True


def is_user_defined(name: str) -> bool:
    """Whether a name stands for code outside this program: a module path, or an entry point of an
    installed package."""
    return is_module_path(name) or bool(
        importlib.metadata.entry_points(group=ENTRY_POINTS, name=name)
    )


def resolve(name: str) -> Placement:
    """The placement of this name."""
    if name == "first-fit":
        return Placement(name, FirstFit())
    if name in SCORES:
        return Placement(name, RankedPolicy(SCORES[name]), SCORES[name])
    if is_module_path(name):
        return from_object(name, load_object(name))
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS, name=name):
        return from_object(name, entry.load())
    raise unknown("placement", name, NAMES)


def from_object(name: str, loaded: Any) -> Placement:
    """The placement a user's object stands for: a score function, a compiled score, or a class with
    `decide`."""
    # Recognised by its name, because importing the class itself would import Numba.
    if type(loaded).__name__ == "Kernel" and hasattr(loaded, "function"):
        return Placement(name, RankedPolicy(loaded), loaded.function)
    if callable(getattr(loaded, "decide", None)):
        policy = _construct(name, loaded) if isinstance(loaded, type) else loaded
        return Placement(name, policy, fast=False)
    if callable(loaded) and not isinstance(loaded, type):
        return Placement(name, RankedPolicy(loaded), loaded, fast=False)
    raise InputError(
        f"{name}: expected a score function or a class with decide(view, job, rng), got {loaded!r}"
    )


def _construct(name: str, policy: type) -> Any:
    try:
        return policy()
    except Exception as error:
        raise InputError(f"{name}: the class cannot be made without arguments: {error}") from error
