"""The `murmur` command: parse, call one function, print. Commands are imported when they are
used."""

from __future__ import annotations

import importlib
import os
import shlex
import signal
import sys
import traceback
from typing import NoReturn

import click

from murmuration.base.errors import InputError
from murmuration.base.version import __version__
from murmuration.cli.aliases import rewrite

#: The commands of a live cluster lie in `cli/live`, all others beside this file.
STUDY = (
    "simulate",
    "compare",
    "sweep",
    "report",
    "view",
    "plot",
    "compact",
    "grow",
    "reproduce",
    "autoscale",
    "plan",
    "trace",
    "list",
    "init",
    "completion",
    "why",
    "check",
    "replay",
    "rehearse",
    "faults",
)
LIVE = (
    "up",
    "down",
    "run",
    "ps",
    "wait",
    "logs",
    "exec",
    "scale",
    "rollback",
    "kill",
    "drain",
    "move",
    "status",
    "top",
    "events",
    "store",
    "master",
    "agent",
    "ca",
    "token",
    "quota",
    "dump",
)
#: A cluster that is not ours; the commands below it lie in `cli/kube`.
FOREIGN = ("kube",)
COMMANDS = STUDY + LIVE + FOREIGN
#: Commands whose module has another name.
MODULES = {
    "compact": "capacity",
    "grow": "capacity",
    "check": "why",
    "report": "results.report",
    "view": "results.view",
    "plot": "results.plot",
    "list": "start.listing",
    "init": "start.init",
    "completion": "start.completion",
    "ca": "hosts.ca",
    "token": "hosts.token",
    "quota": "hosts.quota",
    "dump": "hosts.dump",
    "exec": "services.exec",
    "scale": "services.scale",
    "rollback": "services.rollback",
    "move": "services.move",
}
#: Set by a shell that wants completions.
COMPLETE = "_MURMUR_COMPLETE"
#: A command whose function cannot have its name.
FUNCTIONS = {"list": "list_names"}


class Commands(click.Group):
    """Each command lies in the module of its name, or in the one it shares."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        in_live = name in LIVE and name not in MODULES
        room = "murmuration.cli.live" if in_live else "murmuration.cli"
        module = importlib.import_module(f"{room}.{MODULES.get(name, name)}")
        command = getattr(module, FUNCTIONS.get(name, name))
        assert isinstance(command, click.Command)
        if os.environ.get(COMPLETE):
            from murmuration.cli.start.complete import attach

            attach(name, command)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Studies and the commands of a live cluster apart."""
        limit = formatter.width - 6 - max(map(len, COMMANDS))
        sections = (("Studies", STUDY), ("A live cluster", LIVE), ("Kubernetes", FOREIGN))
        for title, names in sections:
            commands = [(name, self.get_command(context, name)) for name in names]
            rows = [
                (name, command.get_short_help_str(limit)) for name, command in commands if command
            ]
            with formatter.section(title):
                formatter.write_dl(rows)

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from murmuration.base.errors import unknown

        if arguments and arguments[0] not in COMMANDS and not arguments[0].startswith("-"):
            raise unknown("command", arguments[0], COMMANDS)
        if arguments and arguments[0] == "simulate":
            arguments = rewrite(arguments[1:])
        return super().resolve_command(context, arguments)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="murmur")
def murmur() -> None:
    """A cluster scheduler you can prove before you run it."""


class _TerminateError(KeyboardInterrupt):
    """SIGTERM ends a command as Ctrl-C does."""


#: The signals that asked the command to end.
_stops: list[int] = []
SHOW_CURSOR = b"\x1b[?25h"


def _stop(number: int, frame: object) -> None:
    """End the command, which then shows what is finished; when asked a second time, at once.
    Workers and files are made for that: the former follow, the latter are whole or absent."""
    _stops.append(number)
    if len(_stops) == 1:
        raise _TerminateError if number == signal.SIGTERM else KeyboardInterrupt
    if len(_stops) == 2:  # a third one finds nothing left to do
        os.write(2, (SHOW_CURSOR if os.isatty(2) else b"") + b"murmur: stopped\n")
        os._exit(128 + number)


def _ignore_stops() -> None:
    """Let the interpreter end undisturbed. It reports a signal that arrives while the handler is
    changed as an exception that it ignores, which is nothing to show."""
    sys.unraisablehook = lambda _: None
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def main() -> None:
    """The entry point: bad input is one sentence and exit code 2."""
    _stops.clear()
    for number in (signal.SIGINT, signal.SIGTERM):
        # What a shell starts in the background is not to hear Ctrl-C.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    try:
        sys.exit(murmur(prog_name="murmur", standalone_mode=False))
    except InputError as error:
        fail(str(error), 2)
    except click.UsageError as error:
        # Without arguments a group shows its help.
        if isinstance(error, getattr(click.exceptions, "NoArgsIsHelpError", ())):
            error.show()
            sys.exit(2)
        command = error.ctx.command_path if error.ctx is not None else "murmur"
        fail(f"{error.format_message().rstrip('.')}; see {command} --help", 2)
    except click.ClickException as error:
        fail(error.format_message(), 2)
    except (KeyboardInterrupt, click.Abort) as stop:
        _ignore_stops()
        # Click raises its own exception in place of the one of the signal.
        terminated = isinstance(stop.__cause__ or stop, _TerminateError)
        fail("stopped", 143 if terminated else 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception:
        traceback.print_exc()
        fail(
            "this should not happen; it can be repeated with: "
            f"{shlex.join(['murmur', *sys.argv[1:]])}",
            1,
        )


def fail(sentence: str, code: int) -> NoReturn:
    print(f"murmur: {sentence}", file=sys.stderr)
    sys.exit(code)
