"""Encrypted connections between the parts of a cluster: a real server and real clients on loopback,
each with a certificate of its own, good or bad. Who is refused leaves a sentence in the log, and
the next one is served."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import socket
import ssl
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.authorities import TestAuthority, openssl
from tests.runtime.encrypted import HOST, LIMIT_S, Echo, Listener, greet, serving

from murmuration.base.errors import InputError
from murmuration.runtime.client.requests import ApiClient
from murmuration.runtime.client.sdk import OfferScheduler
from murmuration.runtime.folder import TLS
from murmuration.runtime.net import handshakes
from murmuration.runtime.net.addresses import Address
from murmuration.runtime.net.certificates import (
    CERTIFICATE,
    KEY,
    Identity,
    client_context,
    peer_identity,
    server_context,
)
from murmuration.runtime.net.directory import FolderDirectory, Leader
from murmuration.runtime.net.sockets import check_loopback, connect, dial, listen


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    made = TestAuthority(tmp_path_factory.mktemp("tls"))
    for name, role in (("m1", "master"), ("n1", "agent"), ("anna", "operator")):
        made.issue(name, role)
    return made


def talk(authority: TestAuthority, tls: ssl.SSLContext, then: str = "anna") -> str:
    """What the server `m1` says to somebody. Afterwards it still serves the next one."""

    async def ask() -> str:
        async with serving(authority.folder / "m1") as address:
            try:
                return await greet(address, tls)
            except OSError:
                return ""
            finally:
                good = client_context(authority.folder / then)
                assert await greet(address, good) == f"{then} (operator)"

    return asyncio.run(ask())


def unchecked(folder: Path, without_certificate: bool = False) -> ssl.SSLContext:
    """A client that does not look at its own certificate first, as an attacker's would not."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    if not without_certificate:
        tls.load_cert_chain(folder / CERTIFICATE, folder / KEY)
    return tls


def test_both_sides_know_each_other(authority: TestAuthority) -> None:
    assert talk(authority, client_context(authority.folder / "n1")) == "n1 (agent)"

    async def ask() -> Identity | None:
        async with serving(authority.folder / "m1") as address:
            tls = client_context(authority.folder / "n1")
            client = await connect(asyncio.get_running_loop(), Listener, address, tls)
            found = client.transport.get_extra_info("ssl_object")
            assert found.version() == "TLSv1.3"
            client.transport.abort()
            return peer_identity(found)

    assert asyncio.run(ask()) == ("m1", "master")


def test_openssl_agrees_about_the_server(authority: TestAuthority) -> None:
    """The command of OpenSSL as the client: certificate, version, and no tickets."""

    async def ask() -> str:
        async with serving(authority.folder / "m1") as address:
            folder = authority.folder / "n1"
            given = ["-connect", str(address), "-CAfile", str(folder / "authority.pem")]
            given += ["-cert", str(folder / CERTIFICATE), "-key", str(folder / KEY)]
            # It reads until its input ends, which is at once.
            arguments = ["s_client", *given, "-verify_return_error", "-verify_ip", HOST]
            return await asyncio.to_thread(openssl, *arguments)

    said = asyncio.run(ask())
    assert "Verify return code: 0 (ok)" in said and "TLSv1.3" in said
    assert "New Session Ticket" not in said


BAD = {
    "a foreign authority": "the other side's certificate was refused: another authority signed it",
    "expired": "the other side's certificate was refused: it has expired",
    "not valid yet": "the other side's certificate was refused: it is not valid yet",
    "revoked": "the other side's certificate was refused: it was revoked",
    "none": "the other side showed no certificate",
    "no role": "its certificate names no role",
}


def make_bad(authority: TestAuthority, kind: str, folder: Path) -> ssl.SSLContext:
    match kind:
        case "a foreign authority":
            return unchecked(TestAuthority(folder).issue("n1", "agent"))
        case "expired":
            return unchecked(authority.issue("old", "agent", days=5, days_ago=6))
        case "not valid yet":
            return unchecked(authority.issue("early", "agent", days=5, days_ago=-2))
        case "revoked":
            made = authority.issue("gone", "agent")
            authority.revoke("gone", authority.folder / "m1")
            return unchecked(made)
        case "none":
            return unchecked(folder, without_certificate=True)
        case _:
            return unchecked(make_roleless(authority, folder))


def make_roleless(authority: TestAuthority, folder: Path) -> Path:
    """A certificate of the same authority that `murmur ca` did not make."""
    key, request = str(folder / KEY), str(folder / "request.pem")
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
    openssl("req", "-new", "-key", key, "-subj", "/O=murmuration/CN=root", "-out", request)
    ca = ["-CA", str(authority.ca / "authority.pem"), "-CAkey", str(authority.ca / "authority.key")]
    (folder / "extensions").write_text(
        "authorityKeyIdentifier=keyid\nsubjectKeyIdentifier=hash\nbasicConstraints=CA:FALSE\n"
    )
    given = [*ca, "-days", "9", "-extfile", str(folder / "extensions")]
    openssl("x509", "-req", "-in", request, *given, "-out", str(folder / CERTIFICATE))
    assert (folder / CERTIFICATE).exists()
    return folder


@pytest.mark.parametrize("kind", BAD)
def test_who_is_not_of_the_cluster_is_refused_with_a_sentence(
    authority: TestAuthority, kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls = make_bad(authority, kind, tmp_path)
    with caplog.at_level(logging.WARNING):
        assert talk(authority, tls) == ""
    assert [record.getMessage() for record in caplog.records if BAD[kind] in record.getMessage()]
    assert all(
        record.getMessage().startswith("a connection from 127.0.0.1") for record in caplog.records
    )
    assert not [record for record in caplog.records if record.exc_info]


def test_older_versions_of_tls_are_refused(
    authority: TestAuthority, caplog: pytest.LogCaptureFixture
) -> None:
    tls = unchecked(authority.folder / "n1")
    tls.maximum_version = ssl.TLSVersion.TLSv1_2
    with caplog.at_level(logging.WARNING):
        assert talk(authority, tls) == ""
    assert "the handshake of TLS failed (unsupported protocol)" in caplog.text


@pytest.mark.parametrize(
    "sent", [b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"\x00" * 100]
)
def test_what_is_no_handshake_harms_nobody(
    authority: TestAuthority, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def ask() -> None:
        async with serving(authority.folder / "m1") as address:
            reader, writer = await asyncio.open_connection(HOST, address.port)
            writer.write(sent)
            writer.write_eof()
            await asyncio.wait_for(reader.read(), LIMIT_S)
            writer.close()
            assert await greet(address, client_context(authority.folder / "n1")) == "n1 (agent)"

    with caplog.at_level(logging.WARNING):
        asyncio.run(ask())
    assert not [record for record in caplog.records if record.exc_info]


def test_a_flood_of_refusals_is_one_line(
    authority: TestAuthority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stranger = unchecked(TestAuthority(tmp_path).issue("n1", "agent"))

    async def ask() -> None:
        async with serving(authority.folder / "m1") as address:
            for _ in range(5):
                with contextlib.suppress(OSError):
                    assert await greet(address, stranger) == ""

    with caplog.at_level(logging.WARNING):
        asyncio.run(ask())
    assert len(caplog.records) == 1


def test_handshakes_that_never_end_make_room(
    authority: TestAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKES_MAX", 3)

    async def ask() -> list[bytes]:
        async with serving(authority.folder / "m1") as address:
            silent = [await asyncio.open_connection(HOST, address.port) for _ in range(4)]
            # The first of them is closed though it has not ended its handshake.
            first = await asyncio.wait_for(silent[0][0].read(), LIMIT_S)
            assert await greet(address, client_context(authority.folder / "n1")) == "n1 (agent)"
            for _, writer in silent:
                writer.close()
            return [first]

    assert asyncio.run(ask()) == [b""]


def test_what_comes_with_the_end_of_the_handshake_is_not_lost(authority: TestAuthority) -> None:
    """A client may send at once, before the server has looked at its certificate."""
    context = client_context(authority.folder / "n1")

    def speak(address: Address) -> bytes:
        with dial(address, LIMIT_S, context) as line:
            line.sendall(b"x" * 100_000)
            heard = b""
            while len(heard) < len("n1 (agent)\n") + 100_000 and (part := line.recv(65536)):
                heard += part
            return heard

    async def ask() -> bytes:
        async with serving(authority.folder / "m1") as address:
            return await asyncio.to_thread(speak, address)

    assert asyncio.run(ask()) == b"n1 (agent)\n" + b"x" * 100_000


def test_what_comes_in_one_piece_with_the_end_of_the_handshake_is_not_lost(
    authority: TestAuthority,
) -> None:
    """The last bytes of the handshake and the first of the client in one segment: the server reads
    both before it knows who is there."""
    context = unchecked(authority.folder / "n1")

    def speak(address: Address) -> bytes:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing)
        with socket.create_connection((HOST, address.port), LIMIT_S) as line:
            while not shake(tls):
                line.sendall(outgoing.read())
                incoming.write(line.recv(65536))
            tls.write(b"first words")
            line.sendall(outgoing.read())
            heard = b""
            while not heard.endswith(b"first words"):
                with contextlib.suppress(ssl.SSLWantReadError):
                    heard += tls.read(65536)
                    continue
                incoming.write(line.recv(65536))
        return heard

    async def ask() -> bytes:
        async with serving(authority.folder / "m1") as address:
            return await asyncio.to_thread(speak, address)

    assert asyncio.run(ask()) == b"n1 (agent)\nfirst words"


def shake(tls: ssl.SSLObject) -> bool:
    """A step of a handshake; whether it was the last."""
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


# What a client refuses.


@pytest.fixture
def plain_server() -> Iterator[Any]:
    """Starts servers with any certificate, also those that ours refuse to start with."""

    async def ask(folder: Path, tls: ssl.SSLContext, host: str = HOST) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / CERTIFICATE, folder / KEY)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Echo, HOST, 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        try:
            for reach in (reach_by_loop, reach_by_socket):
                with pytest.raises(InputError) as caught:
                    await reach(Address(host, port), tls)
                sentences.append(str(caught.value))
        finally:
            server.close()

    sentences: list[str] = []
    yield lambda *given: asyncio.run(ask(*given)) or sentences


async def reach_by_loop(address: Address, tls: ssl.SSLContext) -> None:
    await connect(asyncio.get_running_loop(), Listener, address, tls)


async def reach_by_socket(address: Address, tls: ssl.SSLContext) -> None:
    (await asyncio.to_thread(dial, address, LIMIT_S, tls)).close()


@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        ("a foreign authority", "another authority signed it"),
        ("expired", "it has expired"),
        ("revoked", "it was revoked"),
        ("not a master", "only the certificate of a master may listen"),
        ("another address", "it was not issued for the address that was asked for"),
        ("another name", "it was not issued for the name that was asked for"),
    ],
)
def test_a_false_master_is_refused_with_a_sentence(
    authority: TestAuthority, plain_server: Any, kind: str, sentence: str, tmp_path: Path
) -> None:
    client, host = authority.issue("c", "operator", to=f"client-{kind}"), HOST
    match kind:
        case "a foreign authority":
            folder = TestAuthority(tmp_path).issue("m1", "master")
        case "expired":
            folder = authority.issue("m2", "master", to="m2-old", days=5, days_ago=6)
        case "revoked":
            folder = authority.issue("m3", "master")
            authority.revoke("m3", client)
        case "not a master":
            folder = authority.issue("n4", "agent", HOST)
        case _:
            folder = authority.issue("m4", "master", "10.9.9.9", to=f"m4-{kind}")
            remove_own_host(authority, folder, tmp_path)
            host = HOST if kind == "another address" else "localhost"
    for said in plain_server(folder, client_context(client), host):
        assert said.startswith(f"{host}:") and said.endswith(sentence)


def remove_own_host(authority: TestAuthority, folder: Path, scratch: Path) -> None:
    """The certificate of a master on another host alone: ours are good for their own host too."""
    made = openssl("x509", "-in", str(folder / CERTIFICATE), "-noout", "-ext", "subjectAltName")
    assert HOST in made
    (scratch / "extensions").write_text(
        "subjectAltName=IP:10.9.9.9\nauthorityKeyIdentifier=keyid\n"
        "subjectKeyIdentifier=hash\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n"
    )
    request = str(scratch / "request.pem")
    named = ["-subj", "/O=murmuration/OU=master/CN=localhost", "-out", request]
    openssl("req", "-new", "-key", str(folder / KEY), *named)
    ca = ["-CA", str(authority.ca / "authority.pem"), "-CAkey", str(authority.ca / "authority.key")]
    given = [*ca, "-days", "9", "-extfile", str(scratch / "extensions")]
    openssl("x509", "-req", "-in", request, *given, "-out", str(folder / CERTIFICATE))


class HangUp(asyncio.Protocol):
    """A server that ends every connection as soon as it knows who is there."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


def test_a_master_that_hangs_up_is_a_sentence_for_clients(
    authority: TestAuthority, tmp_path: Path
) -> None:
    """Whether it is noticed while sending or while reading."""
    shutil.copytree(authority.folder / "anna", tmp_path / TLS)

    def ask(count: int) -> list[str]:
        sentences = []
        for _ in range(count):
            with pytest.raises(InputError) as caught:
                ApiClient(tmp_path).post("jobs", body={"name": "x" * 1_000_000})
            sentences.append(str(caught.value))
            with pytest.raises((InputError, ConnectionError)):
                OfferScheduler("mine", tmp_path)
        return sentences

    async def serve() -> list[str]:
        tls = server_context(authority.folder / "m1")
        server, address = await listen(asyncio.get_running_loop(), HangUp, HOST, [0], tls)
        await FolderDirectory(tmp_path).announce(Leader(address, address, 1))
        try:
            return await asyncio.to_thread(ask, 10)
        finally:
            server.close()

    for sentence in asyncio.run(serve()):
        assert "its log says why" in sentence or "no cluster runs here" in sentence


# Where one may listen.


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.1.2.3", "192.0.2.1"])
def test_nothing_listens_beyond_loopback_without_certificates(host: str) -> None:
    async def ask() -> None:
        await listen(asyncio.get_running_loop(), Echo, host, [0])

    with pytest.raises(InputError, match="nothing listens there without certificates"):
        asyncio.run(ask())


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_needs_no_certificates(host: str) -> None:
    check_loopback(host)


def test_with_certificates_every_address_may_be_listened_to(authority: TestAuthority) -> None:
    async def ask() -> str:
        async with serving(authority.folder / "m1", "0.0.0.0") as address:
            there = Address(HOST, address.port)
            return await greet(there, client_context(authority.folder / "n1"))

    assert asyncio.run(ask()) == "n1 (agent)"


# What a connection takes.


def test_a_connection_takes_little_memory(authority: TestAuthority) -> None:
    """asyncio's own buffer of 256 KiB for each end would be 512 KiB for a pair."""
    pairs = 8

    async def measure() -> float:
        async with serving(authority.folder / "m1") as address:
            tls, loop = client_context(authority.folder / "n1"), asyncio.get_running_loop()
            warm = await connect(loop, Listener, address, tls)
            tracemalloc.start()
            try:
                before = tracemalloc.get_traced_memory()[0]
                clients = [await connect(loop, Listener, address, tls) for _ in range(pairs)]
                for client in clients:
                    await asyncio.wait_for(client.lines.wait(), LIMIT_S)
                used = tracemalloc.get_traced_memory()[0] - before
            finally:
                tracemalloc.stop()
            for client in [warm, *clients]:
                client.transport.abort()
            return used / pairs

    assert asyncio.run(measure()) < 2 * 64 * 1024
