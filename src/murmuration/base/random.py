"""The generator kernels draw from: SFC64, the same stream as NumPy's, with its state in an array of
four integers.

A state in an array can be saved with the world, and a plain Python policy can go on drawing where a
kernel stopped.
"""

from __future__ import annotations

import zlib

import numpy as np

from murmuration.base.arrays import RandomState


def seed_sequence(seed: int, *path: str) -> np.random.SeedSequence:
    """The seed of one part of a run, by name, so that adding a part never changes what another one
    draws."""
    return np.random.SeedSequence(seed, spawn_key=tuple(zlib.crc32(name.encode()) for name in path))


def generator(seed: int, *path: str) -> np.random.Generator:
    """A NumPy generator for one named part of a run."""
    return np.random.Generator(np.random.SFC64(seed_sequence(seed, *path)))


def state(seed: int, *path: str) -> RandomState:
    """The same generator as `generator`, as the array a kernel draws from."""
    bits = np.random.SFC64(seed_sequence(seed, *path))
    return np.array(bits.state["state"]["state"], dtype=np.uint64)


def load(bits: np.random.SFC64, from_state: RandomState) -> None:
    """Make a NumPy bit generator go on where the kernel's state stands."""
    bits.state = {
        "bit_generator": "SFC64",
        "state": {"state": from_state},
        "has_uint32": 0,
        "uinteger": 0,
    }


def save(bits: np.random.SFC64, to_state: RandomState) -> None:
    """Make the kernel's state go on where the NumPy bit generator stands."""
    to_state[:] = bits.state["state"]["state"]


def next_double(state: RandomState) -> float:
    """The next number in [0, 1), as `Generator.random()` gives it."""
    a, b, c, counter = state[0], state[1], state[2], state[3]
    value = a + b + counter
    state[3] = counter + np.uint64(1)
    state[0] = b ^ (b >> np.uint64(11))
    state[1] = c + (c << np.uint64(3))
    state[2] = ((c << np.uint64(24)) | (c >> np.uint64(40))) + value
    return float(value >> np.uint64(11)) * (1.0 / 9007199254740992.0)
