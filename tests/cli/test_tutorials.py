"""Every tutorial works from its first command to its last, in a fresh checkout with a home of its
own; and every command that any page of the docs shows is one that exists, with options that
exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest
from tests.cli.checkouts import LIMIT_S, ROOT, Checkout, blocks, in_text, live

from murmuration.base.errors import InputError
from murmuration.cli import murmur

TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PAGES = sorted((ROOT / "docs").rglob("*.md"))
#: What stands for something else in a command that is not to be typed as it is.
PLACEHOLDER = re.compile(r"\[.*|\||…|\.\.\.|\\$|[A-Z]{3,}")


@pytest.mark.timeout(10 * LIMIT_S)
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_works_from_its_first_command_to_its_last(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    checkout = Checkout(tmp_path, text)
    commands = [command for block in blocks(text) for command in block]
    assert commands
    try:
        for command in commands:
            checkout.run(command)
    finally:
        # A live one ends its cluster itself, unless it failed before.
        if live(commands) and (Path(checkout.environment["HOME"]) / ".murmur").exists():
            checkout.run("murmur down")


def commands_of(page: Path) -> list[str]:
    """The commands that a page shows, up to the first word that stands for something else."""
    text = page.read_text()
    shown = [command for block in blocks(text) for command in block] + in_text(text)
    # Two spaces and more separate a command from what a page says of it.
    plain = [re.split(r"  +(?=[^-])|\n", command)[0] for command in shown]
    return [command for command in plain if re.match(r"murmur [a-z-]", command)]


def parse(command: str) -> None:
    """Find the command and its options as `murmur` itself would, and run nothing."""
    words = shlex.split(PLACEHOLDER.split(command)[0], comments=True)[1:]
    current: click.Command = murmur
    context = click.Context(current, info_name="murmur", **murmur.context_settings)
    while isinstance(current, click.Group) and words and not words[0].startswith("-"):
        name, found, words = current.resolve_command(context, words)
        assert found is not None and name is not None
        context, current = click.Context(found, context, info_name=name), found
    known = {option for each in current.get_params(context) for option in each.opts}
    known |= {option for each in current.get_params(context) for option in each.secondary_opts}
    # What follows a bare `--` is somebody else's command.
    ours = words[: words.index("--")] if "--" in words else words
    written = {re.split("=", word)[0] for word in ours if re.match(r"--?[a-z]", word)}
    assert written <= known, f"{command}: no option {', '.join(sorted(written - known))}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_exist(page: Path) -> None:
    for command in commands_of(page):
        parse(command)


def test_a_command_or_an_option_that_is_gone_is_noticed() -> None:
    with pytest.raises(InputError, match="command"):
        parse("murmur similate omega-a")
    with pytest.raises(AssertionError, match="--dayz"):
        parse("murmur simulate omega-a --dayz 3")
    with pytest.raises(InputError, match="plaan"):
        parse("murmur kube plaan")
