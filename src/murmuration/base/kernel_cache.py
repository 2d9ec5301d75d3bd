"""Where compiled kernels are kept.

Numba notices a change of the file a kernel is in, not of the helpers it calls elsewhere; so the
cache lies in a folder named after the content of all of them, and a new version never meets old
machine code. Nor does it matter where the package lies: every copy of this version uses what any of
them has compiled. Several processes may fill the cache at a time; one at a time adds an entry.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

PACKAGE = Path(__file__).parent.parent

_KERNEL = re.compile(r"^@(compiled|helper|inlined|inner|loop_kernel|released)$", re.MULTILINE)
_IMPORT = re.compile(r"^from murmuration\.([\w.]+) import (?:\(([^)]*)\)|([\w, ]+))", re.MULTILINE)


def user_cache() -> Path:
    """Where this user's caches lie: `MURMUR_CACHE`, else a folder of ours among the user's
    others."""
    given = os.environ.get("MURMUR_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(given or os.path.join(home, "murmuration"))


def kernel_folder() -> Path:
    """The kernel cache of this version."""
    return user_cache() / f"kernels-{source_digest()}"


def source_digest() -> str:
    """A digest of every file that holds a kernel, and of the files whose functions those
    compile."""
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(PACKAGE.rglob("*.py"))}
    kernels = {path for path, text in texts.items() if _KERNEL.search(text)}
    called = {PACKAGE / f"{name}.py" for path in kernels for name in _list_imports(texts[path])}
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(kernels | (called & texts.keys())):
        digest.update(f"{path.relative_to(PACKAGE)}\n{texts[path]}".encode())
    return digest.hexdigest()


def _list_imports(text: str) -> set[str]:
    """The modules of ours a file imports from, as paths below the package."""
    modules: set[str] = set()
    for module, listed, in_line in _IMPORT.findall(text):
        folder = module.replace(".", "/")
        names = (listed or in_line).split(",")
        modules |= {folder} | {f"{folder}/{name.strip()}" for name in names}
    return modules


def prepare() -> None:
    """Let Numba, which is imported after this, keep kernels as this module says. Users' own
    kernels go to the same folder, told apart by where their files lie."""
    folder = kernel_folder()
    if _make_folder(folder) and "numba" not in sys.modules:
        os.environ["NUMBA_CACHE_DIR"] = str(folder)
    from numba.core import caching

    caching.CacheImpl._locator_classes.insert(0, _make_locator(folder))
    caching.IndexDataCacheFile.save = _save_alone(caching.IndexDataCacheFile.save)


def _make_folder(folder: Path) -> bool:
    """Make the folder, with a message, if the kernels of this version are not compiled yet."""
    if folder.exists():
        return True
    message = "compiling kernels, once after installation (about half a minute) …"
    print(message, file=sys.stderr, flush=True)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return True


def _make_locator(folder: Path) -> type:
    from numba.core.caching import _CacheLocator

    class PackageLocator(_CacheLocator):  # type: ignore[misc]
        """Where Numba keeps a kernel of this package: by the name of its module alone. It answers
        for no other function, nor if the folder cannot be written to."""

        def __init__(self, function: FunctionType, file: Path) -> None:
            self._path = str(folder / file.relative_to(PACKAGE).with_suffix(""))
            self._line = function.__code__.co_firstlineno

        def get_cache_path(self) -> str:
            return self._path

        def get_source_stamp(self) -> int:
            return 0  # the folder's name stands for the content

        def get_disambiguator(self) -> str:
            return str(self._line)

        @classmethod
        def from_function(cls, function: FunctionType, file: str) -> PackageLocator | None:
            if not Path(file).is_relative_to(PACKAGE):
                return None
            locator = cls(function, Path(file))
            try:
                locator.ensure_cache_path()
            except OSError:
                return None
            return locator

    return PackageLocator


def _save_alone(save: Callable[..., None]) -> Callable[..., None]:
    """Add an entry to a kernel's index while other processes wait.

    Numba reads the index, takes the first free number for the file of machine code and writes
    both. Two processes in step would take the same number, and one signature be given the
    other's code.
    """

    def save_alone(entries: Any, key: object, data: object) -> None:
        with open(f"{entries._index_path}.lock", "wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            save(entries, key, data)

    return save_alone
