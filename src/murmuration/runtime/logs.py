"""Logs of a cluster's parts, bounded: what a part writes goes to a file that its supervisor cuts
when it is too long."""

from __future__ import annotations

import os
from pathlib import Path

from murmuration.runtime.folder import open_private

#: A log and the part before it have this many bytes each at most, and what is written between two
#: looks.
LOG_MAX = 8 * 2**20


def rotate_log(path: Path, most: int = LOG_MAX) -> bool:
    """Keep the end of a log that is too long beside it, and empty it. The part that writes it
    appends, so it goes on at the new end; a line written this very moment may be lost."""
    try:
        if path.lstat().st_size <= most:
            return False
        with open(path, "r+b", opener=open_private) as log:
            log.seek(-most, os.SEEK_END)
            last = log.read(most)
            with open(f"{path}.1", "wb", opener=open_private) as kept:
                kept.write(last)
            log.truncate(0)
    except OSError:  # a full disk: the log is left as it is
        return False
    return True
