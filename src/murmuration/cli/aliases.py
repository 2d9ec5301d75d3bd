"""Old flags of `murmur simulate` that are commands of their own now. They work for one more
release, and say so on standard error."""

from __future__ import annotations

import sys
from collections.abc import Sequence

#: Flags of `simulate` that had no effect beside the old ones, and whether a value follows.
IGNORED = {
    "--out": True,
    "--replicas": True,
    "--jobs": True,
    "--stop-after": True,
    "--resume": False,
    "--check": False,
}


def rewrite(arguments: Sequence[str]) -> list[str]:
    """The arguments of `murmur simulate` as those of the command that does it now."""
    given = {argument.partition("=")[0] for argument in arguments}
    if "--replay" in given:
        log, _ = _take(arguments, "--replay")
        flags = [flag for flag in ("--json", "-h", "--help") if flag in given]
        return _rename_command("--replay LOG", "replay LOG", ["replay", *log, *flags])
    if "--live" in given:
        rest = _drop_options(arguments, {**IGNORED, "--live": False, "--faults": True})
        return _rename_command("--live", "rehearse SCENARIO", ["rehearse", *rest])
    if "--faults" in given:
        count, rest = _take(_drop_options(arguments, {**IGNORED, "--speed": True}), "--faults")
        new = ["faults", *rest, *(f"--count={number}" for number in count)]
        return _rename_command("--faults N", "faults SCENARIO --count N", new)
    return ["simulate", *arguments]


def _rename_command(old: str, new: str, arguments: list[str]) -> list[str]:
    print(f"murmur: simulate {old} is now murmur {new}", file=sys.stderr)
    return arguments


def _take(arguments: Sequence[str], option: str) -> tuple[list[str], list[str]]:
    """The value of an option (none if it is missing), and the other arguments."""
    others = _drop_options(arguments, {option: True})
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name == option:
            return [value] if equals else list(arguments[index + 1 : index + 2]), others
    return [], others


def _drop_options(arguments: Sequence[str], options: dict[str, bool]) -> list[str]:
    """The arguments without some options, each of which may take a value."""
    remaining, skip = [], False
    for argument in arguments:
        name, equals, _ = argument.partition("=")
        if skip:
            skip = False
        elif name in options:
            skip = options[name] and not equals
        else:
            remaining.append(argument)
    return remaining
