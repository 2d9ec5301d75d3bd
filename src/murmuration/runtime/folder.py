"""A cluster's folder: its token, where its API listens, its store, its logs, and the folders of its
node agents."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from murmuration.base.errors import InputError

TOKEN, API, STORE, NODES, UP = "token", "api.json", "store.db", "nodes", "up.json"
MASTER_LOCK = "master.lock"


class ApiAddress(msgspec.Struct):
    """Where a master listens: clients by HTTP, node agents and schedulers by frames."""

    url: str
    agents: str
    pid: int


def find_folder(given: Path | None) -> Path:
    """The cluster's folder: as given, else MURMUR_DIR, else ~/.murmur."""
    if given is not None:
        return given.absolute()
    told = os.environ.get("MURMUR_DIR")
    return Path(told).absolute() if told else Path.home() / ".murmur"


def make_folder(folder: Path) -> None:
    """The folder and its token, readable by its owner alone. A folder that was there keeps its
    mode."""
    # Slow to import, and most commands only read a token.
    import secrets

    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not (folder / TOKEN).exists():
            write_private(folder / TOKEN, secrets.token_urlsafe(32))
    except OSError as error:
        raise InputError(f"{folder}: {(error.strerror or str(error)).lower()}") from error


def write_private(path: Path, text: str) -> None:
    """Write a file whole or not at all, mode 600."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    beside.replace(path)


def read_token(folder: Path) -> str:
    try:
        return (folder / TOKEN).read_text().strip()
    except OSError as error:
        raise no_cluster(folder) from error


def read_address(folder: Path) -> ApiAddress:
    try:
        return msgspec.json.decode((folder / API).read_bytes(), type=ApiAddress)
    except (OSError, msgspec.DecodeError) as error:
        raise no_cluster(folder) from error


def no_cluster(folder: Path) -> InputError:
    return InputError(
        f"{folder}: no cluster runs here; start one with murmur up, or name its folder with --dir"
    )
