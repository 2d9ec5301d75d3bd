"""Starting a program without copying the agent: descriptors 0 to 3 as a shim expects them, no
signal changed."""

from __future__ import annotations

import os
import signal
from typing import Any

from murmuration.runtime.node.isolation.folder import Files

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: The agent handles or ignores these; a task shall not.
RESET = [
    signal.SIGPIPE,
    signal.SIGXFSZ,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGCHLD,
]


def spawn(
    program: str, arguments: list[str], environment: dict[str, str], opened: Files, **where: Any
) -> int:
    """The number of the new process: nothing to read, the task's output on 1 and 2, its locked
    state on 3."""
    given = (opened.stdout, opened.stderr, opened.state)
    free = max(3, *given) + 1  # what is copied to 1, 2 and 3 must not lie there
    return os.posix_spawn(
        program,
        arguments,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            *((os.POSIX_SPAWN_DUP2, fd, free + k) for k, fd in enumerate(given)),
            *((os.POSIX_SPAWN_DUP2, free + k, 1 + k) for k in range(3)),
            *((os.POSIX_SPAWN_CLOSE, free + k) for k in range(3)),
        ],
        setsigmask=[],
        setsigdef=RESET,
        **where,
    )
