"""The whole study of chapters 3, 4 and 6: cells A and C, nine decision times, seven schedulers, 7
days each.

    python benchmarks/study.py [--days 7]

Prints CPU seconds by scheduler and in all, after one warm-up run of each kernel. The JVM reference
needs about 65 CPU-minutes for the same 126 runs (9.5 without offers).
"""

from __future__ import annotations

import argparse
import resource
import time

from murmuration.experiments.papers.omega import figures as omega
from murmuration.experiments.papers.omega import monte_carlo as mc
from murmuration.experiments.runs import execute
from murmuration.experiments.specs import make_spec
from murmuration.simulation.scenarios import scenario as sc

VARIANTS = {
    "monolithic single": (omega.SINGLE, mc.ALL),
    "monolithic multi": (omega.MULTI, mc.SERVICE),
    "offers": (omega.OFFERS, mc.SERVICE),
    **{f"shared state, {label}": (changes, mc.SERVICE) for label, changes in omega.MODES.items()},
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--days", type=float, default=7.0)
    days = parser.parse_args().days
    bases = {
        cell: {k: v for k, v in sc.load(preset).items() if k != "variant"}
        for cell, preset in mc.CELLS.items()
    }
    for changes, _ in VARIANTS.values():
        execute(make_spec("warm-up", sc.override(bases["A"], {**changes, "days": 0.01})))
    cpu_s = dict.fromkeys(VARIANTS, 0.0)
    runs = 0
    for base in bases.values():
        for label, (changes, axis) in VARIANTS.items():
            for job_time in mc.JOB_TIMES:
                started = time.process_time()
                execute(
                    make_spec(label, sc.override(base, {**changes, axis: job_time, "days": days}))
                )
                cpu_s[label] += time.process_time() - started
                runs += 1
    for label, seconds in cpu_s.items():
        print(f"{label:<40}{seconds:>9.1f} CPU s")
    total = sum(cpu_s.values())
    print(
        f"{'all ' + str(runs) + ' runs':<40}{total:>9.1f} CPU s (target: under 120; JVM "
        "reference: about 3,900)"
    )
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    main()
