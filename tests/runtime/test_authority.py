"""The authority of a cluster. The oracle is OpenSSL's own command: it verifies what was made, with
the list of revoked certificates, and prints what is in it."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.runtime.authorities import TestAuthority, openssl

from murmuration.base.errors import InputError
from murmuration.runtime.net import authority as subject
from murmuration.runtime.net.authority import CertificateOrder
from murmuration.runtime.net.certificates import CERTIFICATE, FILES, KEY, REVOKED, ROLES

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    return TestAuthority(tmp_path_factory.mktemp("authority"))


def show(path: Path) -> str:
    return openssl("x509", "-in", str(path), "-noout", "-text")


@pytest.mark.parametrize("role", ROLES)
def test_openssl_accepts_every_role_as_a_client_and_masters_as_servers(
    authority: TestAuthority, role: str
) -> None:
    folder = authority.issue(f"any-{role}", role)
    assert authority.verify(folder, "-purpose", "sslclient").endswith("OK\n")
    as_server = authority.verify(folder, "-purpose", "sslserver")
    assert as_server.endswith("OK\n") == (role == "master")
    assert role == "master" or "unsuitable certificate purpose" in as_server
    assert f"Subject: O = murmuration, OU = {role}, CN = any-{role}\n" in show(folder / CERTIFICATE)


def test_what_a_certificate_says(authority: TestAuthority) -> None:
    folder = authority.issue("m7", "master", "10.1.2.3", "m7.example.org", "fd00::7", days=12)
    text = show(folder / CERTIFICATE)
    assert "IP Address:10.1.2.3, DNS:m7.example.org, IP Address:FD00:0:0:0:0:0:0:7" in text
    assert "DNS:localhost" in text and "CA:FALSE" in text and "NIST CURVE: P-256" in text
    for host, matches in {"10.1.2.3": True, "127.0.0.1": True, "10.1.2.4": False}.items():
        assert authority.verify(folder, "-verify_ip", host).endswith("OK\n") == matches
    for host, matches in {"m7.example.org": True, "m7": False, "x.example.org": False}.items():
        assert authority.verify(folder, "-verify_hostname", host).endswith("OK\n") == matches
    # `-checkend` counts seconds from now: still valid after 11 days, no more after 13.
    for days, words in {11: "will not expire", 13: "will expire"}.items():
        path = str(folder / CERTIFICATE)
        assert words in openssl("x509", "-in", path, "-checkend", str(86400 * days))


def test_a_certificate_cannot_sign_another(authority: TestAuthority) -> None:
    """One that is used as an authority is refused by everybody who trusts the real one."""
    folder = authority.issue("sneaky", "operator")
    forged = authority.folder / "forged"
    forged.mkdir()
    key, request = str(forged / KEY), str(forged / "request.pem")
    openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
    openssl("req", "-new", "-key", key, "-subj", "/O=murmuration/OU=master/CN=m", "-out", request)
    given = ["-in", request, "-CA", str(folder / CERTIFICATE), "-CAkey", str(folder / KEY)]
    openssl("x509", "-req", *given, "-days", "9", "-out", str(forged / CERTIFICATE))
    assert (forged / CERTIFICATE).exists()
    said = authority.verify(forged, "-untrusted", str(folder / CERTIFICATE))
    assert "verification failed" in said and "OK\n" not in said


def test_keys_are_the_owners_alone_and_leave_no_trace(authority: TestAuthority) -> None:
    folder = authority.issue("private", "agent")
    assert sorted(os.listdir(folder)) == sorted(FILES)
    for path in (folder, authority.ca, authority.ca / "issued"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    for path in (*folder.iterdir(), *authority.ca.glob("*.*")):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path
    key = (folder / KEY).read_text()
    assert "PRIVATE KEY" in key
    kept = [path for path in authority.ca.rglob("*") if path.is_file()]
    assert not [path for path in kept if key in path.read_text()]
    public = openssl("x509", "-in", str(folder / CERTIFICATE), "-noout", "-pubkey")
    assert openssl("pkey", "-in", str(folder / KEY), "-pubout") == public


def test_revoked_certificates_are_refused_and_stay_so(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    folders = [authority.issue(f"n{k}", "agent") for k in range(3)]
    authority.revoke("n0")
    authority.revoke("n2")
    revoked = [authority.verify(folder) for folder in folders]
    assert ["certificate revoked" in said for said in revoked] == [True, False, True]
    assert revoked[1].endswith("OK\n")
    text = openssl("crl", "-in", str(authority.ca / REVOKED), "-noout", "-text")
    assert text.count("Serial Number:") == 2
    # The first list has number 1; each revocation made another.
    assert "X509v3 CRL Number: \n                3\n" in text
    states = {each.name: each.revoked for each in subject.list_certificates(authority.ca)}
    assert states == {"n0": True, "n1": False, "n2": True}
    with pytest.raises(InputError, match="n0: its certificate is revoked already"):
        authority.revoke("n0")


def test_one_of_two_certificates_of_a_name_is_revoked_by_its_serial(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    old, new = authority.issue("n1", "agent", days_ago=1), authority.issue("n1", "agent", to="new")
    first, _ = subject.list_certificates(authority.ca)
    printed = openssl("x509", "-in", str(old / CERTIFICATE), "-noout", "-serial")
    assert int(printed.partition("=")[2], 16) == int(first.serial, 16)
    authority.revoke(first.serial)
    assert "certificate revoked" in authority.verify(old)
    assert authority.verify(new).endswith("OK\n")


def test_the_list_of_revoked_certificates_does_not_run_out_before_the_authority(
    tmp_path: Path,
) -> None:
    authority = TestAuthority(tmp_path, days=3000, days_ago=2000)
    folder = authority.issue("n1", "agent", days=900)
    # 800 days from now the list is 2,800 days old, and still good.
    assert authority.verify(folder, "-attime", str(in_days(800))).endswith("OK\n")
    assert "certificate has expired" in authority.verify(folder, "-attime", str(in_days(950)))


def in_days(days: float) -> int:
    return int(subject.current_time().timestamp() + 86400 * days)


def test_a_host_whose_clock_is_an_hour_slow_accepts_what_was_just_made(
    authority: TestAuthority,
) -> None:
    folder = authority.issue("punctual", "agent")
    assert authority.verify(folder, "-attime", str(in_days(-1 / 24))).endswith("OK\n")
    assert "not yet valid" in authority.verify(folder, "-attime", str(in_days(-1)))


def test_no_certificate_outlives_its_authority(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path, days=100, days_ago=90)
    with pytest.raises(InputError, match=r"n1: expected at most 10 days, .* got 11"):
        authority.issue("n1", "agent", days=11)
    assert authority.verify(authority.issue("n1", "agent", days=10)).endswith("OK\n")


@pytest.mark.parametrize(
    ("order", "sentence"),
    [
        (CertificateOrder("a", "agnt"), "unknown role 'agnt'; did you mean 'agent'"),
        (CertificateOrder("a b", "agent"), "expected a name"),
        (CertificateOrder("a", "agent", days=0), "expected from 1 to 36500 days, got 0"),
        (CertificateOrder("a", "master"), "expected at least one name or address"),
        (CertificateOrder("a", "master", ("10.0.0.300",)), "expected the name of a host"),
        (CertificateOrder("a", "master", ("10.0.0.1:80",)), "without a port"),
        (CertificateOrder("a", "master", ("*.example.org",)), "expected the name of a host"),
        (CertificateOrder("a", "master", ("",)), "expected the name of a host"),
        (CertificateOrder("a", "master", ("a",) * 101), "at most 100 addresses"),
    ],
)
def test_bad_orders_are_refused_and_leave_nothing(
    authority: TestAuthority, order: CertificateOrder, sentence: str
) -> None:
    before = sorted((authority.ca / "issued").iterdir())
    with pytest.raises(InputError, match=sentence):
        subject.issue_certificate(authority.ca, order, authority.folder / "bad")
    assert not (authority.folder / "bad").exists()
    assert sorted((authority.ca / "issued").iterdir()) == before


def test_nothing_is_overwritten(authority: TestAuthority) -> None:
    folder = authority.issue("once", "agent")
    before = (folder / KEY).read_text()
    with pytest.raises(InputError, match="expected a folder that is not there yet"):
        authority.issue("once", "agent")
    assert (folder / KEY).read_text() == before
    with pytest.raises(InputError, match="expected an empty folder"):
        subject.create_authority(authority.ca)
    with pytest.raises(InputError, match="expected an empty folder"):
        subject.create_authority(folder / KEY)


def test_a_place_that_cannot_be_written_leaves_no_certificate_behind(
    authority: TestAuthority,
) -> None:
    """A certificate that was recorded and never handed out would look like one in use."""
    (authority.folder / "file").write_text("")
    before = subject.list_certificates(authority.ca)
    order = CertificateOrder("stray", "agent")
    with pytest.raises(InputError, match="file/x: not a directory"):
        subject.issue_certificate(authority.ca, order, authority.folder / "file" / "x")
    assert subject.list_certificates(authority.ca) == before


@pytest.mark.parametrize("name", ["authority.key", "authority.pem", "revoked.pem"])
def test_a_damaged_authority_says_which_file(tmp_path: Path, name: str) -> None:
    authority = TestAuthority(tmp_path)
    (authority.ca / name).write_text("nothing\n")
    with pytest.raises(InputError, match=f"{name}: expected .* the file is damaged"):
        authority.issue("n1", "agent")
    (authority.ca / name).unlink()
    with pytest.raises(InputError, match=r"no such file|no authority is here"):
        authority.issue("n1", "agent")


def test_an_authority_with_anothers_key_is_refused(tmp_path: Path) -> None:
    authority, other = TestAuthority(tmp_path / "a"), TestAuthority(tmp_path / "b")
    shutil.copy(other.ca / "authority.key", authority.ca / "authority.key")
    with pytest.raises(InputError, match=r"authority.key: expected the key of authority.pem"):
        authority.issue("n1", "agent")


def test_an_authority_whose_key_others_can_read_is_refused(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    (authority.ca / "authority.key").chmod(0o644)
    with pytest.raises(InputError, match=r"authority\.key: expected mode 600, got 644"):
        authority.issue("n1", "agent")


#: Names as people write them, and as nobody should.
NAMES = st.one_of(
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", fullmatch=True), st.text(max_size=80)
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(name=NAMES)
def test_a_name_is_refused_or_is_exactly_the_certificates(
    authority: TestAuthority, name: str
) -> None:
    plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    allowed = 0 < len(name) < 64 and name[0] in plain and set(name) <= {*plain, "-", "_"}
    target = authority.folder / "drawn"
    shutil.rmtree(target, ignore_errors=True)
    try:
        subject.issue_certificate(authority.ca, CertificateOrder(name, "agent"), target)
    except InputError:
        assert not allowed and not target.exists()
        return
    assert allowed
    path = str(target / CERTIFICATE)
    shown = openssl("x509", "-in", path, "-noout", "-subject", "-nameopt", "utf8,sep_multiline")
    assert shown.splitlines()[1:] == ["    O=murmuration", "    OU=agent", f"    CN={name}"]
