"""Options that several commands share mean the same in each of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.conftest import Murmur

#: Commands that make runs, and the options that each of them has.
STUDIES = ("simulate", "compare", "sweep", "compact", "grow", "autoscale")
SHARED = ("settings", "seed", "days", "replicas", "workers", "on", "out", "resume", "as_json")


@pytest.mark.parametrize("name", STUDIES)
def test_options_of_studies_are_the_same(name: str) -> None:
    """The same flags with the same words in each of them."""
    from murmuration.cli import murmur as top

    context = top.make_context("murmur", ["--help"], resilient_parsing=True)
    commands = [top.get_command(context, each) for each in (name, "compare")]
    mine, others = (
        {each.name: each for each in command.params if each.name in SHARED}
        for command in commands
        if command is not None
    )
    assert set(mine) == set(SHARED)
    for option in ("days", "replicas", "workers", "on", "resume", "as_json"):
        assert mine[option].opts == others[option].opts
        assert vars(mine[option])["help"] == vars(others[option])["help"]


@pytest.mark.parametrize(
    ("command", "count"),
    [
        (("compare", "small.toml", "-s", "machine,offers"), 2),
        (("sweep", "small.toml", "--vary", "cluster.nodes=20,30"), 2),
        (("simulate", "small.toml", "--replicas", "2"), 2),
    ],
)
def test_every_run_of_a_study_is_recorded_and_checked(
    murmur: Murmur, tmp_path: Path, command: tuple[str, ...], count: int
) -> None:
    plain = murmur(*command, "--jobs", "1", "--out", "recorded")
    assert plain.code == 0 and not list(tmp_path.glob("recorded/*/tasks.parquet"))
    # Runs without their tasks are not what is asked for, so they are made again.
    made = murmur(*command, "--jobs", "1", "--out", "recorded", "--detail", "--resume")
    assert made.code == 0, made.err
    folders = sorted(str(path.parent) for path in tmp_path.glob("recorded/*/tasks.parquet"))
    checked = murmur("check", *folders)
    assert checked.code == 0 and checked.err.count("0 differ, 0 rules are broken") == count
    assert "--detail: expected --out DIR" in murmur(*command, "--detail", "--json").err
    assert "--detail: expected without --on" in murmur(*command, "--detail", "--on", "ray").err
