"""`murmur init`: a commented file to start from."""

from __future__ import annotations

from pathlib import Path

import click

from murmuration.base.errors import InputError
from murmuration.cli import common

TEMPLATES = Path(__file__).parent / "templates"
#: What is made, the file it is made from, and the name it gets unless another is given.
KINDS = {
    "scenario": ("scenario.toml", "scenario.toml", "murmur compare {}"),
    "job": ("job.toml", "job.toml", "murmur run {}"),
    "policy": ("policy.txt", "policy.py", "murmur compare omega-a --days 0.1 -s {}:pack"),
}


@click.command()
@click.argument("kind", type=click.Choice(tuple(KINDS)))
@click.argument("path", required=False, type=click.Path(path_type=Path))
def init(kind: str, path: Path | None) -> None:
    """Write a commented scenario, job or policy to start from.

    PATH is the file to write (default: scenario.toml, job.toml or policy.py here). A file that is
    there already is left alone.

    \b
    Examples:
      murmur init scenario mine.toml
      murmur init policy
    """
    from murmuration.base.files import write_bytes

    template, name, command = KINDS[kind]
    target = path or Path(name)
    if target.exists():
        raise InputError(f"{target}: is there already; expected the name of a new file")
    write_bytes(target, (TEMPLATES / template).read_bytes())
    named = target.stem if kind == "policy" else target
    common.say(f"{target} written; try: {command.format(named)}")
