"""How to get a part of the package that is not installed with it."""

from __future__ import annotations


def install_hint(extra: str) -> str:
    """The command for both ways to have the package: installed by pip, and run by `./murmur`."""
    return (
        f"in the project: pip install '.[{extra}]' (with ./murmur: .venv/bin/pip install "
        f"'.[{extra}]')"
    )
