"""Break the simulator on purpose, one way at a time, and see whether a test notices.

As `mutants.py`, for the kernels and what is made of their results. The tests run with
`tests/interpreted.py`: compiling each mutant would take minutes. `python
scripts/mutants_simulator.py` runs all, with names some; the exit code is 1 if one survives.
"""

from __future__ import annotations

import sys

from mutants import Mutant, is_noticed

SOURCE = "src/murmuration"
ENGINE = f"{SOURCE}/simulation/engine"
OFFERS = f"{SOURCE}/simulation/architectures/offers"
RESULTS = f"{SOURCE}/simulation/results"
NEGOTIATION = f"{SOURCE}/schedulers/negotiation"
PLAIN = "-W ignore -p tests.interpreted"


def reference(kind: str, *seeds: int) -> str:
    """Some seeds of the comparison with a second simulator."""
    names = (f"tests/simulation/test_reference.py::test_{kind}[{seed}]" for seed in seeds)
    return " ".join((PLAIN, *names))


def audit(*names: str) -> str:
    """Some runs whose figures are added up again."""
    nodes = (f"tests/experiments/test_audit.py::{name}" for name in names)
    return " ".join((PLAIN, *nodes))


MONOLITHIC = reference("monolithic", 0, 1, 2, 3, 4, 5, 6, 7)
SHARED = reference("shared_state", *range(12))
OFFERED = reference("offers", *range(12))
BATCHED = reference("batched_offers", *range(12))
CHURN = audit("test_cells[monolithic-churn]")
MEASURED = audit("test_cells[shared-state-usage]")
AGENTS = audit("test_cells[negotiation]")
SWARM = audit("test_cells[swarm-churn]")
RANDOM = audit("test_small_random_scenarios[shared-state]")
REVOKED = audit("test_small_random_scenarios[guaranteed]")
BORDERS = "tests/schedulers/negotiation/test_borders.py"
LAWS = f"{PLAIN} tests/simulation/test_negotiation_laws.py"
MOVES = f"{PLAIN} tests/simulation/test_moves.py"
TYPES = "tests/cluster/test_allocation_types.py"
SCORES = "tests/placement/test_scores.py"
ALLOCATORS = "tests/schedulers/offers/test_allocators.py"

#: By file, text and what becomes of it.
MUTANTS = (
    # ---- Queues, attempts and commits.
    Mutant(
        "waiting ends with the last attempt",
        f"{ENGINE}/steps.py",
        "if np.isnan(jobs[job].first):",
        "if True:",
        MONOLITHIC,
    ),
    Mutant(
        "decision time by all tasks",
        f"{ENGINE}/steps.py",
        "times[scheduler, workload, 1] * jobs[job].left)",
        "times[scheduler, workload, 1] * jobs[job].tasks)",
        MONOLITHIC,
    ),
    Mutant(
        "gangs half placed",
        f"{ENGINE}/steps.py",
        "if w.jobs[job].gang and w.schedulers[scheduler].claimed < w.jobs[job].left:",
        "if False:",
        MONOLITHIC,
    ),
    Mutant(
        "an optimistic claim stays taken",
        f"{ENGINE}/steps.py",
        "    if w.schedulers[scheduler].optimistic:\n        drop_claim(",
        "    if False:\n        drop_claim(",
        SHARED,
    ),
    Mutant(
        "sequence numbers are not remembered",
        f"{ENGINE}/steps.py",
        "w.seen[scheduler, k] = w.sequence[claim[k]]",
        "w.seen[scheduler, k] = 0",
        SHARED,
    ),
    Mutant(
        "an empty attempt makes a transaction",
        f"{ENGINE}/steps.py",
        "if claimed == 0:\n        w.workloads[workload].empty_attempts += 1",
        "if claimed < 0:\n        w.workloads[workload].empty_attempts += 1",
        MONOLITHIC,
    ),
    Mutant(
        "conflicts are not counted",
        f"{ENGINE}/steps.py",
        "jobs[job].conflicts += 1",
        "jobs[job].conflicts += 0",
        SHARED,
    ),
    Mutant(
        "tasks run for half their time",
        f"{ENGINE}/steps.py",
        "w.state[0].now + lasts, TASKS_END, run)",
        "w.state[0].now + 0.5 * lasts, TASKS_END, run)",
        MONOLITHIC,
    ),
    Mutant(
        "tried once more than allowed",
        f"{ENGINE}/steps.py",
        "0 < state[0].attempts_max <= jobs[job].attempts",
        "0 < state[0].attempts_max < jobs[job].attempts",
        MONOLITHIC,
    ),
    Mutant(
        "an idle retry takes two seconds",
        f"{ENGINE}/steps.py",
        "IDLE_RETRY_S = 1.0",
        "IDLE_RETRY_S = 2.0",
        MONOLITHIC,
    ),
    Mutant(
        "guaranteed requests are not summed up",
        f"{ENGINE}/steps.py",
        "sums[1, r] += amount",
        "sums[1, r] += 0",
        CHURN,
    ),
    Mutant(
        "machine granularity looks at nothing",
        f"{SOURCE}/cluster/transactions.py",
        "if sequence[nodes[k]] != seen[k]:",
        "if False:",
        SHARED,
    ),
    Mutant(
        "a rolled-back transaction changes sequence numbers",
        f"{SOURCE}/cluster/transactions.py",
        "sequence[node] -= 1",
        "sequence[node] -= 0",
        SHARED,
    ),
    Mutant(
        "headroom is not kept",
        f"{SOURCE}/cluster/transactions.py",
        "if headroom >= 0.0:",
        "if False:",
        SHARED,
    ),
    Mutant(
        "all-or-nothing is not",
        f"{SOURCE}/cluster/transactions.py",
        "if atomic and accepted < count:",
        "if False:",
        SHARED,
    ),
    # ---- Nodes that come and go, measured usage, moves.
    Mutant(
        "lost tasks are not placed again",
        f"{ENGINE}/churn.py",
        "w.jobs[job].left += lost",
        "w.jobs[job].left += 0",
        CHURN,
    ),
    Mutant(
        "tasks outlive their node",
        f"{ENGINE}/churn.py",
        "        lose_tasks(w, node)\n",
        "        pass\n",
        CHURN,
    ),
    Mutant(
        "a curve is read one point late",
        f"{ENGINE}/usage.py",
        "point = int((state[0].now - began) / state[0].curve_s)",
        "point = int((state[0].now - began) / state[0].curve_s) + 1",
        MEASURED,
    ),
    Mutant(
        "usage is rounded up to the request",
        f"{ENGINE}/usage.py",
        "now = max(int(request[r] * share[r]), 1) if request[r] > 0 else 0",
        "now = request[r]",
        MEASURED,
    ),
    Mutant(
        "an unmeasured task moves for what it uses",
        f"{ENGINE}/moves.py",
        "migration_mb(c.request[job, MEMORY] if unknown else amounts[MEMORY])",
        "migration_mb(amounts[MEMORY])",
        MOVES,
    ),
    Mutant(
        "a migration frees its source at once",
        f"{ENGINE}/moves.py",
        "    enter(c, job, slot, to)\n    depart(",
        "    enter(c, job, slot, to)\n    leave(c, job, slot, source)\n    depart(",
        SWARM,
    ),
    Mutant(
        "a container weighs nothing",
        f"{SOURCE}/cluster/migration.py",
        "BASE_MB = 100.0",
        "BASE_MB = 0.0",
        MOVES,
    ),
    # ---- Results.
    Mutant(
        "the empty sample of time 0 counts",
        f"{RESULTS}/summary.py",
        "first = 1 if run.setup.has_usage",
        "first = 0 if run.setup.has_usage",
        AGENTS,
    ),
    Mutant(
        "jobs that never start do not wait",
        f"{RESULTS}/summary.py",
        'np.where(np.isnan(jobs["started"]), horizon_s, jobs["started"])',
        'np.where(np.isnan(jobs["started"]), jobs["submit"], jobs["started"])',
        CHURN,
    ),
    Mutant(
        "percentiles of another number",
        f"{RESULTS}/summary.py",
        "np.quantile(values, [p / 100 for p in percents])",
        "np.quantile(values, [p / 101 for p in percents])",
        CHURN,
    ),
    Mutant(
        "conflicts as a share of all",
        f"{RESULTS}/summary.py",
        "failed / ok if ok else None",
        "failed / (ok + failed) if ok else None",
        RANDOM,
    ),
    Mutant(
        "nodes are counted once and for all",
        f"{ENGINE}/sampling.py",
        "state[0].nodes_s += state[0].nodes * elapsed",
        "state[0].nodes_s += state[0].last * 0.0 + elapsed",
        CHURN,
    ),
    Mutant(
        "a node at 90 % is super-tight",
        f"{SOURCE}/cluster/allocation_types.py",
        "if used > FULL * total[r]:",
        "if used >= FULL * total[r]:",
        TYPES,
    ),
    Mutant(
        "promises overload nobody (types)",
        f"{SOURCE}/cluster/allocation_types.py",
        "if used > total[r] or guaranteed[r] > total[r]:",
        "if used > total[r]:",
        TYPES,
    ),
    # ---- Placements and allocators.
    Mutant(
        "best fit by CPU alone",
        f"{SOURCE}/placement/scores.py",
        "        for r in range(total.shape[1]):\n            if total[i, r] > 0:\n"
        "                scores[i] -=",
        "        for r in range(1):\n            if total[i, r] > 0:\n                scores[i] -=",
        SCORES,
    ),
    Mutant(
        "least allocated is not rounded",
        f"{SOURCE}/placement/scores.py",
        "points += (max(free[i, r] - request[r], 0) * 100) // total[i, r]",
        "points += (max(free[i, r] - request[r], 0) * 100) / total[i, r]",
        SCORES,
    ),
    Mutant(
        "fairness without offers",
        f"{SOURCE}/schedulers/offers/allocators.py",
        "(allocated[f, r] + offered[f, r]) / total[r]",
        "allocated[f, r] / total[r]",
        ALLOCATORS,
    ),
    Mutant(
        "a ticket each",
        f"{SOURCE}/schedulers/offers/allocators.py",
        "            left -= weight[f]",
        "            left -= 1.0",
        ALLOCATORS,
    ),
    # ---- Offers.
    Mutant(
        "a framework tries one job and no other",
        f"{OFFERS}/loop.py",
        "REFUSALS_MAX = 16",
        "REFUSALS_MAX = 1",
        OFFERED,
    ),
    Mutant(
        "an offer that timed out wastes nothing",
        f"{OFFERS}/loop.py",
        "w.busy[w.jobs[job].workload, scheduler, 1] += spent",
        "w.busy[w.jobs[job].workload, scheduler, 1] += 0.0",
        REVOKED,
    ),
    Mutant(
        "revoked tasks are not placed again",
        f"{OFFERS}/revocation.py",
        "w.jobs[job].left += 1",
        "w.jobs[job].left += 0",
        REVOKED,
    ),
    Mutant(
        "every event starts a timer",
        f"{OFFERS}/batched.py",
        "if not w.state[0].offering:",
        "if True:",
        BATCHED,
    ),
    Mutant(
        "jobs that find nothing take no time",
        f"{OFFERS}/batched.py",
        "w.batches[scheduler].thinks += spent",
        "w.batches[scheduler].thinks += spent if claimed > 0 else 0.0",
        BATCHED,
    ),
    Mutant(
        "offers count in the shares of batches",
        f"{OFFERS}/batched.py",
        "        w.offered[:] = 0\n",
        "        pass\n",
        BATCHED,
    ),
    Mutant(
        "little is offered, too",
        f"{OFFERS}/batched.py",
        "available_cpu(w) >= max(w.state[0].batch_min_cpu, 1)",
        "available_cpu(w) >= 1",
        BATCHED,
    ),
    # ---- Agents.
    Mutant(
        "evenness by the lowest load",
        f"{SOURCE}/placement/allocation_scores.py",
        "0.5 * (1.0 - high / TIGHT) + 0.5 * (1.0 - (high - low) / TIGHT)",
        "0.5 * (1.0 - high / TIGHT) + 0.5 * (1.0 - low / TIGHT)",
        BORDERS,
    ),
    Mutant(
        "a node accepts a task larger than itself",
        f"{NEGOTIATION}/rules.py",
        "if use[r] > free[r] or request[r] > total[r]:",
        "if use[r] > free[r]:",
        BORDERS,
    ),
    Mutant(
        "a node accepts more than it may promise",
        f"{NEGOTIATION}/rules.py",
        "if production and request[r] > unguaranteed[r]:",
        "if False:",
        BORDERS,
    ),
    Mutant(
        "an unmeasured task counts as half its request",
        f"{NEGOTIATION}/rules.py",
        "UNMEASURED = 0.1",
        "UNMEASURED = 0.5",
        AGENTS,
    ),
    Mutant(
        "promises overload nobody (agents)",
        f"{NEGOTIATION}/rules.py",
        "if used[r] > total[r] or guaranteed[r] > total[r]:",
        "if used[r] > total[r]:",
        BORDERS,
    ),
    Mutant(
        "relief ignores promises",
        f"{NEGOTIATION}/selection.py",
        "relief += share * min(max(work.guaranteed[r] - total[r], 0), tasks.request[i, r])",
        "relief += 0.0",
        BORDERS,
    ),
    Mutant(
        "a broker scores every node",
        f"{NEGOTIATION}/bulk.py",
        "            if size >= limit:\n                break\n",
        "",
        LAWS,
    ),
    Mutant(
        "forced although enough suit",
        f"{NEGOTIATION}/bulk.py",
        "if size < c.settings[0].candidates and forced > 0:",
        "if forced > 0:",
        LAWS,
    ),
)


def main(names: list[str]) -> int:
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    survivors = []
    for mutant in chosen:
        noticed = is_noticed(mutant)
        survivors += [] if noticed else [mutant.name]
        print(f"{'noticed ' if noticed else 'SURVIVES'}  {mutant.name}", flush=True)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} were noticed")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
