"""Bad input: each case one sentence that names the file, the line and what was expected."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from murmuration.base.errors import InputError
from murmuration.workload.detect import open_trace
from murmuration.workload.formats.job_lists import read_jobs, write_jobs
from murmuration.workload.nodes import read_nodes

if TYPE_CHECKING:
    from tests.workload.conftest import Write

HEADER = "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task"
GOOD = "a,batch,0,1,1,1,1"


def row(**changes: str) -> str:
    fields = dict(zip(HEADER.split(","), ["b", "batch", "0", "1", "1", "1", "1"], strict=True))
    return ",".join((fields | changes).values())


def refusal(path: Path) -> str:
    """The sentence; both ways into a job list give the same one."""
    with pytest.raises(InputError) as error:
        read_jobs(path)
    message = str(error.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message.removeprefix(f"{path}").removeprefix(":").strip()


NOT_NEGATIVE = "expected a finite number that is not negative"
SIZE = "expected a finite number from 0 to 1125899906"
TASKS = "expected a whole number from 1 to 1000000"
TEXT = "expected printable text of up to 200 characters"
CELLS = {
    "not a number": ({"duration_s": "soon"}, f"duration_s: {NOT_NEGATIVE}, got 'soon'"),
    "negative time": ({"submit_s": "-1"}, f"submit_s: {NOT_NEGATIVE}, got '-1'"),
    "negative duration": ({"duration_s": "-0.5"}, f"duration_s: {NOT_NEGATIVE}, got '-0.5'"),
    "negative size": ({"cpus_per_task": "-2"}, f"cpus_per_task: {SIZE}, got '-2'"),
    "huge size": (
        {"mem_gb_per_task": "1e9"},
        "mem_gb_per_task: expected a finite number from 0 to 1125899, got '1e9'",
    ),
    "no task": ({"tasks": "0"}, f"tasks: {TASKS}, got '0'"),
    "many tasks": ({"tasks": "1000001"}, f"tasks: {TASKS}, got '1000001'"),
    "half a task": ({"tasks": "2.5"}, f"tasks: {TASKS}, got '2.5'"),
    "nan": ({"submit_s": "NaN"}, f"submit_s: {NOT_NEGATIVE}, got 'NaN'"),
    "inf": ({"duration_s": "inf"}, f"duration_s: {NOT_NEGATIVE}, got 'inf'"),
    "overflow": ({"duration_s": "1e999"}, f"duration_s: {NOT_NEGATIVE}, got '1e999'"),
    "empty number": ({"tasks": ""}, f"tasks: {TASKS}, got nothing"),
    "empty id": ({"job_id": ""}, f"job_id: {TEXT}, got nothing"),
    "long id": ({"job_id": "x" * 201}, f"job_id: {TEXT}, got '{'x' * 59}…"),
    "blank workload": ({"workload": " "}, f"workload: {TEXT}, got ' '"),
    "duplicate": ({"job_id": "a"}, "job_id: 'a' is there twice, first on line 2"),
}


@pytest.mark.parametrize("case", CELLS)
def test_a_bad_field_is_named_by_its_line(write: Write, case: str) -> None:
    changes, sentence = CELLS[case]
    path = write("jobs.csv", f"{HEADER}\n{GOOD}\n\n{row(**changes)}\n{row(job_id='c')}\n")
    assert refusal(path) == f"line 4: {sentence}"


@pytest.mark.parametrize(
    ("fields", "got"), [(row() + ",", 8), ("b,batch,0,1,1,1", 6), ("b", 1), ('"b,batch",0', 2)]
)
def test_wrong_number_of_fields(write: Write, fields: str, got: int) -> None:
    path = write("jobs.csv", f"{HEADER}\n{GOOD}\n{fields}\n{row(job_id='c')}\n")
    assert refusal(path) == f"line 3: expected 7 fields, got {got}"


def test_lines_are_counted_through_quotes(write: Write) -> None:
    text = f'note,{HEADER}\n"two\nlines",{GOOD}\n"""quoted"", too",{row(tasks="x")}\n'
    assert refusal(write("jobs.csv", text)).startswith("line 4: tasks: expected a whole number")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('a"b,batch,0,1,1,1,1', "line 3: expected quotes only around a whole field"),
        ('"a"b,batch,0,1,1,1,1', "line 3: expected quotes only around a whole field"),
        ('"a,batch,0,1,1,1,1', "line 3: expected quotes only around a whole field"),
    ],
)
def test_stray_quotes(write: Write, text: str, sentence: str) -> None:
    assert refusal(write("jobs.csv", f"{HEADER}\n{GOOD}\n{text}\n{row(job_id='c')}\n")) == sentence


OPTIONAL = {
    "gang": ("yes", "gang: expected true, false, 0 or 1, got 'yes'"),
    "production": ("2", "production: expected true, false, 0 or 1, got '2'"),
    "priority": ("1.5", "priority: expected a whole number, got '1.5'"),
    "gpu_per_task": ("-1", "gpu_per_task: expected a finite number from 0 to 1125899906, got '-1'"),
    "constraints": ("zone", "constraints: expected 'key = value', "),
}


@pytest.mark.parametrize("column", OPTIONAL)
def test_bad_optional_fields(write: Write, column: str) -> None:
    value, sentence = OPTIONAL[column]
    path = write("jobs.csv", f"{HEADER},{column}\n{GOOD},\n{row()},{value}\n")
    assert refusal(path).startswith(f"line 3: {sentence}")


HEADERS = {
    "missing": (HEADER.replace("tasks,", ""), "column 'tasks' is missing; it has cpus_per_task, "),
    "misspelt": (
        HEADER.replace("duration_s", "duration"),
        "column 'duration_s' is missing; did you mean 'duration'?",
    ),
    "twice": (f"{HEADER},tasks", "line 1: column 'tasks' is there twice"),
    "misspelt optional": (
        f"{HEADER},priorty",
        "unknown column 'priorty'; did you mean 'priority'?",
    ),
    "second cpu": (f"{HEADER},cpu_per_task", "expected column 'cpus_per_task', got 'cpu_per_task'"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_bad_headers(write: Write, case: str) -> None:
    header, sentence = HEADERS[case]
    fields = ",".join("1" for _ in header.split(","))
    assert refusal(write("jobs.csv", f"{header}\n{fields}\n")).startswith(sentence)


def packed(data: bytes) -> bytes:
    return data[: len(data) * 2 // 3]


PLAIN = f"{HEADER}\n{GOOD}\n".encode() * 40
FILES = {
    "empty.csv": (b"", "the file is empty"),
    "blank.csv": (b"\n \n", "the file is empty"),
    "mark.csv": (b"\xef\xbb\xbf\n", "the file is empty"),
    "header.csv": (f"{HEADER}\n".encode(), "expected at least one row, there are no jobs"),
    "cut.csv.gz": (packed(gzip.compress(PLAIN)), "the compressed file is truncated or damaged ("),
    "cut.csv.xz": (packed(lzma.compress(PLAIN)), "the compressed file is truncated or damaged ("),
    "bad.csv.gz": (b"\x1f\x8b" + b"no gzip" * 9, "the compressed file is truncated or damaged ("),
    "cut.parquet": (
        b"PAR1 and then nothing of the kind",
        "the Parquet file is truncated or damaged (",
    ),
    "text.parquet": (PLAIN, "expected a Parquet file, its first bytes are not those of one"),
    "picture.csv": (
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        "expected text or a Parquet job list or node table, this is a binary",
    ),
    "latin.csv": (
        f"{HEADER}\n{row(job_id='é')}\n".encode("latin-1"),
        "line 2: expected UTF-8 text, got other bytes",
    ),
    "letter.csv": (b"Dear reader,\nthis is a letter.\n", "line 2: expected 2 fields, got 1"),
    "wall.csv": (b"x" * 300_000, "line 1: expected a header of column names"),
}


@pytest.mark.parametrize("name", FILES)
def test_bad_files(write: Write, name: str) -> None:
    content, sentence = FILES[name]
    path = write(name, content)
    assert refusal(path).startswith(sentence)
    with pytest.raises(InputError, match=str(path)):
        read_nodes(path)
    with pytest.raises(InputError, match=str(path)):
        open_trace(path)


def test_folder_and_missing_file(tmp_path: Path) -> None:
    assert refusal(tmp_path) == "expected a file, this is a folder"
    assert refusal(tmp_path / "nowhere.csv") == "no such file"
    assert refusal(tmp_path / "a\0b.csv").startswith("cannot be read (")


@pytest.mark.parametrize("cut", [30, 0.5, -3])
def test_truncated_parquet(tmp_path: Path, write: Write, cut: float) -> None:
    write_jobs(read_jobs(write("jobs.csv", f"{HEADER}\n{GOOD}\n")), tmp_path / "whole.parquet")
    whole = (tmp_path / "whole.parquet").read_bytes()
    end = int(len(whole) * cut) if isinstance(cut, float) else cut
    assert "Parquet file is truncated or damaged" in refusal(write("cut.parquet", whole[:end]))


def test_bad_parquet_rows_and_types(tmp_path: Path) -> None:
    good = {
        "job_id": [1, 2],
        "workload": ["a", "a"],
        "submit_s": [0.0, 1.0],
        "tasks": [1, 2],
        "duration_s": [1, 1],
        "cpus_per_task": [1.0, 1.0],
        "mem_gb_per_task": [1, 1],
    }
    path = tmp_path / "jobs.parquet"
    bad = {
        "tasks": ([1, 0], "row 2: tasks: expected a whole number from 1 to 1000000, got 0"),
        "submit_s": (
            [0.0, float("nan")],
            "row 2: submit_s: expected a finite number that is not negative, got nan",
        ),
        "duration_s": (
            [1, None],
            "row 2: duration_s: expected a finite number that is not negative, got nothing",
        ),
        "mem_gb_per_task": (
            [[1], [2]],
            "column 'mem_gb_per_task': expected numbers or text, got List(Int64)",
        ),
        "job_id": ([b"a", b"b"], "column 'job_id': expected numbers or text, got Binary"),
    }
    for name, (values, sentence) in bad.items():
        pl.DataFrame(good | {name: values}).write_parquet(path)
        assert refusal(path) == sentence
    pl.DataFrame(good | {"tasks": [1.0, 2.5]}).write_parquet(path)
    assert refusal(path) == "row 2: tasks: expected a whole number from 1 to 1000000, got 2.5"
    pl.DataFrame(good).write_parquet(path)
    assert read_jobs(path).job_id.tolist() == ["1", "2"]


@pytest.mark.parametrize(
    ("out", "sentence"),
    [
        ("missing/out.csv", "cannot be written (no such file or directory)"),
        ("folder.csv", "expected a file to write, this is a folder"),
        ("out.txt", "expected a name that ends in .csv or .parquet, to know how to write it"),
        ("jobs.csv/out.csv", "cannot be written (not a directory)"),
    ],
)
def test_unwritable_output(tmp_path: Path, write: Write, out: str, sentence: str) -> None:
    jobs = read_jobs(write("jobs.csv", f"{HEADER}\n{GOOD}\n"))
    (tmp_path / "folder.csv").mkdir()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError) as error:
        write_jobs(jobs, tmp_path / out)
    assert str(error.value) == f"{tmp_path / out}: {sentence}"
    assert sorted(tmp_path.rglob("*")) == before
