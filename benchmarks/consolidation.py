"""How many nodes can be emptied, and for how many restarts: `murmur plan` beside an optimum and a
greedy drain.

    python benchmarks/consolidation.py [--clusters "30 rules" ...] [--seeds 2] [--seconds 60]

Each cell is nodes in use / pods moved / CPU seconds. CP-SAT looks for the fewest nodes and then for
the fewest moves with that many; where it could not prove one of them in the time given, what it
proved stands after a "≥". The drain empties the emptiest node as long as its pods fit on others,
which is what Karpenter and the cluster autoscaler try. The CPU seconds of `murmur plan` leave out
compilation. Every step of a plan is held against an independent checker of Kubernetes' rules: "n!"
are steps that it refuses.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from click.testing import CliRunner
from consolidation_clusters import Model, Optimum, drained, made, objects, optimum

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.kubernetes.checker_cluster import cluster_of
from tests.kubernetes.checker_replay import Replay, in_use

from murmuration.cli.plan import plan

#: Nodes, whether there are rules, number of sizes, share of all CPUs that is asked for, and whether
#: some nodes have GPUs that some pods ask for.
CLUSTERS: dict[str, tuple[int, bool, int, float] | tuple[int, bool, int, float, bool]] = {
    "20": (20, False, 1, 0.63),
    "20 rules": (20, True, 1, 0.63),
    "30": (30, False, 1, 0.63),
    "30 rules": (30, True, 1, 0.63),
    "50 rules": (50, True, 1, 0.63),
    "40 of three sizes, rules": (40, True, 3, 0.75),
    "30 with GPUs": (30, False, 3, 0.45, True),
    "40 with GPUs, rules": (40, True, 3, 0.45, True),
}
QUESTIONS = {
    "nodes": ("--objective", "nodes"),
    "nodes=10,moves": ("--objective", "nodes=10", "--objective", "moves"),
    "cost": ("--objective", "cost"),
}
USUAL = ("30 rules", "50 rules", "40 of three sizes, rules")
COLUMNS = ("cluster, seed", "pods", "before", "CP-SAT", "greedy drain", *QUESTIONS)
Result = TypeVar("Result")


def timed(what: Callable[[], Result]) -> tuple[Result, float]:
    before = time.process_time()
    result = what()
    return result, time.process_time() - before


def asked(items: list[dict[str, Any]], words: tuple[str, ...]) -> dict[str, Any]:
    """The plan of a cluster for one question."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        result = CliRunner().invoke(plan, [str(path), "--json", *words], catch_exceptions=False)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def planned(items: list[dict[str, Any]], words: tuple[str, ...]) -> str:
    """Nodes and moves of a plan, counted on the cluster after its steps. Where nodes have several
    prices, fewer of them need not be cheaper."""
    found, spent = timed(lambda: asked(items, words))
    replay = Replay(cluster_of(items))
    wrong = {sentence.partition(":")[0] for sentence in replay.run(found["moves"])}
    moves = sum(step.get("from") is not None for step in found["moves"])
    told = f"{len(in_use(replay.cluster))} / {moves} / {spent:.1f}"
    return f"{told} {len(wrong)}!" if wrong else told


def best(found: Optimum, spent: float) -> str:
    nodes = f"{found.nodes}" + (f" ≥{found.nodes_bound}" if found.nodes_bound < found.nodes else "")
    moves = f"{found.moves}" + (f" ≥{found.moves_bound}" if found.moves_bound < found.moves else "")
    return f"{nodes} / {moves} / {spent:.0f}"


def row(name: str, seed: int, model: Model, seconds: float) -> list[str]:
    items = objects(model)
    (after, moves), spent = timed(lambda: drained(model))
    pods = sum(sum(counts.values()) for counts in model.counts)
    told = [f"{name}, {seed}", str(pods), str(len(model.in_use()))]
    told.append(best(*timed(lambda: optimum(model, seconds))))
    told.append(f"{len(after.in_use())} / {moves} / {spent:.1f}")
    return told + [planned(items, words) for words in QUESTIONS.values()]


def line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clusters", nargs="+", choices=CLUSTERS, default=USUAL)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each search of CP-SAT")
    options = parser.parse_args()
    warm = objects(made(1, 4, True, 1, 0.5))
    for words in QUESTIONS.values():
        asked(warm, words)
    print(line(list(COLUMNS)))
    print(line(["---"] * len(COLUMNS)))
    for name in options.clusters:
        for seed in range(1, options.seeds + 1):
            model = made(seed, *CLUSTERS[name])
            print(line(row(name, seed, model, options.seconds)), flush=True)


if __name__ == "__main__":
    main()
