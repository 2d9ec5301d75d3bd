"""The reference pages of the documentation site, made from the code they describe: commands,
scenario keys, the job file, the API and the Python names. Nothing here is written twice: a page is
what the program itself checks and answers with."""

from __future__ import annotations

import html
import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

import click
import msgspec

import murmuration
from murmuration.cli import FOREIGN, LIVE, STUDY, murmur
from murmuration.cli.start.names import LISTS, default_text, type_name
from murmuration.runtime.master.api import ROUTES
from murmuration.runtime.master.openapi import ApiRoute
from murmuration.workload.job_spec import (
    HealthCheck,
    JobSpec,
    Restart,
    UpdatePolicy,
    VolumeMount,
)

#: Tables of a job file.
JOB_TABLES = {
    "restart": Restart,
    "health": HealthCheck,
    "update": UpdatePolicy,
    "volumes": VolumeMount,
}
SECTIONS = {"Studies": STUDY, "A live cluster": LIVE, "Kubernetes": FOREIGN}


def write_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(headings) + " |", "|" + "---|" * len(headings)]
    lines += ["| " + " | ".join(map(escape_cell, row)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def escape_cell(text: str) -> str:
    """Text that cannot leave its cell."""
    plain = " ".join(text.split()).replace("|", "&#124;")
    return re.sub(r"<(?!/?code>)", "&lt;", plain)


def code(text: str) -> str:
    """Between backquotes a bar would end its cell, escaped or not."""
    return f"<code>{html.escape(text).replace('|', '&#124;')}</code>" if text else ""


# Commands.


def commands_page() -> str:
    parts = ["# Commands\n\nWhat `murmur COMMAND --help` prints, for every command.\n"]
    # With its settings: a command keeps the names of its help option once it was asked for them.
    context = click.Context(murmur, info_name="murmur", **murmur.context_settings)
    for title, names in SECTIONS.items():
        parts.append(f"## {title}\n")
        for name in names:
            command = murmur.get_command(context, name)
            assert command is not None
            parts += describe_command(command, click.Context(command, context, name))
    return "\n".join(parts)


def describe_command(command: click.Command, context: click.Context) -> Iterator[str]:
    """A command and, if it is a group, those below it."""
    yield f"### {context.command_path}\n"
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"```text\n{usage}\n```\n"
    yield from paragraphs(command.help or "")
    records = [option.get_help_record(context) for option in command.get_params(context)]
    # An argument has a record, too; what it means stands in the text above.
    options = [(code(names), what) for names, what in filter(None, records) if what]
    yield write_table(("option", "meaning"), options)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from describe_command(below, click.Context(below, context, name))


def paragraphs(text: str) -> Iterator[str]:
    """The paragraphs of a help text; those whose lines are to stay as they are come as code."""
    for part in inspect.cleandoc(text).split("\n\n"):
        if part.startswith("\b\n"):
            first, *lines = part.removeprefix("\b\n").splitlines()
            body = [line.removeprefix("  ") for line in lines]
            yield f"{first}\n\n```text\n" + "\n".join(body) + "\n```\n"
        else:
            yield escape_cell(part) + "\n"


# Keys of files.


def scenarios_page() -> str:
    parts = [
        "# Scenario keys\n\nEvery key a scenario may have. NAME stands for a name of your own, [] "
        "for each table of a list. [Scenarios](../scenarios.md) says what they are for.\n"
    ]
    for name, (headings, rows) in LISTS.items():
        parts.append(f"## {name.capitalize()}\n")
        parts.append(write_table(headings, [(code(row[0]), *row[1:]) for row in rows()]))
    return "\n".join(parts)


def jobs_page() -> str:
    headings = ("key", "type", "default", "meaning")
    parts = [
        "# The job file\n\nA job in TOML, one key a line, or the same as a dict in a Python file. "
        "`murmur run FILE` submits it.\n",
        write_table(headings, fields_of(JobSpec)),
    ]
    for key, struct in JOB_TABLES.items():
        parts += [f"## {key}\n\n{inspect.getdoc(struct)}\n"]
        parts.append(write_table(headings, fields_of(struct)))
    return "\n".join(parts)


def fields_of(struct: type[msgspec.Struct]) -> Iterator[tuple[str, ...]]:
    """The fields of a table: key, type, default, and the comment above it in the source."""
    comments = field_comments(inspect.getsource(struct))
    for field in msgspec.structs.fields(struct):
        kind = code(type_name(field.type))
        meaning = comments.get(field.name, "")
        yield code(field.encode_name), kind, code(default_text(field)), meaning


def field_comments(source: str) -> dict[str, str]:
    """What the `#:` lines above each field say. A comment counts for the fields right below it,
    until an empty line or the next comment."""
    comments: dict[str, str] = {}
    comment, is_open = "", False
    for line in source.splitlines():
        text = line.strip()
        if text.startswith("#:"):
            comment, is_open = (f"{comment} " if is_open else "") + text[2:].strip(), True
        elif field := re.match(r"(\w+)\s*:", text):
            comments[field[1]], is_open = comment if is_open else "", False
            comment = ""
    return comments


# The API, and Python.


def api_page() -> str:
    parts = [
        "# The API\n\nJSON over HTTP, on loopback with the token of the cluster's folder, or with "
        "a certificate ([operate](../operate.md)). A master answers `/openapi.json` with all "
        "types.\n",
        write_table(("operation", "meaning", "body", "answer"), map(describe_route, ROUTES)),
        "## Types\n",
    ]
    for struct in sorted(set(answered_structs()), key=lambda each: each.__name__):
        # Its own words: a type without any would show those of its base.
        words = inspect.cleandoc(vars(struct).get("__doc__") or "")
        parts += [f"### {struct.__name__}\n", f"{words}\n"]
        parts.append(write_table(("key", "type", "default", "meaning"), fields_of(struct)))
    return "\n".join(parts)


def answered_structs() -> Iterator[type[msgspec.Struct]]:
    """The structures that requests and answers have, without those inside them."""
    for route in ROUTES:
        for kind in (route.answers, route.body):
            for each in (kind, *(kind if isinstance(kind, tuple) else get_args(kind))):
                if inspect.isclass(each) and issubclass(each, msgspec.Struct):
                    yield each


def describe_route(route: ApiRoute) -> tuple[str, ...]:
    answers = route.answers if isinstance(route.answers, tuple) else (route.answers,)
    query = "".join(f"; `{name}=`: {what}" for name, what in route.query)
    names = ", ".join(code(answer_name(answer)) for answer in answers)
    body = code(answer_name(route.body)) if route.body is not None else ""
    return code(f"{route.method} {route.path}"), route.summary + query, body, names


def answer_name(kind: Any) -> str:
    return kind.__name__ if inspect.isclass(kind) and "[" not in str(kind) else type_name(kind)


def python_page() -> str:
    parts = [
        "# Python names\n\nAll that `import murmuration` offers. [From Python](../python.md) shows "
        "them at work.\n"
    ]
    for name in sorted(set(murmuration.__all__) - {"__version__"}, key=str.lower):
        parts += describe_name(name, getattr(murmuration, name))
    return "\n".join(parts)


def describe_name(name: str, thing: Any) -> Iterator[str]:
    yield f"## {name}\n"
    yield f"```python\n{name}{signature(thing)}\n```\n"
    yield (inspect.getdoc(thing) or "") + "\n"
    if inspect.isclass(thing):
        methods = [
            (code(attribute), describe_member(attribute, member))
            for attribute, member in vars(thing).items()
            if not attribute.startswith("_") and (callable(member) or isinstance(member, property))
        ]
        if methods:
            yield write_table(("member", "meaning"), methods)


def describe_member(name: str, member: Any) -> str:
    """What a member does, after how it is called."""
    called = signature(member)
    meaning = inspect.getdoc(member) or ""
    return f"{code(name + called)} {meaning}".strip() if called else meaning


def signature(thing: Any) -> str:
    try:
        text = str(inspect.signature(thing))
    except (TypeError, ValueError):
        return ""
    return re.sub(r"'([\w.\[\], |]+)'", r"\1", text).replace("(self, ", "(").replace("(self)", "()")


PAGES = {
    "commands": commands_page,
    "scenario-keys": scenarios_page,
    "job-file": jobs_page,
    "api": api_page,
    "python-names": python_page,
}
