"""Break the live cluster on purpose, one way at a time, and see whether a test notices.

Each mutant is a small change of the source in a copy of the repository; the tests named with it
must fail there. `python scripts/mutants.py` runs all, `python scripts/mutants.py NAME …` some; the
exit code is 1 if one survives.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_S = 900
FAULTS = "tests/simulation/test_central_faults.py"
CENTRAL = "tests/schedulers/central"
STORE = "tests/runtime/test_store_damage.py tests/runtime/test_store.py"
DRIVE = "tests/runtime/test_drive.py tests/runtime/test_notes.py"
SCHEDULERS = "src/murmuration/schedulers/central"
RUNTIME = "src/murmuration/runtime"


class Mutant(NamedTuple):
    """One way to be wrong: in this file, this text becomes that one."""

    name: str
    file: str
    before: str
    after: str
    tests: str


MUTANTS = (
    Mutant(
        "sent before written",
        f"{RUNTIME}/drive.py",
        "self._batch.effects.append(effect)",
        "self._release([effect])",
        DRIVE,
    ),
    Mutant(
        "answered before written",
        f"{RUNTIME}/drive.py",
        "self._batch.waiting += [done] if done is not None else []",
        "done is None or done.set_result(0)",
        DRIVE,
    ),
    Mutant(
        "synchronous off",
        f"{RUNTIME}/store/sqlite.py",
        "PRAGMA synchronous = FULL",
        "PRAGMA synchronous = OFF",
        STORE,
    ),
    Mutant(
        "row sums not looked at",
        f"{RUNTIME}/store/sqlite.py",
        "if sums[-1] != written:",
        "if False:",
        STORE,
    ),
    Mutant(
        "TaskStopping not stored",
        f"{SCHEDULERS}/memory.py",
        'yield Patch("tasks", (job, index), {"stopped_for": reason})',
        "return",
        CENTRAL,
    ),
    Mutant(
        "TaskPlaced not stored",
        f"{SCHEDULERS}/memory.py",
        'yield Put("tasks", (job, index), {**row, **times})',
        "return",
        FAULTS,
    ),
    Mutant(
        "orders after the lease are obeyed",
        f"{SCHEDULERS}/node_agent.py",
        "if self.leaving or now >= self._leased_until_s:",
        "if self.leaving:",
        f"{FAULTS} {CENTRAL}",
    ),
    Mutant(
        "why a run stops is not noted",
        f"{SCHEDULERS}/node_agent.py",
        "self._out.append(Note(RunStopping(run, asked, reason)))",
        "pass",
        f"{FAULTS} {CENTRAL}",
    ),
    Mutant(
        "ends are not told again",
        f"{SCHEDULERS}/node_agent.py",
        "if record.ended is not None)",
        "if False)",
        f"{FAULTS} {CENTRAL}",
    ),
    Mutant(
        "lost counts as failure",
        f"{SCHEDULERS}/jobs.py",
        "if status in (Status.LOST, Status.REVOKED):",
        "if status is Status.REVOKED:",
        f"{FAULTS} {CENTRAL}",
    ),
    Mutant(
        "losses do not back off",
        f"{SCHEDULERS}/jobs.py",
        "return 0.0 if losses <= 1 else backoff_s(spec, losses - 1)",
        "return 0.0",
        CENTRAL,
    ),
    Mutant(
        "ports are kept",
        f"{SCHEDULERS}/jobs.py",
        "self.ports[task.node] -= Counter(port for port in job.spec.ports if port)",
        "pass",
        f"{FAULTS} {CENTRAL}",
    ),
    Mutant(
        "no margin",
        f"{SCHEDULERS}/leases.py",
        "return self.agent_timeout_s + self.margin_s",
        "return self.agent_timeout_s",
        f"{FAULTS} {CENTRAL}",
    ),
    Mutant(
        "leases never end",
        f"{SCHEDULERS}/leases.py",
        "if now < self.due:",
        "if True:",
        f"{FAULTS} {CENTRAL}",
    ),
    Mutant(
        "unwell nodes get tasks",
        f"{SCHEDULERS}/master.py",
        "and name not in self.resting",
        "",
        CENTRAL,
    ),
)


def is_noticed(mutant: Mutant) -> bool:
    """Whether a test fails in a copy of the repository that has the mutant."""
    with tempfile.TemporaryDirectory() as place:
        copy = Path(place) / "copy"
        for name in ("src", "tests", "pyproject.toml", "examples", "docs"):
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / name)
        file = copy / mutant.file
        text = file.read_text()
        if text.count(mutant.before) != 1:
            raise SystemExit(f"{mutant.name}: {mutant.file} has changed; write the mutant anew")
        file.write_text(text.replace(mutant.before, mutant.after))
        return not _tests_pass(copy, mutant.tests.split())


def _tests_pass(copy: Path, tests: list[str]) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy / "src")}
    try:
        result = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return result.returncode == 0


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
