"""The built page in the package is what its source gives, byte for byte."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from murmuration.dashboard import files
from murmuration.dashboard.embed import embed

ROOT = Path(__file__).resolve().parents[2]
FRONT = ROOT / "front"
BUILT = ROOT / "src" / "murmuration" / "dashboard" / "built"
#: The cluster page's script as it is sent.
SCRIPT_MAX = 60_000


def run(*command: str, cwd: Path = FRONT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def tools() -> Iterator[None]:
    """What the build needs, installed once."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed: apt-get install npm, then npm install in front/")
    with (FRONT / "package.json").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not (FRONT / "node_modules" / ".package-lock.json").exists():
            outcome = run("npm", "install", "--no-audit", "--no-fund")
            if outcome.returncode:
                pytest.skip(f"npm install in front/ failed: {outcome.stderr.strip()[-300:]}")
        yield


def test_the_committed_files_are_what_the_source_gives(tools: None, tmp_path: Path) -> None:
    for config in ("vite.config.ts", "vite.report.config.ts"):
        outcome = run("npx", "vite", "build", "--config", config, "--outDir", str(tmp_path))
        assert outcome.returncode == 0, outcome.stderr
    fresh = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert fresh.keys() == {path.name for path in BUILT.iterdir()}
    differ = [name for name, body in fresh.items() if body != (BUILT / name).read_bytes()]
    assert not differ, f"{differ} differ: run `npm run build` in front/ and commit"


def test_types_and_roles_are_checked(tools: None) -> None:
    outcome = run("npm", "run", "check")
    assert outcome.returncode == 0, outcome.stdout[-2000:]


def test_the_first_page_is_small() -> None:
    scripts = ("/app.js",)
    assert sum(len(files.load(path).packed) for path in scripts) < SCRIPT_MAX


def test_the_page_brings_nothing_from_elsewhere_and_nothing_inline() -> None:
    text = files.load("/").body.decode()
    assert "<style" not in text
    assert "onclick" not in text
    assert "http" not in text
    assert text.count("<script") == 1 and 'src="./app.js"' in text
    assert "'unsafe" not in files.POLICY


def test_the_policy_names_this_origin_alone() -> None:
    """The page itself, its own requests and pictures that it draws; nothing else, nowhere."""
    parts = (part.split() for part in files.POLICY.split("; "))
    policy = {name: set(values) for name, *values in parts}
    own, nothing = {"'self'"}, {"'none'"}
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == own
    assert policy["img-src"] == {"'self'", "data:", "blob:"}
    for name in ("default-src", "base-uri", "form-action", "frame-ancestors"):
        assert policy[name] == nothing


def test_a_report_runs_its_own_script_and_no_other() -> None:
    text = embed("a title", "", {})
    (policy,) = re.findall('Content-Security-Policy" content="([^"]+)"', text)
    (script,) = re.findall("<script>(.*)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert "unsafe" not in policy and "default-src 'none'" in policy


def test_text_is_never_html() -> None:
    """Svelte escapes what it shows, unless it is told not to; what stands round it is escaped."""
    nasty = "</title></noscript></script><nasty>"
    assert "<nasty>" not in embed(nasty, nasty, {"title": nasty})
    for path in FRONT.rglob("*.svelte"):
        if "node_modules" not in path.parts:
            assert "@html" not in path.read_text(), path


def test_every_file_that_is_served_was_built() -> None:
    names = set(os.listdir(BUILT))
    assert {path.strip("/") or "index.html" for path in files.paths()} <= names
