"""What a user names as `module:name`: a policy, an objective, a rule.

A user's modules lie in the folder the command is given from, or beside the scenario or snapshot
that names them. Both folders are looked at; the current one comes first, before installed packages,
and those of input files last, so that a file beside a scenario cannot hide a package.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from murmuration.base.errors import InputError, unknown


def is_module_path(name: str) -> bool:
    """Whether a name says where to find an object, `package.module:Name`."""
    return ":" in name


def look_beside(path: str | Path) -> None:
    """Look for users' modules beside an input file too, from now on."""
    folder = str(Path(path).absolute().parent)
    # Appended and kept: a module may import another of the same folder long after it was loaded,
    # and worker processes inherit the list.
    if folder not in sys.path:
        sys.path.append(folder)


def _look_here_first() -> None:
    folder = str(Path.cwd())
    if sys.path[:1] != [folder]:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)
        sys.path.insert(0, folder)


def _forget_other(module_name: str) -> None:
    """A long-lived process, such as a notebook, may have loaded a module of this name from another
    folder: the one that would be found now is meant."""
    loaded = getattr(sys.modules.get(module_name), "__file__", None)
    spec = PathFinder.find_spec(module_name) if "." not in module_name else None
    if loaded is not None and spec is not None and spec.has_location and spec.origin != loaded:
        del sys.modules[module_name]


def load_object(path: str, where: str = "") -> Any:
    """What `package.module:Name` names. `where` is what an error sentence begins with, by default
    the path itself."""
    where = where or path
    module_name, _, attribute = path.partition(":")
    _look_here_first()
    try:
        _forget_other(module_name)
        module = importlib.import_module(module_name)
    except Exception as error:
        # A user's module may fail in any way; whatever it is, it is their input that is wrong.
        raise InputError(f"{where}: module {module_name!r} cannot be imported: {error}") from error
    if not hasattr(module, attribute):
        names = [name for name in vars(module) if not name.startswith("_")]
        raise InputError(f"{where}: {unknown('name', attribute, names)}")
    return getattr(module, attribute)
