"""Jobs as users write them: read from TOML and Python, and what is said of those that are wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from murmuration.base.errors import InputError
from murmuration.workload.formats.job_files import line_of, read_jobs
from murmuration.workload.job_spec import FieldError, JobSpec, Restart, job_from_tables

HELLO = """name = "hello"
kind = "terminating"            # or "service"
count = 3
command = ["sh", "-c", "echo $MURMUR_TASK"]
[resources]
cpu = 0.1
memory = "32Mi"
"""


def written(folder: Path, text: str, name: str = "job.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_the_shortest_job(tmp_path: Path) -> None:
    (job,) = read_jobs(written(tmp_path, 'name = "a"\ncommand = ["true"]\n'))
    assert job == JobSpec(name="a", command=["true"])
    assert (job.kind, job.count, job.resources) == (
        "terminating",
        1,
        {"cpu": 0.1, "memory": "64Mi"},
    )


def test_every_field(tmp_path: Path) -> None:
    text = HELLO + '[restart]\nretries = 2\n[environment]\nA = "b"\n'
    more = 'priority = 3\nuser = "me"\nconstraints = ["zone = a"]\n'
    more += 'affinity = ["x"]\nanti_affinity = ["y"]\n'
    more += 'spread = "zone"\ngang = true\nports = [80, 0]\ntime_limit_s = 1.5\narguments = ["z"]\n'
    (job,) = read_jobs(written(tmp_path, more + text))
    assert (
        job.restart == Restart(retries=2) and job.ports == [80, 0] and job.environment == {"A": "b"}
    )


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('memory = "32Mi"', "memory = [1]"), ["line 7", "resources.memory", "expected"]),
        (("count = 3", 'count = "3"'), ["line 3", "count", "expected a whole number, got text"]),
        (("count = 3", "cuont = 3"), ["line 3", "cuont", "did you mean 'count'?"]),
        (("count = 3", "count = 0"), ["line 3", "from 1 to", "got 0"]),
        (('kind = "terminating"', 'kind = "serivce"'), ["line 2", "kind", "serivce"]),
        (('name = "hello"', 'name = "../etc"'), ["line 1", "name", "../etc"]),
        (('name = "hello"', 'name = ""'), ["line 1", "name"]),
        (
            ("[resources]", "[restart]\nretires = 1\n[resources]"),
            ["line 6", "restart.retires", "did you mean 'retries'"],
        ),
        (("[resources]", "[restart]\nretries = -1\n[resources]"), ["line 6", "restart.retries"]),
        (("count = 3", "ports = [80, 80]"), ["line 3", "ports[0]", "distinct"]),
        (("count = 3", "ports = [70000]"), ["line 3", "70000"]),
        (("count = 3", "time_limit_s = 0"), ["line 3", "time_limit_s"]),
        (("count = 3", "count = "), ["line 3"]),
        (
            ('command = ["sh", "-c", "echo $MURMUR_TASK"]', "command = []"),
            ["line 4", "command", "a program"],
        ),
        (
            ('command = ["sh", "-c", "echo $MURMUR_TASK"]', 'command = "true"'),
            ["line 4", "command", "expected a list"],
        ),
        (('name = "hello"\n', ""), ["expected the field 'name'"]),
    ],
)
def test_what_is_wrong_is_told_with_its_line(
    tmp_path: Path, change: tuple[str, str], says: list[str]
) -> None:
    path = written(tmp_path, HELLO.replace(*change))
    with pytest.raises(InputError) as error:
        read_jobs(path)
    sentence = str(error.value)
    assert str(path) in sentence and "\n" not in sentence
    for word in says:
        assert word in sentence, sentence


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_bytes(b"\xff\xfe"), "UTF-8"),
        (lambda path: path.write_text("#" * 1_000_001), "at most"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: None, "no such file"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, make: object, says: str) -> None:
    path = tmp_path / "job.toml"
    make(path)  # type: ignore[operator]
    with pytest.raises(InputError, match=says):
        read_jobs(path)


def test_jobs_in_python(tmp_path: Path) -> None:
    text = """
from murmuration import JobSpec

jobs = [JobSpec(name=f"part-{k}", command=["true"]) for k in range(3)]
jobs += [{"name": "last", "command": ["true"]}]
"""
    assert [job.name for job in read_jobs(written(tmp_path, text, "jobs.py"))] == [
        "part-0",
        "part-1",
        "part-2",
        "last",
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("x = 1", "expected a job"),
        ("raise SystemExit(3)", "SystemExit"),
        ("job = {'name': 'a'}", "expected the field 'command'"),
        ("job = 3", "expected a job as a table"),
    ],
)
def test_bad_python(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_jobs(written(tmp_path, text, "job.py"))


def test_lines_are_found_in_tables_dotted_keys_and_lists() -> None:
    text = "# a comment\na.b = 1\n\n['c' . d]\n  \"e\" = [\n 1,\n 2]\n"
    assert line_of(text, "a.b") == 2
    assert line_of(text, "c.d.e[1]") == 5
    assert line_of(text, "c.d.unknown") == 4
    assert line_of(text, "nowhere") == 0


def test_an_environment_that_no_process_can_have() -> None:
    for environment in ({"A=B": "x"}, {"": "x"}, {"A": "x\0"}):
        with pytest.raises(FieldError, match="environment"):
            job_from_tables({"name": "a", "command": ["true"], "environment": environment})
