"""A cluster's folder: where it lies, and the names of what is in it: the token, where its API
listens, its store, and the folders of its node agents."""

from __future__ import annotations

import os
from pathlib import Path

TOKEN, API, STORE, NODES, UP = "token", "api.json", "store.db", "nodes", "up.json"
MASTER_LOCK = "master.lock"


def find_folder(given: Path | None) -> Path:
    """The cluster's folder: as given, else MURMUR_DIR, else ~/.murmur."""
    if given is not None:
        return given.absolute()
    from_environment = os.environ.get("MURMUR_DIR")
    return Path(from_environment).absolute() if from_environment else Path.home() / ".murmur"


def write_private(path: Path, text: str) -> None:
    """Write a file whole or not at all, mode 600."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    beside.replace(path)
