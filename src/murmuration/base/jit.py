"""Compilation: where kernels are cached, and the message that says when they are compiled.

Numba notices a change of the file a kernel is in, not of the helpers it calls elsewhere; so the
cache lies in a folder named after the content of all of them, and a new version never meets old
machine code.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar

_KERNEL = re.compile(r"^@(compiled|helper|inlined|inner|loop_kernel|released)$", re.MULTILINE)
_IMPORT = re.compile(r"^from murmuration\.([\w.]+) import (?:\(([^)]*)\)|([\w, ]+))", re.MULTILINE)

Function = TypeVar("Function", bound=Callable[..., Any])


def source_digest() -> str:
    """A digest of every file that holds a kernel, and of the files whose functions those
    compile."""
    root = Path(__file__).parent.parent
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.py"))}
    kernels = {path for path, text in texts.items() if _KERNEL.search(text)}
    called = {root / f"{name}.py" for path in kernels for name in _list_imports(texts[path])}
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(kernels | (called & texts.keys())):
        digest.update(texts[path].encode())
    return digest.hexdigest()


def _list_imports(text: str) -> set[str]:
    """The modules of ours a file imports from, as paths below the package."""
    modules: set[str] = set()
    for module, listed, in_line in _IMPORT.findall(text):
        folder = module.replace(".", "/")
        names = (listed or in_line).split(",")
        modules |= {folder} | {f"{folder}/{name.strip()}" for name in names}
    return modules


def cache_folder() -> Path:
    """The kernel cache of this version: below `MURMUR_CACHE`, else the user's cache folder."""
    base = os.environ.get("MURMUR_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache"),
        "murmuration",
    )
    return Path(base) / f"kernels-{source_digest()}"


def _prepare() -> None:
    """Point Numba at the cache, and print a message if the kernels of this version are not compiled
    yet."""
    if "NUMBA_CACHE_DIR" in os.environ or "numba" in sys.modules:
        return
    folder = cache_folder()
    if not folder.exists():
        print(
            "compiling kernels, once after installation (about half a minute) …",
            file=sys.stderr,
            flush=True,
        )
        try:
            folder.mkdir(parents=True)
        except OSError:
            return
    os.environ["NUMBA_CACHE_DIR"] = str(folder)


_prepare()

import numba  # noqa: E402
from numba import types  # noqa: E402

AMOUNTS = types.int64[:, ::1]
VECTOR = types.int64[::1]
SCORE = types.float64[::1](AMOUNTS, AMOUNTS, VECTOR)


def compiled(function: Function) -> Function:
    """A kernel: compiled on first use, cached on disk, no object mode, exact floating point.

    It may make arrays, also where it is called by a kernel that makes none: unless told, Numba
    would compile it without the counting of references then, and leak.
    """
    return numba.njit(cache=True, error_model="numpy", _nrt=True)(function)  # type: ignore[no-any-return]


def released(function: Function) -> Function:
    """A loop that threads may run side by side: it makes no arrays and holds no lock of the
    interpreter."""
    return numba.njit(cache=True, error_model="numpy", nogil=True, _nrt=False)(function)  # type: ignore[no-any-return]


def helper(function: Function) -> Function:
    """A small function that only kernels call: compiled with them, without an entrance from
    Python."""
    options = {"error_model": "numpy", "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return numba.njit(**options)(function)  # type: ignore[no-any-return]


def inner(function: Function) -> Function:
    """A small function of an inner loop: the compiler puts it into its caller, where a call would
    cost more than the work (arrays are passed field by field). It makes no arrays."""
    options = {"error_model": "numpy", "forceinline": True, "_nrt": False}
    return numba.njit(**options)(function)  # type: ignore[no-any-return]


def tree(function: Function) -> Function:
    """A plain function as a helper, and every plain function of ours that it calls as one too, all
    in one piece.

    They make no arrays; so nothing in them counts references.
    """
    helpers: dict[Any, Any] = {}
    options = {"error_model": "numpy", "forceinline": True, "_nrt": False}

    def make(plain: Any) -> Any:
        if plain not in helpers:
            names = {
                name: plain.__globals__[name]
                for name in plain.__code__.co_names
                if name in plain.__globals__
            }
            ours = {name: value for name, value in names.items() if _is_ours(value)}
            scope = {**plain.__globals__, **{name: make(value) for name, value in ours.items()}}
            helpers[plain] = numba.njit(**options)(
                FunctionType(plain.__code__, scope, plain.__name__, plain.__defaults__)
            )
        return helpers[plain]

    return make(function)  # type: ignore[no-any-return]


def _is_ours(value: Any) -> bool:
    return isinstance(value, FunctionType) and value.__module__.startswith("murmuration.")


def inlined(function: Function) -> Function:
    """A step of a loop: written as a function, compiled as part of its caller.

    A world is passed by value, and a call that is not inlined would copy every one of its array
    headers.
    """
    return numba.njit(inline="always", error_model="numpy")(function)  # type: ignore[no-any-return]


def loop_kernel(function: Function) -> Function:
    """The loop of an architecture. It makes no arrays, so nothing in it counts references."""
    return numba.njit(cache=True, error_model="numpy", _nrt=False)(function)  # type: ignore[no-any-return]


class FirstClass(types.WrapperAddressProtocol):  # type: ignore[misc]
    """A compiled function passed as a value: the loop that calls it is not compiled again for
    it."""

    def __init__(
        self, function: Callable[..., Any], signature: Any, cache: bool = True, arrays: bool = True
    ) -> None:
        """`arrays`: whether it makes any. If not, nothing in it counts references."""
        options = {"error_model": "numpy", "_nrt": arrays}
        self.compiled = numba.njit(signature, cache=cache, **options)(function)
        result = self.compiled.overloads[signature.args]
        # Kept, because both are asked for at every call of a kernel.
        self._address = int(
            result.library.get_pointer_to_function(result.fndesc.llvm_cfunc_wrapper_name)
        )
        self._signature, self._numba_type_ = signature, types.FunctionType(signature)

    def __wrapper_address__(self) -> int:
        return self._address

    def signature(self) -> Any:
        return self._signature


class Kernel:
    """A user's score, marked to run compiled. Called from Python it is the plain function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)
