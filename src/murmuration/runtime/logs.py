"""Logs of a cluster's parts: lines for people or for programs, and bounded. What a part writes goes
to a file that its supervisor cuts when it is too long."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import msgspec

from murmuration.runtime.folder import open_private
from murmuration.runtime.options import JSON_LINES

#: A log and the part before it have this many bytes each at most, and what is written between two
#: looks.
LOG_MAX = 8 * 2**20
#: What a line may be about, beside its words; given to the logger as `extra`.
SUBJECTS = ("node", "job", "task", "user")


class JsonLines(logging.Formatter):
    """One JSON object a line: when, how bad, which part in which term, what it is about, and the
    sentence."""

    def __init__(self, part: str, name: str) -> None:
        super().__init__()
        self._part, self._name = part, name
        #: Known when the part leads, or serves who leads.
        self.term: int | None = None

    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, object] = {
            "at": f"{at}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "part": self._part,
            "name": self._name,
            "term": self.term,
            **{key: record.__dict__[key] for key in SUBJECTS if key in record.__dict__},
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def set_up_logs(kind: str, part: str, name: str) -> None:
    """Lines of this process, as the operator wants them."""
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JsonLines(part, name) if kind == JSON_LINES else text)
    logging.basicConfig(handlers=[handler], level=logging.INFO)


def set_term(term: int) -> None:
    """Lines from now on are of this term."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, JsonLines):
            handler.formatter.term = term


def rotate_log(path: Path, size_max: int = LOG_MAX) -> bool:
    """Keep the end of a log that is too long beside it, and empty it. The part that writes it
    appends, so it goes on at the new end; a line written this very moment may be lost."""
    try:
        if path.lstat().st_size <= size_max:
            return False
        with open(path, "r+b", opener=open_private) as log:
            log.seek(-size_max, os.SEEK_END)
            last = log.read(size_max)
            with open(f"{path}.1", "wb", opener=open_private) as kept:
                kept.write(last)
            log.truncate(0)
    except OSError:  # a full disk: the log is left as it is
        return False
    return True
