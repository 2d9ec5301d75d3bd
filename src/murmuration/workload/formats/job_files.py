"""Job files, in TOML or in Python. An error names the file and the line."""

from __future__ import annotations

import re
import runpy
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from murmuration.base.errors import InputError
from murmuration.workload.job_spec import FieldError, JobSpec, job_from_tables

SIZE_MAX = 1_000_000
_TABLE = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(#.*)?")
_KEY = re.compile(r"""\s*((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)\s*=""")


def read_jobs(path: Path) -> list[JobSpec]:
    """The jobs of a file, each after those that it is to run after: one job of TOML or several in
    `[[jobs]]`, or what a Python file calls `job` or `jobs`."""
    try:
        return order_jobs(_read(path))
    except FieldError as problem:
        raise InputError(f"{path}: {problem}") from problem


def _read(path: Path) -> list[JobSpec]:
    text = _text(path)
    if path.suffix == ".py":
        return [_check(tables, path, "") for tables in _python_jobs(path)]
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: {str(error)[0].lower()}{str(error)[1:]}") from error
    several = tables.get("jobs")
    if set(tables) == {"jobs"} and isinstance(several, list) and several:
        return [_check(each, path, "", f"jobs[{k}].") for k, each in enumerate(several)]
    return [_check(tables, path, text)]


def order_jobs(specs: Iterable[JobSpec]) -> list[JobSpec]:
    """Jobs of one file, each after those of the file that it is to run after."""
    left: dict[str, JobSpec] = {}
    for spec in specs:
        if spec.name in left:
            raise FieldError("name", f"expected different names, got {spec.name!r} twice")
        left[spec.name] = spec
    ordered: list[JobSpec] = []
    while left:
        ready = [spec for spec in left.values() if not _others(spec) & left.keys()]
        if not ready:
            raise FieldError("after", f"expected no circle, got {_find_circle(left)}")
        ordered += [left.pop(spec.name) for spec in ready]
    return ordered


def _others(spec: JobSpec) -> set[str]:
    return {*spec.after, *spec.after_any}


def _find_circle(left: Mapping[str, JobSpec]) -> str:
    """Everybody who is left waits for somebody who is: follow until a name comes again."""
    path = [next(iter(left))]
    while True:
        following = next(name for name in sorted(_others(left[path[-1]])) if name in left)
        if following in path:
            return " after ".join([*path[path.index(following) :], following])
        path.append(following)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > SIZE_MAX:
            raise InputError(f"{path}: expected a job file of at most {SIZE_MAX} bytes")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: expected text in UTF-8") from error
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from error


def _python_jobs(path: Path) -> list[Any]:
    try:
        names = runpy.run_path(str(path))
    except (Exception, SystemExit) as error:
        # A user's file may fail in any way; whatever it is, it is their input that is wrong.
        raise InputError(f"{path}: {type(error).__name__}: {error}") from error
    jobs = names.get("jobs", [names["job"]] if "job" in names else None)
    if not isinstance(jobs, list) or not jobs:
        raise InputError(
            f"{path}: expected a job (a dict or a JobSpec) called 'job', or a list of them "
            "called 'jobs'"
        )
    return [msgspec.to_builtins(job) if isinstance(job, JobSpec) else job for job in jobs]


def _check(tables: Any, path: Path, text: str, prefix: str = "") -> JobSpec:
    try:
        return job_from_tables(tables)
    except FieldError as problem:
        if prefix:
            raise InputError(f"{path}: {prefix}{problem}") from problem
        raise InputError(locate(problem, path, text)) from problem


def locate(problem: FieldError, path: Path, text: str) -> str:
    """The problem with the file and, where the field is written in it, the line."""
    line = line_of(text, problem.field)
    return f"{path}, line {line}: {problem}" if line else f"{path}: {problem}"


def line_of(text: str, field: str) -> int:
    """The line on which a field, or the nearest table or list around it, is written; 0 if none
    is."""
    lines = _key_lines(text)
    parts = re.split(r"[.\[]", field)
    while parts:
        number = lines.get(".".join(parts))
        if number:
            return number
        parts.pop()
    return 0


def _key_lines(text: str) -> dict[str, int]:
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _TABLE.fullmatch(line):
            table = _plain(header[1]) + "."
            lines.setdefault(table.rstrip("."), number)
        elif key := _KEY.match(line):
            lines.setdefault(table + _plain(key[1]), number)
    return lines


def _plain(key: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in key.split("."))
