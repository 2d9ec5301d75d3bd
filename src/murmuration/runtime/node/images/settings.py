"""How a task of an image is run: what the image says, and what the job says instead."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from murmuration.base.errors import InputError
from murmuration.runtime.node.images.layout import RunConfig
from murmuration.runtime.node.images.library import HeldImage
from murmuration.runtime.node.isolation.interface import RootImage, RunSpec, RunUser
from murmuration.schedulers.central.messages import Order

IDS = 65_536
FILE_BYTES_MAX = 2**20


def dress(spec: RunSpec, order: Order, image: HeldImage) -> RunSpec:
    """A run as its image and its job together want it."""
    try:
        return msgspec.structs.replace(
            spec,
            command=choose_command(image.run, order.command, not order.is_after_entrypoint),
            env=merge_environment(image.run, spec.env),
            image=RootImage(
                image.key,
                image.root,
                image.shell.layer,
                image.shell.words,
                choose_folder(image.run),
            ),
            user=find_user(image.run, image.root),
        )
    except InputError as error:
        raise InputError(f"image {order.image}: {error}") from error


def choose_command(run: RunConfig, given: Sequence[str], is_whole: bool) -> list[str]:
    """The words to run: those of the job; or, if it has no command of its own, the image's entry
    point with the job's arguments, or with the image's own."""
    if is_whole:
        return list(given)
    words = [*(run.entrypoint or ()), *(given or run.cmd or ())]
    if not words:
        raise InputError("expected a command in the job, because the image has none")
    return words


def merge_environment(run: RunConfig, given: Mapping[str, str]) -> dict[str, str]:
    """The variables of the image, then those of the job."""
    pairs = (text.partition("=") for text in run.env or ())
    return {**{name: value for name, sign, value in pairs if name and sign}, **given}


def choose_folder(run: RunConfig) -> str:
    """Where the command begins; empty if the image does not say."""
    folder = run.working_dir
    if folder and (not folder.startswith("/") or "\0" in folder or ".." in folder.split("/")):
        raise InputError(f"expected a working folder by its whole path, got {folder[:80]!r}")
    return folder


def find_user(run: RunConfig, root: Path) -> RunUser:
    """The user that an image asks for, `NAME`, `UID`, and with `:GROUP`, by its own files."""
    name, _, group = run.user.partition(":")
    if not name:
        return RunUser()
    users = {row[0]: row for row in _read_rows(root, "passwd", 4)}
    groups = {row[0]: row for row in _read_rows(root, "group", 3)}
    row = users.get(name) or next((row for row in users.values() if row[2] == name), None)
    uid = _read_number(row[2] if row else name, "user", name)
    if group:
        gid = _read_number(groups[group][2] if group in groups else group, "group", group)
        return RunUser(uid, gid)
    gid = _read_number(row[3], "group", row[3]) if row else 0
    others = (
        int(each[2])
        for each in groups.values()
        if row and row[0] in "".join(each[3:]).split(",") and each[2].isdecimal()
    )
    return RunUser(uid, gid, tuple(sorted({number for number in others if number < IDS} - {gid})))


def _read_number(text: str, kind: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal() and int(text) < IDS):
        raise InputError(f"the image has no {kind} {name[:80]!r}")
    return int(text)


def _read_rows(root: Path, name: str, fields: int) -> Iterator[list[str]]:
    """The rows of a table of users, if it is a plain file of the image; never through a link."""
    try:
        place = os.open(root / "etc", os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=place)
        finally:
            os.close(place)
        with os.fdopen(descriptor, "rb") as file:
            text = file.read(FILE_BYTES_MAX).decode(errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        row = line.split(":")
        if len(row) >= fields:
            yield row
