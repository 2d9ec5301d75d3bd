"""The house rules that a program can check. A rule that fails names the file, the line and what to
do."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import murmuration

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "murmuration"
SOURCES = sorted(PACKAGE.rglob("*.py"))
PYTHON = [
    path
    for folder in ("src", "tests", "benchmarks", "examples")
    for path in sorted((ROOT / folder).rglob("*.py"))
]

FUNCTION_LINES_MAX = 70
FILE_LINES_MAX = 600
LINE_MAX = 100
MODULES_MAX = 15
POSITIONAL_MAX = 8
#: How often `Any` occurs in the source. It only falls.
ANY_MAX = 575
ARCHITECTURES = {
    "monolithic",
    "partitioned",
    "offers",
    "shared-state",
    "negotiation",
    "swarm",
    "genetic",
}
#: Rooms that know architectures as values only.
NAMELESS = {
    ("simulation", "engine"),
    ("simulation", "results"),
    ("simulation", "scenarios"),
    ("experiments", "pages"),
    ("placement", "registry.py"),
    ("schedulers", "agent.py"),
    ("schedulers", "architecture.py"),
}
#: Told to tools, not to readers, so it does not count as part of a line.
PRAGMA = re.compile(r"\s+# (fmt|type|noqa)\b.*$")
#: What no command may need before it runs: they are slow to import.
HEAVY = ("matplotlib", "numba", "polars", "rich")
#: Folders that decide, and so never read a clock, a socket or a global random source.
DECIDING = ("assignment", "autoscaling", "base", "cluster", "placement", "schedulers", "workload")
BY_NAME = ("cli", "experiments")
#: What is there before anybody imports it. This list only shrinks.
NOT_USED_YET: set[str] = set()
WIRING = ("cli", "experiments", "reports", "simulation")


def where(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def tool(name: str, *arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command of the environment the tests run in."""
    command = [str(Path(sys.executable).parent / name), *arguments]
    return subprocess.run(
        command, cwd=ROOT, input=text, capture_output=True, text=True, check=False
    )


def long_functions(source: str, limit: int = FUNCTION_LINES_MAX) -> Iterator[tuple[int, str, int]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > limit:
                yield node.lineno, node.name, lines


def test_functions_are_short() -> None:
    found = [
        f"{where(path, line)}: {name} has {lines} lines, at most {FUNCTION_LINES_MAX}"
        for path in PYTHON
        for line, name, lines in long_functions(path.read_text())
    ]
    assert not found, "\n".join(found)


def test_a_long_function_is_found() -> None:
    body = "".join(f"    x{k} = {k}\n" for k in range(FUNCTION_LINES_MAX))
    assert list(long_functions(f"def short():\n    pass\n\n\ndef long():\n{body}")) == [
        (5, "long", 71)
    ]


def test_files_and_lines_are_short() -> None:
    found = []
    for path in PYTHON:
        lines = path.read_text().splitlines()
        if len(lines) > FILE_LINES_MAX:
            found.append(f"{where(path, 1)}: {len(lines)} lines, at most {FILE_LINES_MAX}")
        for number, line in enumerate(lines, 1):
            width = len(PRAGMA.sub("", line))
            # A single word, such as a line of a file to read, cannot be broken.
            if width > LINE_MAX and len(line.split()) > 1:
                found.append(f"{where(path, number)}: {width} characters, at most {LINE_MAX}")
    assert not found, "\n".join(found)


def test_no_folder_has_more_modules_than_a_reader_can_hold() -> None:
    counts = Counter(path.parent for path in SOURCES if path.name != "__init__.py")
    crowded = [
        f"{folder.relative_to(ROOT)}: {count} modules, at most {MODULES_MAX}; make rooms of it"
        for folder, count in counts.items()
        if count > MODULES_MAX
    ]
    assert not crowded, "\n".join(crowded)


def opened_sockets(source: str) -> Iterator[int]:
    """The lines that open a socket, whichever way."""
    ways = {"create_connection", "create_server", "open_connection", "start_server"}
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(ast.Attribute(ast.Name("socket"), "socket" | "socketpair")):
                yield node.lineno
            case ast.Call(ast.Attribute(attr=name)) if name in ways:
                yield node.lineno


def test_one_module_of_the_live_side_opens_sockets() -> None:
    """Whoever asks which doors there are, or whether one is encrypted, reads one file."""
    place = Path("runtime/net/sockets.py")
    elsewhere = [
        f"{where(path, line)}: opens a socket; ask {place} for one"
        for path in SOURCES
        if path.relative_to(PACKAGE).parts[0] == "runtime" and path != PACKAGE / place
        for line in opened_sockets(path.read_text())
    ]
    assert not elsewhere, "\n".join(elsewhere)
    assert list(opened_sockets((PACKAGE / place).read_text())), "the one place opens none"


def names_used_twice(sources: dict[str, str]) -> list[str]:
    """Class names that more than one place defines, with the places."""
    places: dict[str, list[str]] = {}
    for path, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{path}:{node.lineno}")
    return [f"{name}: {', '.join(lines)}" for name, lines in places.items() if len(lines) > 1]


def test_no_class_name_is_used_twice() -> None:
    """A name in a message, a search or a traceback leads to one class."""
    twice = names_used_twice({str(path.relative_to(ROOT)): path.read_text() for path in SOURCES})
    assert not twice, "\n".join(twice)


def test_a_class_name_used_twice_is_noticed() -> None:
    sources = {"a.py": "class Step: ...\nclass Move: ...", "b.py": "\nclass Step: ..."}
    assert names_used_twice(sources) == ["Step: a.py:1, b.py:2"]


def architecture_names(source: str) -> Iterator[tuple[int, str]]:
    """Every architecture that a file names in a string of its own."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and node.value in ARCHITECTURES:
            yield node.lineno, str(node.value)


def test_an_architecture_is_named_in_its_room_only() -> None:
    """The engine asks the architecture's value; a branch on a name has no place outside."""
    named = [
        f"{where(path, line)}: names {name!r}; ask the architecture's value instead"
        for path in SOURCES
        if path.relative_to(PACKAGE).parts[:2] in NAMELESS
        for line, name in architecture_names(path.read_text())
    ]
    assert not named, "\n".join(named)


def test_an_architecture_named_outside_its_room_is_noticed() -> None:
    assert list(architecture_names('"""About offers."""\nkind == "offers"')) == [(2, "offers")]
    rooms = {path.relative_to(PACKAGE).parts[:2] for path in SOURCES}
    assert rooms >= NAMELESS, "a room of the list is gone"


def wide_calls(source: str) -> Iterator[tuple[int, int]]:
    """Calls with so many positional arguments that two could be swapped unseen."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and len(node.args) > POSITIONAL_MAX:
            yield node.lineno, len(node.args)


def test_no_call_has_too_many_positional_arguments() -> None:
    wide = [
        f"{where(path, line)}: {count} positional arguments, at most {POSITIONAL_MAX}"
        for path in SOURCES
        for line, count in wide_calls(path.read_text())
    ]
    assert not wide, "\n".join(wide)


def test_the_formatter_formats_everything() -> None:
    # Put together here so that this file does not hold it.
    pragma = "# fmt: " + "skip"
    assert not [str(path.relative_to(ROOT)) for path in PYTHON if pragma in path.read_text()]


def test_any_is_used_less_and_less() -> None:
    """A ratchet: lower the number when the count falls, never raise it."""
    count = sum(len(re.findall(r"\bAny\b", path.read_text())) for path in SOURCES)
    assert count <= ANY_MAX, f"Any occurs {count} times, at most {ANY_MAX}: name the type instead"


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def names_in(source: str) -> Iterator[str]:
    """Every module a file imports, and every word it quotes: what is loaded on demand is named by a
    string."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value
        ):
            yield node.value


def test_every_module_is_imported_by_another() -> None:
    """Commands and experiments are loaded by the name in a list; all else by an import."""
    names = {path: set(names_in(path.read_text())) for path in SOURCES}
    orphans = {}
    for path in SOURCES:
        name = module_name(path)
        others = [other for other in SOURCES if other != path]
        tail = ".".join(name.split(".")[-2:])
        by_name = path.relative_to(PACKAGE).parts[0] in BY_NAME and {path.stem, tail}
        used = any(name in names[other] for other in others) or any(
            by_name and by_name & names[other] for other in others if other.parent in path.parents
        )
        if not used and path.name != "__init__.py":
            orphans[name] = f"{where(path, 1)}: nobody imports {name}"
    assert set(orphans) >= NOT_USED_YET, "what is imported by now leaves the list"
    found = [sentence for name, sentence in orphans.items() if name not in NOT_USED_YET]
    assert not found, "\n".join(found)


def test_public_names_are_listed() -> None:
    """What the package offers stands in `__all__`, is there, and is what type checkers are told."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    (checking,) = (node for node in tree.body if isinstance(node, ast.If))
    told = {
        alias.asname or alias.name
        for node in checking.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted({*told, "__version__"}) == sorted(murmuration.__all__)
    assert murmuration.__all__ == sorted(murmuration.__all__)
    for node in checking.body:
        assert isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names:
            real = getattr(importlib.import_module(node.module), alias.name)
            assert getattr(murmuration, alias.asname or alias.name) is real
    defined = {name for name in vars(murmuration) if not name.startswith("_")}
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    assert defined - folders - {"annotations", "TYPE_CHECKING", "Any"} <= set(murmuration.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = murmuration.nothing


def test_every_module_says_what_it_is_for() -> None:
    silent = [
        str(path.relative_to(ROOT))
        for path in SOURCES
        if ast.get_docstring(ast.parse(path.read_text())) is None
    ]
    assert not silent


def test_imports_point_downwards_only() -> None:
    """The contracts of pyproject.toml; a folder that is missing there breaks them too."""
    result = tool("lint-imports", "--no-cache")
    assert result.returncode == 0, result.stdout + result.stderr
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = config["tool"]["importlinter"]["contracts"]
    assert contract["exhaustive"]
    placed = {part for layer in contract["layers"] for part in layer.split(" | ")}
    assert {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()} <= placed


PROBE = """
import json, sys
sys.argv = ["murmur", *{arguments!r}]
from murmuration.cli import main
try:
    main()
except SystemExit as end:
    code = end.code
print(json.dumps([code, sorted(set({heavy!r}) & set(sys.modules))]), file=sys.stderr)
"""


def imported_by(*arguments: str) -> list[str]:
    """The heavy packages that one command imports."""
    probe = PROBE.format(arguments=list(arguments), heavy=HEAVY)
    result = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, cwd=ROOT
    )
    code, heavy = json.loads(result.stderr.splitlines()[-1])
    assert code in (0, None), result.stderr
    return list(heavy)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["--version"], ["simulate", "--help"], ["trace", "info", "--help"]]
)
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    assert imported_by(*arguments) == []


def test_reading_a_trace_compiles_nothing(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs.csv"
    jobs.write_text(
        "job_id,workload,submit_s,tasks,duration_s,cpus_per_task,mem_gb_per_task\na,batch,0,1,1,1,1\n"
    )
    assert "numba" not in imported_by("trace", "info", str(jobs))


BANNED = {
    "a clock": "import time\n\nnow = time.time()\n",
    "a clock by name": "from time import monotonic\n\nnow = monotonic()\n",
    "a date": "from datetime import datetime\n\nnow = datetime.now()\n",
    "random": "import random\n\ndraw = random.random()\n",
    "fresh generator": "import numpy as np\n\ndraw = np.random.default_rng()\n",
    "global generator": "import numpy as np\n\ndraw = np.random.rand()\n",
    "the system's randomness": "import os\n\ndraw = os.urandom(8)\n",
    "a socket": "import socket\n\nline = socket.socket()\n",
    "a wait": "import asyncio\n\nasyncio.run(asyncio.sleep(1))\n",
}


def broken_rules(folder: str, text: str) -> set[str]:
    place = ["--stdin-filename", f"src/murmuration/{folder}/x.py", "-"]
    result = tool("ruff", "check", "--no-cache", "--output-format", "json", *place, text=text)
    return {problem["code"] for problem in json.loads(result.stdout)}


@pytest.mark.parametrize("what", BANNED)
@pytest.mark.parametrize("folder", DECIDING)
def test_decisions_read_no_clock_socket_or_global_randomness(folder: str, what: str) -> None:
    assert broken_rules(folder, BANNED[what]) & {"TID251", "NPY002"}


@pytest.mark.parametrize("folder", WIRING)
def test_what_wires_and_shows_may_read_a_clock(folder: str) -> None:
    assert broken_rules(folder, BANNED["a clock"]) == set()
    assert broken_rules(folder, BANNED["global generator"]) == {"NPY002"}


def test_no_decision_does() -> None:
    result = tool(
        "ruff",
        "check",
        "--no-cache",
        "--output-format",
        "concise",
        "--select",
        "TID251,NPY002",
        "src",
    )
    assert result.returncode == 0, result.stdout


def test_nothing_is_left_to_do() -> None:
    # The words are put together here so that this file does not hold them.
    marker = re.compile(
        r"\b(" + "|".join(("TO" + "DO", "FIX" + "ME", "XX" + "X", "HA" + "CK")) + r")\b"
    )
    texts = [
        path for path in (ROOT / "src").rglob("*") if path.suffix in (".py", ".toml", ".css", ".js")
    ]
    found = [
        f"{where(path, number)}: {line.strip()}"
        for path in texts
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if marker.search(line)
    ]
    assert not found, "\n".join(found)
