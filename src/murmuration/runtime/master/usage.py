"""What tasks and nodes use, as node agents measure it and report it with their heartbeats."""

from __future__ import annotations

from collections.abc import Callable

#: CPU seconds so far and bytes of memory of each run.
Usage = dict[str, tuple[float, int]]


class UsageMeter:
    """The latest measurement of every run and node. It is lost in a crash and soon measured
    again."""

    def __init__(self) -> None:
        self.runs: Usage = {}
        #: CPUs in use by each run between its last two measurements.
        self.rates: dict[str, float] = {}
        #: CPUs in use and bytes of memory by node.
        self.nodes: dict[str, dict[str, float]] = {}
        #: Nodes that were measured since somebody asked.
        self._changed: set[str] = set()
        #: When each node was measured last, and the CPU seconds of its runs then.
        self._last: dict[str, tuple[float, float]] = {}

    def update(
        self, node: str, usage: Usage, now: float, is_on_node: Callable[[str], bool]
    ) -> None:
        """A heartbeat brought the usage of all runs of a node; runs it had and that are not among
        them have ended."""
        for run in [run for run in self.runs if run not in usage and is_on_node(run)]:
            del self.runs[run]
            self.rates.pop(run, None)
        cpu_s = sum(used[0] for used in usage.values())
        last_s, last_cpu_s = self._last.get(node, (now, cpu_s))
        for run, (used_s, _) in usage.items():
            if now > last_s:
                before_s = self.runs.get(run, (0.0, 0))[0]
                self.rates[run] = max(0.0, used_s - before_s) / (now - last_s)
        self.runs.update(usage)
        self._last[node] = now, cpu_s
        rate = max(0.0, cpu_s - last_cpu_s) / (now - last_s) if now > last_s else 0.0
        memory = float(sum(used[1] for used in usage.values()))
        self.nodes[node] = {"cpu": rate, "memory": memory}
        self._changed.add(node)

    def take_changed(self) -> set[str]:
        """The nodes that were measured since this was asked last."""
        changed, self._changed = self._changed, set()
        return changed
