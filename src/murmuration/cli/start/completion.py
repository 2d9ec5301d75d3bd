"""`murmur completion`: the lines that make a shell complete commands, options and values."""

from __future__ import annotations

import click

SHELLS = {"bash": "~/.bashrc", "zsh": "~/.zshrc", "fish": "~/.config/fish/config.fish"}


@click.command()
@click.argument("shell", type=click.Choice(tuple(SHELLS)))
def completion(shell: str) -> None:
    """Print what makes a shell complete commands and values.

    Presets, schedulers, keys of scenarios, experiments, and the jobs and nodes of a live cluster
    are completed, too.

    \b
    Examples:
      murmur completion bash >> ~/.bashrc
      murmur completion zsh >> ~/.zshrc
      murmur completion fish >> ~/.config/fish/config.fish
    """
    from click.shell_completion import get_completion_class

    from murmuration.cli import murmur

    maker = get_completion_class(shell)
    assert maker is not None, "Click knows these shells"
    click.echo(maker(murmur, {}, "murmur", "_MURMUR_COMPLETE").source())
