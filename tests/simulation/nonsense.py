"""Policies whose answers make no sense, each in its own way."""

from __future__ import annotations

from typing import Any

import numpy as np

from murmuration.placement.view import JobView, View


class Nonsense:
    """A policy whose answer is given."""

    answer: Any = None

    def decide(self, view: View, job: JobView, rng: np.random.Generator) -> Any:
        return self.answer


class TooFew(Nonsense):
    answer = (0,)


class TooMany(Nonsense):
    answer = (0, 0, 0, 0)


class Nothing(Nonsense):
    pass


class Words(Nonsense):
    answer = ("a", "b", "c")


class Halves(Nonsense):
    answer = (0.5, 1.0, 1.0)


class Nested(Nonsense):
    answer = ((0, 0, 0),)


class Ragged(Nonsense):
    answer = ((0,), 0, 0)


class OutOfRange(Nonsense):
    answer = (0, 1, 2)


class BelowMinusOne(Nonsense):
    answer = (0, -2, -1)


class Full(Nonsense):
    answer = (0, 0, 0)


class Forbidden(Nonsense):
    answer = (1, -1, -1)


class Writes(Nonsense):
    def decide(self, view: View, job: JobView, rng: np.random.Generator) -> Any:
        view.free[0, 0] = 0
        return [0, -1, -1]


class Breaks(Nonsense):
    def decide(self, view: View, job: JobView, rng: np.random.Generator) -> Any:
        return [1 // (job.tasks - 3)] * 3


class Greedy(Nonsense):
    """Every task of a job on one node, as if all that is free there were its own."""

    def decide(self, view: View, job: JobView, rng: np.random.Generator) -> Any:
        return [0] * job.tasks
