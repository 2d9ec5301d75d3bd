"""Break the code on purpose, one way at a time, and see whether a test notices.

`python scripts/mutants.py live` runs the mutants of `scripts/mutants/live.toml`, `… live NAME …`
some of them; the exit code is 1 if one survives that is not said to be equivalent. A set is a file
of its own:

    [environment]              # for the tests
    SCHEDULES = "150"

    [suites]                   # named lists of arguments of pytest, each tried in turn
    faults = ["tests/simulation/test_central_faults.py"]

    [[files]]
    path = "src/murmuration/…"
    suites = ["faults", "units"]
    [[files.mutants]]
    name = "leases never end"
    before = "if now < self.due:"     # text that is there once
    after = "if True:"
    equivalent = ""                   # why no test can notice, if none can

All run in one copy of the repository, so that what was compiled for one is there for the next.
`--suite NAME`, once or more, tries these suites only; `--table` prints the outcome for the docs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

ROOT = Path(__file__).resolve().parent.parent
SETS = ROOT / "scripts" / "mutants"
COPIED = ("src", "tests", "pyproject.toml", "examples", "docs", "scripts", "benchmarks")
TIMEOUT_S = 900


class Mutant(msgspec.Struct, forbid_unknown_fields=True):
    """One way to be wrong: this text becomes that one."""

    name: str
    before: str
    after: str
    equivalent: str = ""


class MutatedFile(msgspec.Struct, forbid_unknown_fields=True):
    path: str
    suites: list[str]
    mutants: list[Mutant]


class MutantSet(msgspec.Struct, forbid_unknown_fields=True):
    suites: dict[str, list[str]]
    files: list[MutatedFile]
    environment: dict[str, str] = {}


class Outcome(msgspec.Struct):
    """Which suite noticed a mutant, if one did, and after how long."""

    mutant: Mutant
    suite: str
    seconds: float

    @property
    def is_fine(self) -> bool:
        return bool(self.suite or self.mutant.equivalent)


class Bench:
    """A copy of the repository in which one mutant after the other is tried."""

    def __init__(self, place: Path, chosen: MutantSet) -> None:
        self._copy, self._chosen = place / "copy", chosen
        self._sound = set[str]()
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                # Compiled kernels come along: they know the text they were compiled from.
                shutil.copytree(source, self._copy / name, symlinks=True)
            else:
                shutil.copy(source, self._copy / name)
        if (ROOT.parent / "shared").exists():
            (place / "shared").symlink_to(ROOT.parent / "shared")

    def try_out(self, file: MutatedFile, mutant: Mutant, suites: list[str]) -> Outcome:
        path = self._copy / file.path
        text = path.read_text()
        if text.count(mutant.before) != 1:
            raise SystemExit(
                f"{mutant.name}: expected its text once in {file.path}, "
                f"got it {text.count(mutant.before)} times; write the mutant anew"
            )
        self._must_pass(suites)
        began = time.monotonic()
        path.write_text(text.replace(mutant.before, mutant.after))
        try:
            noticed = next((suite for suite in suites if not self._passes(suite)), "")
        finally:
            path.write_text(text)
        return Outcome(mutant, noticed, time.monotonic() - began)

    def _must_pass(self, suites: list[str]) -> None:
        """A suite that fails as it is would notice every mutant."""
        for suite in suites:
            if suite not in self._sound and not self._passes(suite):
                raise SystemExit(f"{suite}: expected to pass without a mutant")
            self._sound.add(suite)

    def _passes(self, suite: str) -> bool:
        words = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *self._chosen.suites[suite]]
        environment = {
            **os.environ,
            **self._chosen.environment,
            "PYTHONPATH": str(self._copy / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        try:
            result = subprocess.run(
                [sys.executable, *words],
                cwd=self._copy,
                env=environment,
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        if result.returncode not in (0, 1):
            raise SystemExit(f"pytest {' '.join(words[2:])}: {result.stdout.decode()[-2000:]}")
        return result.returncode == 0


def read_set(name: str) -> MutantSet:
    path = SETS / f"{name}.toml"
    if not path.exists():
        known = ", ".join(sorted(file.stem for file in SETS.glob("*.toml")))
        raise SystemExit(f"{name!r}: expected a set of mutants, one of {known}")
    return msgspec.toml.decode(path.read_bytes(), type=MutantSet)


def print_table(outcomes: list[Outcome]) -> None:
    print("| mutant | noticed by | s |\n|---|---|---|")
    for outcome in outcomes:
        by = outcome.suite or f"equivalent: {outcome.mutant.equivalent}"
        print(f"| {outcome.mutant.name} | {by} | {outcome.seconds:.0f} |")


def run(name: str, names: list[str], suites_only: list[str], table: bool) -> int:
    chosen, outcomes = read_set(name), list[Outcome]()
    with tempfile.TemporaryDirectory() as place:
        bench = Bench(Path(place), chosen)
        for file in chosen.files:
            suites = [each for each in file.suites if not suites_only or each in suites_only]
            for mutant in file.mutants:
                # A letter and a number in front of a name is enough.
                if not names or mutant.name in names or mutant.name.split()[0] in names:
                    outcome = bench.try_out(file, mutant, suites)
                    outcomes.append(outcome)
                    word = outcome.suite or ("equivalent" if outcome.is_fine else "SURVIVES")
                    print(f"{word:<10} {outcome.seconds:>4.0f} s  {mutant.name}", flush=True)
    for each in chosen.suites:
        print(f"{sum(outcome.suite == each for outcome in outcomes)} noticed by {each}")
    survivors = sum(not outcome.is_fine for outcome in outcomes)
    print(f"{survivors} of {len(outcomes)} survive")
    if table:
        print_table(outcomes)
    return 1 if survivors else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--suite", action="append", default=[])
    parser.add_argument("--table", action="store_true")
    arguments = parser.parse_intermixed_args()
    sys.exit(run(arguments.set, arguments.names, arguments.suite, arguments.table))
