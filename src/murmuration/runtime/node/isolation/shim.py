"""The few lines of shell that stand between an isolation and a command: they outlive the agent and
note how it ended.

A shell starts in a millisecond, is there on every node, can be put into every image
(`images/shell.py`), and needs no compiler.
It runs as the command's parent (in a container as process 1), holds the lock on the task's state
through descriptor 3 and writes there the one line the agent needs. The command is not given the
descriptor but can come by it (`/proc/1/fd/3`), so what stands there is a task's word on its own
end and nothing that anybody acts on otherwise.
"""

from __future__ import annotations

import resource
from collections.abc import Sequence

import msgspec

#: Arguments: folder to work in, kilobytes of data at most, open files, the command. A trap, unlike
#: an ignored signal, is not inherited: the shell outlives a SIGTERM to the whole tree and the
#: command does not. `exec` runs no built-in of the shell by mistake, and the shell's own remarks
#: ("Terminated") stay out of the task's output.
SHIM = """exec 4>&2 2>/dev/null
trap : HUP INT QUIT TERM ALRM USR1 USR2
cd "$1" || { echo "failed cannot enter $1" >&3; exit 1; }
data=$2 files=$3; shift 3
runs() { [ -x "$1" ] && [ ! -d "$1" ]; }
found() {
  case $1 in */*) runs "$1"; return;; esac
  set -f; IFS=:
  for d in $PATH; do if runs "${d:-.}/$1"; then unset IFS; set +f; return 0; fi; done
  return 1
}
found "$1" || { echo "failed command $1: not found, or not a program" >&3; exit 127; }
echo "pid $$" >&3
(umask 022; ulimit -c 0; ulimit -d "$data"; ulimit -S -n "$files"; exec "$@" 2>&4 3>&- 4>&-)
echo "exit $?" >&3"""

#: An agent watches each task through a descriptor and so allows itself many; a task gets as many as
#: is usual here.
OPEN_FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
#: What a kernel can mean by a number of a process and a code of its end; what is shown of a
#: sentence.
PID_MAX, CODE_MAX, SENTENCE_MAX = 2**22, 255, 300
SIGNAL_BASE = 128
SIGNAL_MAX = 64


class ShimState(msgspec.Struct, frozen=True):
    """What the shim has reported so far."""

    pid: int | None = None
    code: int | None = None
    failed: str = ""

    @property
    def signal(self) -> int | None:
        """A shell shows a death by signal n as code 128 + n; a command that says so itself is read
        the same way."""
        if self.code is not None and SIGNAL_BASE < self.code <= SIGNAL_BASE + SIGNAL_MAX:
            return self.code - SIGNAL_BASE
        return None


def arguments(
    task: str,
    work: str,
    data_kb: int | None,
    command: list[str],
    shell: Sequence[str] = ("sh",),
) -> list[str]:
    """The whole command line: the shim under the task's name, then the command."""
    data = "unlimited" if data_kb is None else str(data_kb)
    return [*shell, "-c", SHIM, task, work, data, str(OPEN_FILES), *command]


def enter(command: Sequence[str], shell: Sequence[str] = ("sh",)) -> list[str]:
    """The command line of a further command beside the task: a shell says 127 for one that is not
    there, as users expect."""
    return [*shell, "-c", 'exec "$@"', "exec", *command]


def find_shell(arguments: Sequence[str]) -> Sequence[str]:
    """How the shell of a shim is called, from its whole command line."""
    return arguments[: arguments.index("-c")]


def read(text: str) -> ShimState:
    """The shim's lines; a line without its end was cut off and says nothing. A task can write here
    too, so only numbers that can be are taken, and of a sentence only what can be shown."""
    fields: dict[str, str] = {}
    for line in text.rstrip("\0").splitlines(keepends=True):
        key, _, value = line.partition(" ")
        if line.endswith("\n"):
            fields.setdefault(key, value.strip())
    sentence = "".join(sign for sign in fields.get("failed", "") if sign.isprintable())
    return ShimState(
        read_number(fields, "pid", PID_MAX),
        read_number(fields, "exit", CODE_MAX),
        sentence[:SENTENCE_MAX],
    )


def read_number(fields: dict[str, str], name: str, value_max: int) -> int | None:
    text = fields.get(name, "")
    if not (text.isascii() and text.isdecimal() and len(text) <= len(str(value_max))):
        return None
    return int(text) if int(text) <= value_max else None
