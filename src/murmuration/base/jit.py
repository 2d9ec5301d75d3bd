"""Compilation: the kinds of compiled functions, and functions passed to them as values."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar

from murmuration.base import kernel_cache

kernel_cache.prepare()

import numba  # noqa: E402
from numba import types  # noqa: E402

Function = TypeVar("Function", bound=Callable[..., Any])

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
