"""`murmur ca`, as an operator types it."""

from __future__ import annotations

import json
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Murmur

from murmuration.runtime.net.certificates import FILES, ROLES


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MURMUR_CA", str(tmp_path / "ca"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != "lock"
    }


def test_three_hosts_and_a_person(folder: Path, murmur: Murmur) -> None:
    assert "is an authority for 3650 days" in murmur("ca", "init").err
    made = murmur("ca", "issue", "m1", "--role", "master", "--address", "10.0.0.1")
    assert made.code == 0 and made.out == ""
    assert "scp -pr m1 HOST:.murmur/tls" in made.err and "m1/key.pem is secret" in made.err
    for name, role in (("n1", "agent"), ("n2", "agent"), ("anna", "operator")):
        assert murmur("ca", "issue", name, "--role", role, "--days", "20").code == 0
    assert {path.name for path in (folder / "n1").iterdir()} == set(FILES)
    assert stat.S_IMODE((folder / "n1" / "key.pem").stat().st_mode) == 0o600
    revoked = murmur("ca", "revoke", "n2")
    assert "n2 (agent), serial" in revoked.err and "revoked.pem to tls/revoked.pem" in revoked.err
    rows = json.loads(murmur("ca", "list", "--json").out)
    assert [(row["name"], row["role"], row["state"]) for row in rows] == [
        ("anna", "operator", "valid"),
        ("m1", "master", "valid"),
        ("n1", "agent", "valid"),
        ("n2", "agent", "revoked"),
    ]
    assert rows[1]["addresses"] == ["10.0.0.1", "localhost", "127.0.0.1", "::1"]
    shown = murmur("ca", "list").out
    assert rows[0]["serial"] in shown and "valid, 20 days left" in shown.replace("19", "20")


def test_renewing_keeps_role_and_addresses(folder: Path, murmur: Murmur) -> None:
    murmur("ca", "init")
    murmur("ca", "issue", "m1", "--role", "master", "--address", "m1.example.org")
    again = murmur("ca", "issue", "m1", "--role", "master", "--address", "x", "--out", "more")
    assert again.code == 2 and "m1 has a certificate until" in again.err
    assert murmur("ca", "issue", "m1", "--renew", "--out", "fresh").code == 0
    first, second = json.loads(murmur("ca", "list", "--json").out)
    assert first["serial"] != second["serial"]
    assert first["addresses"] == second["addresses"] and first["role"] == second["role"]
    assert (folder / "fresh" / "key.pem").read_bytes() != (folder / "m1" / "key.pem").read_bytes()
    assert murmur("ca", "issue", "m2", "--renew").code == 2


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("init",), "ca: expected an empty folder, or none"),
        (("issue", "n9"), "--role: expected master, agent, operator, submitter or viewer"),
        (("issue", "n9", "--role", "agnt"), "unknown role 'agnt'; did you mean 'agent'?"),
        (("issue", "m9", "--role", "master"), "expected at least one name or address"),
        (("issue", "m9", "--role", "master", "--address", "a:80"), "without a port, got 'a:80'"),
        (("issue", "../x", "--role", "agent"), "expected a name of up to 63 letters"),
        (("issue", "n9", "--role", "agent", "--days", "0"), "0 is not in the range"),
        (("issue", "n9", "--role", "agent", "--days", "4000"), "days, as many as the authority in"),
        (("issue", "n9", "--role", "agent", "--out", "n1"), "n1: expected a folder that is not"),
        (("issue", "n1", "--role", "agent"), "--renew makes another"),
        (("revoke", "n7"), "unknown certificate 'n7'"),
    ],
)
def test_a_mistake_is_one_sentence_and_changes_nothing(
    folder: Path, murmur: Murmur, arguments: tuple[str, ...], sentence: str
) -> None:
    murmur("ca", "init")
    murmur("ca", "issue", "n1", "--role", "agent")
    before = tree(folder)
    answer = murmur("ca", *arguments)
    assert answer.code == 2 and answer.out == ""
    assert sentence in answer.err and len(answer.err.splitlines()) == 1
    assert tree(folder) == before


@pytest.mark.parametrize(
    "arguments", [("issue", "n1", "--role", "agent"), ("revoke", "n1"), ("list",)]
)
def test_without_an_authority_one_is_asked_for(
    folder: Path, murmur: Murmur, arguments: tuple[str, ...]
) -> None:
    answer = murmur("ca", *arguments)
    assert answer.code == 2 and "no authority is here; make one with murmur ca init" in answer.err
    assert not (folder / "ca").exists() and not (folder / "n1").exists()


def test_help_names_every_role(murmur: Murmur) -> None:
    shown = murmur("ca", "issue", "--help").out
    assert all(role in shown for role in ROLES)


def test_without_the_library_the_command_says_what_to_install(tmp_path: Path) -> None:
    """The package is an extra; `--help` and clusters on one host do without it."""
    code = (
        "import sys; sys.modules['cryptography'] = None; "
        "from murmuration.cli import main; sys.argv = ['murmur', *sys.argv[1:]]; main()"
    )
    command = [sys.executable, "-c", code, "ca", "init", "--ca", str(tmp_path / "ca")]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": ":".join(sys.path), "PATH": str(shutil.which("env"))},
    )
    assert ran.returncode == 2 and "pip install '.[hosts]'" in ran.stderr
    assert not (tmp_path / "ca").exists()
