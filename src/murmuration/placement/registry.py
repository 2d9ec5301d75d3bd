"""Placements by name: built in, or the user's own by module path. Compiled where possible, plain
Python otherwise."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from murmuration.base.errors import InputError, unknown
from murmuration.placement.plain import FirstFit, Ranked
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


def is_own(name: str) -> bool:
    """Whether a name is for the user's own: a module path, or an entry point of an installed
    package."""
    return ":" in name or bool(importlib.metadata.entry_points(group=ENTRY_POINTS, name=name))


def resolve(name: str) -> Placement:
    """The placement of this name."""
    if name == "first-fit":
        return Placement(name, FirstFit())
    if name in SCORES:
        return Placement(name, Ranked(SCORES[name]), SCORES[name])
    if ":" in name:
        return from_object(name, load_object(name))
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS, name=name):
        return from_object(name, entry.load())
    raise unknown("placement", name, NAMES)


def from_object(name: str, found: Any) -> Placement:
    """A user's score function, compiled score, or class with `decide`."""
    if type(found).__name__ == "Kernel" and hasattr(found, "function"):
        return Placement(name, Ranked(found), found.function)
    if callable(getattr(found, "decide", None)):
        return Placement(name, _made(name, found) if isinstance(found, type) else found, fast=False)
    if callable(found) and not isinstance(found, type):
        return Placement(name, Ranked(found), found, fast=False)
    raise InputError(
        f"{name}: expected a score function or a class with decide(view, job, rng), got {found!r}"
    )


def _made(name: str, policy: type) -> Any:
    try:
        return policy()
    except Exception as error:
        raise InputError(f"{name}: the class cannot be made without arguments: {error}") from error


def load_object(path: str) -> Any:
    """What `package.module:Name` names; modules beside the current folder are found too."""
    module_name, _, attribute = path.partition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        # A user's module may fail in any way; whatever it is, it is their input that is wrong.
        raise InputError(f"{path}: module {module_name!r} cannot be imported: {error}") from error
    if not hasattr(module, attribute):
        names = [name for name in vars(module) if not name.startswith("_")]
        raise InputError(f"{path}: {unknown('name', attribute, names)}")
    return getattr(module, attribute)
