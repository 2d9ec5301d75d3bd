"""The machine-reassignment instances of the ROADEF/EURO challenge of 2012: the model, an
assignment, and their files.

Both formats are integers separated by blanks, in a fixed order and without names; so an error says
which number of the file was wrong (counted from one, with its line) and what was expected there.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from murmuration.base.arrays import Amounts, Indices, Integers
from murmuration.base.errors import InputError

#: What a number means, and its minimum and maximum.
Column = tuple[str, int, int]
#: Every amount of the challenge fits; a larger one would overflow a sum.
AMOUNT_MAX = 2**32


class Model(NamedTuple):
    """An instance as arrays. A list of lists is one array of entries and one of where each list
    begins.

    Words follow this program: the challenge's machine is a node, its process a task.
    """

    transient: Integers  # resource: 1 if a moved task still counts where it was
    load_weight: Integers  # resource
    capacity: Amounts  # node × resource
    safety: Amounts  # node × resource: what is above costs
    neighbourhood: Indices  # node
    location: Indices  # node
    node_move: Integers  # node × node: the cost of a move from one to the other
    service: Indices  # task
    request: Amounts  # task × resource
    task_move: Integers  # task: the cost of moving it at all
    spread: Integers  # service: in how many locations it must be at least
    need_from: Indices  # service + 1: where its needs begin
    needs: Indices  # the services it depends on
    balance: Integers  # pair × (resource, other resource, target, weight)
    weights: Integers  # of task moves, of service moves, of node moves

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Nodes, resources, tasks, services."""
        return (*self.capacity.shape, len(self.service), len(self.spread))


class _Numbers:
    """The integers of one file, taken in order."""

    def __init__(self, path: Path) -> None:
        self.path, self.next = path, 0
        try:
            self.lines = path.read_text(encoding="ascii").splitlines()
        except FileNotFoundError:
            raise InputError(f"{path}: there is no such file") from None
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: cannot be read as text ({error})") from None
        self.words = [word for line in self.lines for word in line.split()]

    def error(self, index: int, problem: str) -> InputError:
        """The error that names the number at `index` and its line."""
        seen = 0
        for number, line in enumerate(self.lines, 1):
            seen += len(line.split())
            if index < seen:
                return InputError(
                    f"{self.path}: line {number}, number {index + 1} of the file: {problem}"
                )
        return InputError(f"{self.path}: ends after {len(self.words)} numbers: {problem}")

    def take(self, count: int, what: str, low: int = 0, high: int = AMOUNT_MAX) -> Integers:
        """The next `count` integers, each between `low` and `high`."""
        return self.table(count, ((what, low, high),))[:, 0]

    def one(self, what: str, low: int = 0, high: int = AMOUNT_MAX) -> int:
        return int(self.take(1, what, low, high)[0])

    def table(self, rows: int, columns: tuple[Column, ...]) -> Integers:
        """The next rows of a table whose columns are known."""
        count, start = rows * len(columns), self.next
        present = min(count, len(self.words) - start)
        values = [self._integer(start + k, columns[k % len(columns)]) for k in range(present)]
        if present < count:
            raise self.error(start + present, f"expected {columns[present % len(columns)][0]}")
        self.next = start + count
        return np.array(values, dtype=np.int64).reshape(rows, len(columns))

    def _integer(self, index: int, column: Column) -> int:
        what, low, high = column
        word = self.words[index]
        # Also refuses what `int` would take but no other reader of the challenge: signs,
        # underscores.
        value = int(word) if word.isdecimal() and len(word) < 20 else -1
        if not low <= value <= high:
            raise self.error(
                index, f"expected {what}, an integer from {low} to {high}, found {word[:20]!r}"
            )
        return value

    def end(self) -> None:
        if self.next < len(self.words):
            raise self.error(
                self.next, f"expected the end of the file, found {self.words[self.next][:20]!r}"
            )


def read_model(path: Path) -> Model:
    """Read a `model_*.txt` of the challenge."""
    numbers = _Numbers(path)
    words = len(numbers.words)
    resources = numbers.one("the number of resources", 1, words)
    kinds = (("whether a resource is transient", 0, 1), _amount("the load weight of a resource"))
    transient, load_weight = numbers.table(resources, kinds).T
    nodes = numbers.one("the number of nodes", 1, words)
    node = numbers.table(nodes, _node_columns(resources, nodes))
    spread, need_from, needs = _services(numbers)
    tasks = numbers.one("the number of tasks", 1, words)
    task = numbers.table(tasks, _task_columns(resources, len(spread)))
    pairs = numbers.one("the number of balance costs", 0, words)
    resource = ("a resource of a balance cost", 0, resources - 1)
    balance = numbers.table(
        pairs, (resource, resource, _amount("a balance target"), _amount("a balance weight"))
    )
    weights = numbers.take(3, "the weights of task, service and node moves")
    numbers.end()
    whole = np.ascontiguousarray
    return Model(
        transient=whole(transient),
        load_weight=whole(load_weight),
        capacity=whole(node[:, 2 : 2 + resources]),
        safety=whole(node[:, 2 + resources : 2 + 2 * resources]),
        neighbourhood=np.unique(node[:, 0], return_inverse=True)[1].astype(np.int64),
        location=np.unique(node[:, 1], return_inverse=True)[1].astype(np.int64),
        node_move=whole(node[:, 2 + 2 * resources :]),
        service=whole(task[:, 0]),
        request=whole(task[:, 1:-1]),
        task_move=whole(task[:, -1]),
        spread=spread,
        need_from=need_from,
        needs=needs,
        balance=balance,
        weights=weights,
    )


def _amount(what: str) -> Column:
    return what, 0, AMOUNT_MAX


def _node_columns(resources: int, nodes: int) -> tuple[Column, ...]:
    places = (_amount("a node's neighbourhood"), _amount("a node's location"))
    amounts = [
        _amount(f"a node's {what} of resource {r}")
        for what in ("capacity", "safety")
        for r in range(resources)
    ]
    return (*places, *amounts, *(_amount(f"the cost of a move to node {m}") for m in range(nodes)))


def _task_columns(resources: int, services: int) -> tuple[Column, ...]:
    amounts = [_amount(f"a task's requirement of resource {r}") for r in range(resources)]
    return (("a task's service", 0, services - 1), *amounts, _amount("a task's move cost"))


def _services(numbers: _Numbers) -> tuple[Integers, Indices, Indices]:
    """Spread, where each service's needs begin, and the needs."""
    count = numbers.one("the number of services", 1, len(numbers.words))
    spread, lists = np.zeros(count, dtype=np.int64), []
    for s in range(count):
        spread[s] = numbers.one(f"the spread of service {s}")
        needs = numbers.one(f"the number of dependencies of service {s}", 0, count)
        lists.append(
            np.unique(numbers.take(needs, f"a service that service {s} depends on", 0, count - 1))
        )
    need_from = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return spread, need_from, np.concatenate(lists).astype(np.int64)


def read_assignment(path: Path, model: Model) -> Indices:
    """Read an `assignment_*.txt`: the node of each task."""
    nodes, _, tasks, _ = model.sizes
    numbers = _Numbers(path)
    assignment = numbers.take(tasks, f"the node of each of the {tasks} tasks", 0, nodes - 1)
    numbers.end()
    return assignment


def write_assignment(path: Path, assignment: Indices) -> None:
    """Write the node of each task, in the challenge's own format."""
    path.write_text(" ".join(map(str, assignment.tolist())) + "\n", encoding="ascii")
