"""What tasks and nodes use, as node agents measure it and report it with their heartbeats."""

from __future__ import annotations

from array import array
from collections.abc import Callable

#: CPU seconds so far and bytes of memory of each run.
Usage = dict[str, tuple[float, int]]


class NodeMeasures:
    """The latest measurement of every node, a row each. Columns, so that who draws all nodes takes
    them over at once."""

    def __init__(self) -> None:
        self._row: dict[str, int] = {}
        self.names: list[str] = []
        #: CPUs in use and bytes of memory.
        self.columns = {"cpu": array("d"), "memory": array("d")}

    def set(self, node: str, cpu: float, memory: float) -> None:
        row = self._row.get(node)
        if row is None:
            row = self._row[node] = len(self.names)
            self.names.append(node)
            for column in self.columns.values():
                column.append(0.0)
        self.columns["cpu"][row], self.columns["memory"][row] = cpu, memory

    def get(self, node: str) -> dict[str, float]:
        """By the name of the resource; empty if it was never measured."""
        row = self._row.get(node)
        if row is None:
            return {}
        return {name: column[row] for name, column in self.columns.items()}


class UsageMeter:
    """The latest measurement of every run and node. It is lost in a crash and soon measured
    again."""

    def __init__(self) -> None:
        self.runs: Usage = {}
        #: CPUs in use by each run between its last two measurements.
        self.rates: dict[str, float] = {}
        self.nodes = NodeMeasures()
        #: The runs that each node has told of last.
        self._told: dict[str, tuple[str, ...]] = {}
        #: When each node was measured last, and the CPU seconds of its runs then.
        self._last: dict[str, tuple[float, float]] = {}

    def update(
        self, node: str, usage: Usage, now: float, is_on_node: Callable[[str], bool]
    ) -> None:
        """A heartbeat brought the usage of all runs of a node; runs it had and that are not among
        them have ended."""
        for run in self._told.get(node, ()):
            if run not in usage and is_on_node(run):
                self._forget(run)
        self._told[node] = tuple(usage)
        cpu_s = sum(used[0] for used in usage.values())
        last_s, last_cpu_s = self._last.get(node, (now, cpu_s))
        for run, (used_s, _) in usage.items():
            if now > last_s:
                before_s = self.runs.get(run, (0.0, 0))[0]
                self.rates[run] = max(0.0, used_s - before_s) / (now - last_s)
        self.runs.update(usage)
        self._last[node] = now, cpu_s
        rate = max(0.0, cpu_s - last_cpu_s) / (now - last_s) if now > last_s else 0.0
        self.nodes.set(node, rate, float(sum(used[1] for used in usage.values())))

    def disconnect(self, node: str) -> None:
        """Nobody measures what runs there until it joins again; it may never."""
        for run in self._told.pop(node, ()):
            self._forget(run)

    def _forget(self, run: str) -> None:
        self.runs.pop(run, None)
        self.rates.pop(run, None)
