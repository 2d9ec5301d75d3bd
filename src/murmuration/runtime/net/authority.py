"""The authority of a cluster: makes the certificates of its parts, and revokes them.

It is a folder, best kept on a host that runs no part of the cluster. There is no database beside
the certificates: what was issued are the files in `issued`, what was revoked is the list that all
hosts have too, so nothing here can disagree with what is in force.

    authority.key        signs; whoever has it can join the cluster as anybody
    authority.pem        the authority's certificate, on every host
    revoked.pem          the list of revoked certificates, on every host
    issued/SERIAL.pem    every certificate that was made, without its key

Nobody but `murmur ca` imports this: the parts of a cluster need no library to use certificates.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from murmuration.base.errors import InputError, unknown
from murmuration.base.extras import install_hint
from murmuration.runtime.folder import check_own, check_secret, write_private
from murmuration.runtime.locks import hold
from murmuration.runtime.net.certificates import (
    AUTHORITY,
    CERTIFICATE,
    KEY,
    MASTER,
    REVOKED,
    ROLES,
)
from murmuration.runtime.options import AUTHORITY_DAYS, CERTIFICATE_DAYS, DAYS_MAX
from murmuration.workload.job_spec import NAME

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError as error:
    raise InputError(
        f"certificates are made with the package cryptography; {install_hint('hosts')}"
    ) from error

AUTHORITY_KEY, ISSUED, LOCK = "authority.key", "issued", "lock"
#: Everything is valid from so long before it was made, for hosts whose clocks are slow.
CLOCK_SKEW = datetime.timedelta(hours=2)
#: A master is also called from its own host.
OWN_HOST = ("localhost", "127.0.0.1", "::1")
_LABEL = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)")
_HOST_MAX, _ADDRESSES_MAX = 253, 100


class CertificateOrder(NamedTuple):
    """A certificate that is wanted: whose, for what, under which names and addresses of hosts."""

    name: str
    role: str
    addresses: tuple[str, ...] = ()
    days: int = CERTIFICATE_DAYS


class IssuedCertificate(NamedTuple):
    """A certificate that was made."""

    name: str
    role: str
    addresses: tuple[str, ...]
    serial: str
    begins: datetime.datetime
    ends: datetime.datetime
    revoked: bool

    def state(self, now: datetime.datetime) -> str:
        if self.revoked:
            return "revoked"
        return "valid" if now < self.ends else "expired"


def current_time() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC).replace(microsecond=0)


def create_authority(
    folder: Path, days: int = AUTHORITY_DAYS, now: datetime.datetime | None = None
) -> None:
    """A new authority in a folder that is empty or not there yet."""
    now = now or current_time()
    _check_days(days)
    if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: expected an empty folder, or none, for a new authority")
    key = ec.generate_private_key(ec.SECP256R1())
    # Each authority has a name of its own, so that a certificate of another one is called just
    # that, and not one with a wrong signature.
    subject = _make_name("authority", f"murmuration {x509.random_serial_number():x}"[:40])
    builder = _begin(subject, key.public_key(), now, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(is_authority=True), critical=True)
    certificate = _sign(builder, subject, key)
    with _name_file(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / ISSUED).mkdir(mode=0o700)
        revoked = _build_revoked(certificate, key, [], 1, now)
        # The key is last: a folder without one is no authority, and can be removed without loss.
        write_private(folder / REVOKED, _pem(revoked))
        write_private(folder / AUTHORITY, _pem(certificate))
        write_private(folder / AUTHORITY_KEY, _key_text(key))


def issue_certificate(
    folder: Path, order: CertificateOrder, to: Path, now: datetime.datetime | None = None
) -> IssuedCertificate:
    """Make a key and a certificate, and with them all that its host needs, in the new folder
    `to`."""
    now = now or current_time()
    _check_order(order)
    if os.path.lexists(to):
        raise InputError(f"{to}: expected a folder that is not there yet")
    with _name_file(folder), _lock(folder):
        authority = Authority(folder)
        left = (authority.certificate.not_valid_after_utc - now).days
        if order.days > left:
            raise InputError(
                f"{order.name}: expected at most {max(left, 0)} days, as many as the authority in "
                f"{folder} has left, got {order.days}"
            )
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _begin(_make_name(order.role, order.name), key.public_key(), now, order.days)
        certificate = authority.sign(_add_uses(builder, order))
        record = folder / ISSUED / f"{certificate.serial_number:x}.pem"
        # Recorded before it can be used: one that nobody knows of could not be revoked.
        write_private(record, _pem(certificate))
        try:
            _write_bundle(to, authority, _pem(certificate), _key_text(key))
        except BaseException:
            record.unlink()
            raise
    return _describe(certificate, frozenset())


def revoke_certificate(
    folder: Path, name: str, now: datetime.datetime | None = None
) -> list[IssuedCertificate]:
    """Revoke the certificate with a serial number, or every valid one of a name, and write the list
    of all that are revoked; the ones that became so."""
    now = now or current_time()
    with _name_file(folder), _lock(folder):
        authority = Authority(folder)
        issued = authority.list_issued()
        named = [each for each in issued if name in (each.name, each.serial)]
        if not named:
            raise unknown("certificate", name, {each.name for each in issued})
        chosen = [each for each in named if each.state(now) == "valid"]
        if not chosen:
            raise InputError(f"{name}: its certificate is {named[-1].state(now)} already")
        authority.add_revoked([int(each.serial, 16) for each in chosen], now)
    return [each._replace(revoked=True) for each in chosen]


def list_certificates(folder: Path) -> list[IssuedCertificate]:
    """Every certificate that was made, by name, the oldest first."""
    with _name_file(folder):
        return Authority(folder).list_issued()


class Authority:
    """An authority that exists, with its key."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        if not (folder / AUTHORITY_KEY).exists():
            raise InputError(f"{folder}: no authority is here; make one with murmur ca init")
        for path in (folder, folder / AUTHORITY_KEY, folder / AUTHORITY, folder / REVOKED):
            check_own(path, path.lstat(), may_be_link=False)
        check_secret(folder / AUTHORITY_KEY, "its certificates are worth nothing any more")
        self.certificate = _read_certificate(folder / AUTHORITY)
        try:
            data = (folder / REVOKED).read_bytes()
            self.revoked = x509.load_pem_x509_crl(data)
        except ValueError as error:
            raise _explain_damage(folder / REVOKED, "a list of revoked certificates") from error
        try:
            data = (folder / AUTHORITY_KEY).read_bytes()
            key = serialization.load_pem_private_key(data, None)
        except (ValueError, TypeError) as error:
            raise _explain_damage(folder / AUTHORITY_KEY, "a key") from error
        if key.public_key() != self.certificate.public_key():
            raise _explain_damage(folder / AUTHORITY_KEY, f"the key of {AUTHORITY}")
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        self._key = key

    def sign(self, builder: x509.CertificateBuilder) -> x509.Certificate:
        return _sign(builder, self.certificate.subject, self._key)

    def list_issued(self) -> list[IssuedCertificate]:
        revoked = frozenset(each.serial_number for each in self.revoked)
        paths = (self._folder / ISSUED).glob("*.pem")
        issued = [_describe(_read_certificate(path), revoked) for path in paths]
        return sorted(issued, key=lambda each: (each.name, each.begins, each.serial))

    def add_revoked(self, serials: Sequence[int], now: datetime.datetime) -> None:
        """Write the list with these in it too."""
        number = self.revoked.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
        builder = x509.RevokedCertificateBuilder().revocation_date(now)
        added = [builder.serial_number(serial).build() for serial in serials]
        entries = [*self.revoked, *added]
        self.revoked = _build_revoked(self.certificate, self._key, entries, number + 1, now)
        write_private(self._folder / REVOKED, _pem(self.revoked))

    def public_files(self) -> dict[str, str]:
        """What every host needs besides its own certificate."""
        return {AUTHORITY: _pem(self.certificate), REVOKED: _pem(self.revoked)}


# What may be ordered.


def _check_order(order: CertificateOrder) -> None:
    if order.role not in ROLES:
        raise unknown("role", order.role, ROLES)
    if not NAME.fullmatch(order.name):
        raise InputError(
            "expected a name of up to 63 letters, digits, - and _, no sign in front, got "
            f"{order.name[:70]!r}"
        )
    _check_days(order.days)
    if order.role == MASTER and not order.addresses:
        raise InputError(
            f"{order.name}: expected at least one name or address under which other hosts reach "
            "this master, as --address"
        )
    if len(order.addresses) > _ADDRESSES_MAX:
        raise InputError(f"{order.name}: expected at most {_ADDRESSES_MAX} addresses")


def _check_days(days: int) -> None:
    if not 1 <= days <= DAYS_MAX:
        raise InputError(f"expected from 1 to {DAYS_MAX} days, got {days}")


def _parse_host(text: str) -> x509.GeneralName:
    """An IP address, or the name of a host."""
    with contextlib.suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(text))
    labels = text.split(".")
    # A last label of digits is an address with a mistake, never a name.
    if len(text) > _HOST_MAX or not all(map(_LABEL.fullmatch, labels)) or labels[-1].isdigit():
        raise InputError(
            "--address: expected the name of a host or an IP address, without a port, got "
            f"{text[:80]!r}"
        )
    return x509.DNSName(text)


# Certificates.


def _make_name(role: str, name: str) -> x509.Name:
    fields = (
        (NameOID.ORGANIZATION_NAME, "murmuration"),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, role),
        (NameOID.COMMON_NAME, name),
    )
    return x509.Name([x509.NameAttribute(key, value) for key, value in fields])


def _begin(
    subject: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime.datetime, days: int
) -> x509.CertificateBuilder:
    """What every certificate has."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _add_uses(builder: x509.CertificateBuilder, order: CertificateOrder) -> x509.CertificateBuilder:
    """What the certificate of a part may be used for, and under which addresses. That only masters
    may listen is said here, and checked by every client's handshake."""
    uses = [ExtendedKeyUsageOID.CLIENT_AUTH]
    addresses = order.addresses
    if order.role == MASTER:
        uses.append(ExtendedKeyUsageOID.SERVER_AUTH)
        addresses += OWN_HOST
    hosts = list(dict.fromkeys(map(_parse_host, addresses)))
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    return (
        builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
    )


def _key_usage(is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _sign(
    builder: x509.CertificateBuilder, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
    builder = builder.issuer_name(issuer).add_extension(identifier, critical=False)
    return builder.sign(key, hashes.SHA256())


def _build_revoked(
    certificate: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
    entries: Sequence[x509.RevokedCertificate],
    number: int,
    now: datetime.datetime,
) -> x509.CertificateRevocationList:
    """The list of revoked certificates. It is valid as long as the authority: one that ran out
    would stop every connection of a cluster in which nothing was wrong."""
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(certificate.subject)
        .last_update(now - CLOCK_SKEW)
        .next_update(certificate.not_valid_after_utc)
        .add_extension(x509.CRLNumber(number), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False
        )
    )
    for entry in entries:
        builder = builder.add_revoked_certificate(entry)
    return builder.sign(key, hashes.SHA256())


def _describe(certificate: x509.Certificate, revoked: frozenset[int]) -> IssuedCertificate:
    def field(key: x509.ObjectIdentifier) -> str:
        return str(certificate.subject.get_attributes_for_oid(key)[0].value)

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        addresses = tuple(str(host.value) for host in names)
    except x509.ExtensionNotFound:
        addresses = ()
    return IssuedCertificate(
        name=field(NameOID.COMMON_NAME),
        role=field(NameOID.ORGANIZATIONAL_UNIT_NAME),
        addresses=addresses,
        serial=f"{certificate.serial_number:x}",
        begins=certificate.not_valid_before_utc,
        ends=certificate.not_valid_after_utc,
        revoked=certificate.serial_number in revoked,
    )


# Files.


def _pem(value: x509.Certificate | x509.CertificateRevocationList) -> str:
    return value.public_bytes(serialization.Encoding.PEM).decode()


def _key_text(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def _read_certificate(path: Path) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(path.read_bytes())
    except ValueError as error:
        raise _explain_damage(path, "a certificate") from error


def _explain_damage(path: Path, what: str) -> InputError:
    return InputError(f"{path}: expected {what} as murmur ca writes it; the file is damaged")


def _write_bundle(to: Path, authority: Authority, certificate: str, key: str) -> None:
    """All files of a host, in a folder that is there whole or not at all."""
    beside = to.with_name(f".{to.name}.{os.getpid()}")
    try:
        beside.mkdir(mode=0o700, parents=True)
        files = {**authority.public_files(), CERTIFICATE: certificate, KEY: key}
        for name, text in files.items():
            write_private(beside / name, text)
        beside.rename(to)
    except OSError as error:
        raise InputError(f"{to}: {(error.strerror or str(error)).lower()}") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


@contextlib.contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """One command at a time changes an authority."""
    if not (folder / AUTHORITY_KEY).exists():
        raise InputError(f"{folder}: no authority is here; make one with murmur ca init")
    descriptor = hold(folder / LOCK, "murmur ca")
    try:
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _name_file(folder: Path) -> Iterator[None]:
    """What the system refuses becomes a sentence that names the file."""
    try:
        yield
    except OSError as error:
        place = error.filename or folder
        raise InputError(f"{place}: {(error.strerror or str(error)).lower()}") from error
