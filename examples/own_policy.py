"""Three policies of one's own: a score in NumPy, a compiled score, and a scheduler class. Run it,
or name them:

.venv/bin/python examples/own_policy.py
murmur compare examples/small.toml -s monolithic,pack,spread,zones
"""

from pathlib import Path

import numpy as np

import murmuration

SMALL = str(Path(__file__).with_name("small.toml"))


def pack(total, free, request):
    """Higher is better: the node that is left with the least, counting its scarcest resource."""
    return -((free - request) / total).min(axis=1)


@murmuration.kernel
def spread(total, free, request):
    """The same turned round, compiled: Numba takes plain loops."""
    scores = np.empty(total.shape[0])
    for i in range(total.shape[0]):
        scores[i] = min(
            (free[i, 0] - request[0]) / total[i, 0], (free[i, 1] - request[1]) / total[i, 1]
        )
    return scores


class OneZone:
    """All tasks of a job in one zone: the one with the most room for them; a node for each task, or
    -1."""

    def decide(self, view, job, rng):
        room = np.where(view.allowed, np.min(view.free // np.maximum(job.request, 1), axis=1), 0)
        zones = np.array([node.get("zone", "") for node in view.attributes])
        best = max(set(zones), key=lambda zone: room[zones == zone].sum())
        slots = np.repeat(np.arange(len(room)), np.where(zones == best, room, 0))
        chosen = rng.permutation(slots)[: job.tasks]
        return np.concatenate([chosen, np.full(job.tasks - len(chosen), -1)])


if __name__ == "__main__":
    for name in ("monolithic", "pack", "spread", "zones"):
        run = murmuration.simulate(SMALL, scheduler=name)
        batch, types = run["workloads"]["batch"], run["cluster"]["allocation_types"]
        print(
            f"{name:<12}{run['path']:<10}full {batch['wait_full_s_mean']:.2f} s  idle nodes "
            f"{types['idle']:.1f}"
        )
