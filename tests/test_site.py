"""The documentation site builds, every page of it is in its menu, every link leads somewhere, and
the reference has what the code has."""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from murmuration.cli import COMMANDS
from murmuration.workload.job_spec import JobSpec

ROOT = Path(__file__).resolve().parents[1]
MENU = tomllib.loads((ROOT / "zensical.toml").read_text())["project"]["nav"]


@pytest.fixture(scope="module")
def scripts() -> ModuleType:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        return importlib.import_module("site_builder")
    finally:
        sys.path.remove(str(ROOT / "scripts"))


@pytest.fixture(scope="module")
def site(scripts: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("zensical", reason="pip install '.[site]'")
    folder: Path = tmp_path_factory.mktemp("site") / "site"
    scripts.build(folder)
    return folder


def pages_of(menu: object) -> list[str]:
    match menu:
        case str():
            return [menu]
        case dict():
            return [page for each in menu.values() for page in pages_of(each)]
        case list():
            return [page for each in menu for page in pages_of(each)]
    raise AssertionError(menu)


def test_every_page_is_in_the_menu(scripts: ModuleType) -> None:
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    pages = {page for page in pages if not page.startswith("decisions/")}
    pages |= {f"reference/{name}.md" for name in scripts.reference.PAGES}
    assert pages | {"decisions/README.md"} == {*pages_of(MENU)}


def test_every_link_leads_to_a_page_and_its_heading(site: Path) -> None:
    # The page for what is not there is shown at any address, so its links begin at the root.
    for page in {*site.rglob("*.html")} - {site / "404.html"}:
        text = page.read_text()
        for link in re.findall(r'<a [^>]*href="([^":?]*)"', text):
            path, _, heading = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            assert target.exists(), f"{page.name}: {link}"
            if heading and target.suffix == ".html" and not heading.startswith("__"):
                assert f'id="{heading}"' in target.read_text(), f"{page.name}: {link}"


def test_reading_a_page_fetches_nothing_from_elsewhere(site: Path) -> None:
    text = (site / "index.html").read_text()
    assert not re.findall(r'<(?:script|img|link)[^>]*(?:src|href)="https?://', text)


def test_the_reference_has_every_command_and_every_key_of_a_job(scripts: ModuleType) -> None:
    commands, job = scripts.reference.commands_page(), scripts.reference.jobs_page()
    assert [name for name in COMMANDS if f"### murmur {name}\n" not in commands] == []
    assert [
        name for name in JobSpec.__struct_fields__ if f"| <code>{name}</code> |" not in job
    ] == []


def test_the_comment_above_a_field_is_its_meaning(scripts: ModuleType) -> None:
    source = "#: One,\n    #: two.\n    a: int\n    b: int\n    #: Three.\n    c: int = 1\n"
    expected = {"a": "One, two.", "b": "", "c": "Three."}
    assert scripts.reference.field_comments(source) == expected
