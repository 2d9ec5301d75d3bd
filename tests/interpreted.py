"""A plugin for pytest that runs the kernels as plain Python: `pytest -p tests.interpreted`.

Compiling takes minutes and a small scenario seconds, so a change that is tried once (a mutant, a
print) is tried faster uncompiled. Numba is told not to compile; what kernels expect of it beyond
Python is supplied: records with attributes, and functions passed as values. Results are the same to
the last digit, which `tests/simulation/test_reference.py` shows under this plugin too.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import warnings
from typing import Any

os.environ["NUMBA_DISABLE_JIT"] = "1"

import numpy as np

from murmuration.base import jit


class PlainFunction:
    """A function passed to a kernel as a value."""

    def __init__(self, function: Any, *options: Any, **more: bool) -> None:
        self.compiled = function

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled(*arguments)


def with_attributes(*arguments: Any, **keywords: Any) -> Any:
    """A type of records whose fields are attributes, as they are in a kernel."""
    made = DTYPE(*arguments, **keywords)
    return DTYPE((np.record, made)) if made.names else made


DTYPE = np.dtype
jit.FirstClass = PlainFunction  # type: ignore[assignment,misc]
np.dtype = with_attributes  # type: ignore[assignment,misc]
try:
    for package in ("cluster", "placement", "schedulers", "simulation", "assignment"):
        root = importlib.import_module(f"murmuration.{package}")
        for module in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
            importlib.import_module(module.name)
finally:
    np.dtype = DTYPE  # type: ignore[misc]
# The one type that is made when a run is.
offers: Any = importlib.import_module("murmuration.simulation.architectures.offers.world")
make_batch_type = offers.make_batch_type
offers.make_batch_type = lambda count: with_attributes(make_batch_type(count))
# Unsigned numbers wrap around in a kernel, silently.
warnings.simplefilter("ignore", RuntimeWarning)
np.seterr(all="ignore")
