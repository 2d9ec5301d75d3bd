"""Every step of `murmur plan` on made clusters is one that Kubernetes would take.

Each theme is a cluster built around one rule. What fails today is marked, strictly: whoever mends
the planner takes the mark away.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.kubernetes import (
    cases_changes,
    cases_enemies,
    cases_everything,
    cases_manifests,
    cases_random,
    cases_rooms,
    cases_strangers,
    cases_volumes,
)
from tests.kubernetes.cases import BUILDERS
from tests.kubernetes.checker_cluster import Object, cluster_of
from tests.kubernetes.checker_replay import Replay, claims
from tests.kubernetes.made import Case, Question

from murmuration.cli.plan import plan

MODULES = (
    cases_changes,
    cases_enemies,
    cases_everything,
    cases_manifests,
    cases_random,
    cases_rooms,
    cases_strangers,
    cases_volumes,
)
USUAL = (1, 2)
#: Seeds of themes that leave much to chance.
SEEDS = {"mixed": (1, 3, 5), "anything": (2, 6, 10), "everything": (2, 13, 16, 22)}
SEEDS |= {"everything-and-manifests": (3, 23, 93, 146)}
SEEDS |= dict.fromkeys((*cases_enemies.ENEMIES, *cases_strangers.STRANGERS), (1,))
EVALUATIONS = ("--evaluations", "1000")

#: Themes that fail, and why.
FAILING: dict[str, str] = {}


def marks(name: str) -> list[pytest.MarkDecorator]:
    """Only what the judge says counts as the failure that is expected."""
    if name not in FAILING:
        return []
    return [pytest.mark.xfail(strict=True, raises=AssertionError, reason=FAILING[name])]


THEMES = [pytest.param(name, marks=marks(name)) for name in BUILDERS]


def written(path: Path, things: list[Object]) -> Path:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": things}))
    return path


def planned(case: Case, question: Question, folder: Path) -> tuple[Object | None, str]:
    """The plan, or why there is none."""
    words = [str(written(folder / "cluster.json", case.items)), "--json", *question, *EVALUATIONS]
    if case.place:
        words += ["--place", str(written(folder / "place.json", case.place))]
    result = CliRunner().invoke(plan, words)
    if result.exit_code:
        return None, f"refused: {result.exception}"
    found: dict[str, Any] = json.loads(result.stdout)
    return found, ""


def judged(case: Case, question: Question, folder: Path) -> tuple[int, list[str]]:
    """How many steps a plan has, and all that is wrong with it."""
    found, refused = planned(case, question, folder)
    if found is None:
        return 0, [refused]
    removed = [
        word for word, before in zip(question[1:], question, strict=False) if before == "--remove"
    ]
    replay = Replay(cluster_of(case.items), case.place, case.added, removed)
    wrong = [*replay.run(found["moves"]), *claims(replay, found)]
    wrong += case.expect(replay.cluster, found) if case.expect else []
    return len(found["moves"]), [f"{' '.join(question)}: {sentence}" for sentence in wrong]


@pytest.mark.parametrize("name", THEMES)
def test_every_step_is_legal(name: str, tmp_path: Path) -> None:
    steps, wrong = 0, []
    seeds = SEEDS.get(name, USUAL)
    for seed in seeds:
        case = BUILDERS[name](seed)
        for question in case.questions:
            count, sentences = judged(case, question, tmp_path)
            steps += count
            wrong += [f"seed {seed} {sentence}" for sentence in sentences]
        least = case.steps * len(seeds)
    assert not wrong, "\n".join(wrong)
    assert steps >= least, f"{steps} steps tried nothing, expected {least}"


def test_there_are_many_themes() -> None:
    """The modules of cases are imported for the themes they add."""
    assert all(module.__doc__ for module in MODULES)
    assert len(BUILDERS) >= 90 and len(cases_enemies.ENEMIES) >= 30
    assert len(cases_strangers.STRANGERS) >= 15
    assert set(FAILING) <= set(BUILDERS)
