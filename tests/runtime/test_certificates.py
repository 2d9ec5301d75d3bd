"""The folder of a part's certificate: what is refused before anybody is asked, and what changes
while a server runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import shutil
import stat
from pathlib import Path

import pytest
from tests.runtime.authorities import TestAuthority, openssl
from tests.runtime.encrypted import LIMIT_S, Listener, greet, serving

from murmuration.base.errors import InputError
from murmuration.runtime.net import certificates, handshakes
from murmuration.runtime.net.addresses import Address
from murmuration.runtime.net.certificates import (
    CERTIFICATE,
    FILES,
    KEY,
    REVOKED,
    client_context,
    read_identity,
    server_context,
)
from murmuration.runtime.net.sockets import connect


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    made = TestAuthority(tmp_path_factory.mktemp("tls"))
    for name, role in (("m1", "master"), ("n1", "agent"), ("anna", "operator")):
        made.issue(name, role)
    return made


def test_only_a_master_listens(authority: TestAuthority) -> None:
    with pytest.raises(InputError, match=r"certificate of a master, .* got that of n1 \(agent\)"):
        server_context(authority.folder / "n1")
    assert read_identity(authority.folder / "n1") == ("n1", "agent")


@pytest.mark.parametrize("name", FILES)
def test_a_missing_or_broken_file_is_named(
    authority: TestAuthority, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "tls"
    shutil.copytree(authority.folder / "n1", folder)
    (folder / name).write_text("nothing\n")
    with pytest.raises(InputError, match=f"{CERTIFICATE}|{name}: expected"):
        client_context(folder)
    (folder / name).unlink()
    with pytest.raises(InputError, match=f"{name}: no such file"):
        client_context(folder)
    (folder / name).symlink_to(authority.folder / "n1" / name)
    with pytest.raises(InputError, match=f"{name}: expected a file or a folder, got a link"):
        client_context(folder)


def test_a_key_that_others_can_read_is_refused(authority: TestAuthority, tmp_path: Path) -> None:
    folder = tmp_path / "tls"
    shutil.copytree(authority.folder / "n1", folder)
    (folder / KEY).chmod(0o640)
    with pytest.raises(InputError, match=f"{KEY}: expected mode 600, got 640"):
        client_context(folder)
    (folder / KEY).chmod(0o600)
    (folder / REVOKED).chmod(0o622)
    with pytest.raises(InputError, match=f"{REVOKED}: expected that nobody else can write"):
        client_context(folder)
    assert stat.S_IMODE((folder / KEY).stat().st_mode) == 0o600


def test_ones_own_bad_certificate_is_found_before_anybody_is_asked(
    authority: TestAuthority,
) -> None:
    old = authority.issue("stale", "agent", days=5, days_ago=6)
    with pytest.raises(InputError, match=r"stale/certificate.pem: .*it has expired; .*ca issue"):
        client_context(old)
    gone = authority.issue("fired", "operator")
    authority.revoke("fired", gone)
    with pytest.raises(InputError, match=r"fired/certificate.pem: .*it was revoked"):
        client_context(gone)
    mixed = authority.issue("mixed", "agent")
    shutil.copy(authority.folder / "n1" / KEY, mixed / KEY)
    with pytest.raises(InputError, match=r"certificate.pem: expected .* belongs to key.pem"):
        client_context(mixed)


# Renewing and revoking while a server runs.


def test_revoking_and_renewing_need_no_restart(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = TestAuthority(tmp_path)
    master, agent = authority.issue("m1", "master"), authority.issue("n1", "agent")
    other, tls = authority.issue("n2", "agent"), client_context(agent)

    async def serial(address: Address) -> str:
        context = client_context(other)
        client = await connect(asyncio.get_running_loop(), Listener, address, context)
        shown = client.transport.get_extra_info("ssl_object").getpeercert()["serialNumber"]
        client.transport.abort()
        return str(shown)

    async def ask() -> None:
        async with serving(master) as address:
            assert await greet(address, tls) == "n1 (agent)"
            authority.revoke("n1", master)
            with contextlib.suppress(OSError):
                assert await greet(address, tls) == ""
            before = await serial(address)
            fresh = authority.issue("m1", "master", to="fresh")
            # Half a copy: the key of one certificate and the other certificate.
            shutil.copy(fresh / CERTIFICATE, master / CERTIFICATE)
            assert await serial(address) == before
            for name in FILES:
                shutil.copy(fresh / name, master / name)
            assert await serial(address) != before
            (master / REVOKED).unlink()
            assert await greet(address, client_context(other)) == "n2 (agent)"
            with contextlib.suppress(OSError):
                assert await greet(address, tls) == ""

    with caplog.at_level(logging.WARNING):
        asyncio.run(ask())
    sentences = [record.getMessage() for record in caplog.records]
    assert [text for text in sentences if "it was revoked" in text]
    assert [text for text in sentences if text.endswith("the certificates of before are used")]


def test_an_open_connection_ends_when_its_certificate_is_revoked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "CHECK_S", 0.02)
    authority = TestAuthority(tmp_path)
    master = authority.issue("m1", "master")
    contexts = [client_context(authority.issue(f"n{k}", "agent")) for k in range(3)]

    async def ask() -> list[bool]:
        loop = asyncio.get_running_loop()
        async with serving(master) as address:
            clients = [await connect(loop, Listener, address, tls) for tls in contexts]
            for client in clients:
                await asyncio.wait_for(client.lines.wait(), LIMIT_S)
            authority.revoke("n1", master)
            await asyncio.wait_for(clients[1].lost.wait(), LIMIT_S)
            # The others go on, and hear an answer.
            for client in (clients[0], clients[2]):
                client.lines.clear()
                client.transport.write(b"still here")
                await asyncio.wait_for(client.lines.wait(), LIMIT_S)
            lost = [client.lost.is_set() for client in clients]
            for client in clients:
                client.transport.abort()
            return lost

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(ask()) == [False, True, False]
    (record,) = caplog.records
    expected = "the connection of n1 (agent) was closed: its certificate was revoked"
    assert record.getMessage() == expected


@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_the_list_of_revoked_certificates_is_read_as_openssl_reads_it(
    tmp_path: Path, count: int
) -> None:
    authority = TestAuthority(tmp_path)
    master = authority.issue("m1", "master")
    for k in range(count):
        authority.issue("n", "agent", to=f"n{k}")
    if count:
        authority.revoke("n", master)
    text = openssl("crl", "-in", str(master / REVOKED), "-noout", "-text")
    serials = {int(number, 16) for number in re.findall(r"Serial Number: ([0-9A-F]+)", text)}
    assert len(serials) == count
    assert server_context(master).read_revoked() == serials


def test_a_list_that_is_cut_off_anywhere_is_no_list(tmp_path: Path) -> None:
    """Half a copy must end neither a handshake nor the watch over open connections."""
    authority = TestAuthority(tmp_path)
    master = authority.issue("m1", "master")
    authority.issue("n1", "agent")
    authority.revoke("n1", master)
    context = server_context(master)
    (serial,) = context.read_revoked()
    text = (master / REVOKED).read_text()
    for size in range(0, len(text) - 30, 7):
        (master / REVOKED).write_text(text[:size])
        assert context.read_revoked() == {serial}
        with pytest.raises(InputError, match="expected a list of revoked certificates"):
            certificates._read_revoked(master / REVOKED)


def test_a_certificate_that_ends_soon_is_warned_of_once_a_day(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = TestAuthority(tmp_path)
    soon, late = authority.issue("n1", "agent", days=9), authority.issue("n2", "agent", days=40)
    with caplog.at_level(logging.WARNING):
        for folder in (soon, soon, late):
            client_context(folder)
    (record,) = caplog.records
    assert re.search(
        r"n1/certificate.pem: it ends in [89] days; .* ca issue n1 --renew", record.message
    )
