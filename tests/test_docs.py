"""What the docs say of the code is there: every `file: function` they name, and the counts of the
walks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "murmuration"
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), ROOT / "README.md"])
#: Pages that must name something; in others it is checked where they do.
NAMING = ("journey.md", "architecture.md")
#: `folder/file.py: name, Class.method`
REFERENCE = re.compile(r"`([\w/]+\.py): ([\w., ]+)`")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
COUNT = re.compile(r"Now: (\d+) functions, (\d+) changes\s+of\s+room")


def references(text: str) -> Iterator[tuple[str, str]]:
    """Every file and name that a text mentions, in order."""
    for path, names in REFERENCE.findall(text):
        yield from ((path, name.strip()) for name in names.split(","))


@cache
def names_in(path: Path) -> frozenset[str]:
    """What a module defines at its top, and the methods of its classes as `Class.method`."""
    names: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        names |= set(_names_of(node))
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{name}" for inner in node.body for name in _names_of(inner)}
    return frozenset(names)


def _names_of(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
            yield name
        case ast.Assign(targets):
            yield from (target.id for target in targets if isinstance(target, ast.Name))
        case ast.AnnAssign(ast.Name(name)):
            yield name


def missing(text: str) -> list[str]:
    """What a text names and the code does not have."""
    return [
        f"{path}: {name}"
        for path, name in references(text)
        if not any(
            (root / path).is_file() and name in names_in(root / path) for root in (PACKAGE, ROOT)
        )
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_exists(page: Path) -> None:
    text = page.read_text()
    assert not missing(text), f"{page.name}: {'; '.join(missing(text))}"
    assert page.name not in NAMING or list(references(text)), "it names nothing"


def test_a_name_that_is_gone_is_noticed() -> None:
    assert not missing("`schedulers/agent.py: Agent.handle, Note`")
    gone = "`schedulers/agent.py: Agent.act, Note` and `schedulers/nobody.py: Note`"
    assert missing(gone) == ["schedulers/agent.py: Agent.act", "schedulers/nobody.py: Note"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = [link for link in LINK.findall(page.read_text()) if "://" not in link]
    assert not [link for link in targets if not (page.parent / link).exists()]


def test_every_decision_is_listed() -> None:
    listed = set(LINK.findall((DOCS / "decisions" / "README.md").read_text()))
    assert listed == {path.name for path in (DOCS / "decisions").glob("*.md")} - {"README.md"}


def walks() -> dict[str, str]:
    """The walks of the journey by title, without the remarks beside them."""
    parts = re.split(r"^##+ (.*)$", (DOCS / "journey.md").read_text(), flags=re.M)[1:]
    without = {
        title: re.sub(r"^>.*$", "", text, flags=re.M)
        for title, text in zip(parts[::2], parts[1::2], strict=True)
    }
    return {title: text for title, text in without.items() if "Now:" in text}


@pytest.mark.parametrize("title", walks())
def test_a_walk_is_as_long_as_it_says(title: str) -> None:
    text = walks()[title]
    stated = COUNT.search(text)
    passed = list(references(text))
    rooms = [path.partition("/")[0] for path, _ in passed]
    changes = sum(one != other for one, other in pairwise(rooms))
    assert stated is not None, f"expected: Now: {len(passed)} functions, {changes} changes of room"
    assert (int(stated[1]), int(stated[2])) == (len(passed), changes)
