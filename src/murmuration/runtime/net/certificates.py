"""Certificates of the parts of a cluster: the folder each host has, the TLS contexts made of it,
and who the other side of a connection is.

A part's folder (`tls` in the folder of its cluster) has four files, all made by the authority
(`net/authority.py`): its certificate and key, the authority's certificate, and the list of revoked
certificates. A certificate names its owner (CN) and one role (OU). Both sides of every connection
show one, and both check the other's signature, dates and revocation.

What a role may do is decided at the doors, where a refusal is an answer with a sentence. One rule
is held by the handshake itself: only the certificate of a master is good for listening, so that the
key of a node is no use for posing as a master.

Only the standard library is needed here; making certificates needs more.
"""

from __future__ import annotations

import base64
import contextlib
import logging
import ssl
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from murmuration.base.errors import InputError
from murmuration.runtime.folder import check_own, check_secret
from murmuration.runtime.net.callers import AGENT as AGENT
from murmuration.runtime.net.callers import MASTER as MASTER
from murmuration.runtime.net.callers import OPERATOR as OPERATOR
from murmuration.runtime.net.callers import SUBMITTER as SUBMITTER
from murmuration.runtime.net.callers import VIEWER as VIEWER

if TYPE_CHECKING:
    from ssl import _PeerCertRetDictType as Certificate

AUTHORITY, CERTIFICATE, KEY, REVOKED = "authority.pem", "certificate.pem", "key.pem", "revoked.pem"
FILES = (AUTHORITY, CERTIFICATE, KEY, REVOKED)
#: What a certificate may be for. Masters listen; everybody connects.
ROLES = (MASTER, AGENT, OPERATOR, SUBMITTER, VIEWER)
#: What OpenSSL calls the reasons that an operator meets, in words that say what to do.
_REFUSALS = {
    3: f"no list of revoked certificates came with its authority ({REVOKED})",
    7: "it was not signed by this cluster's authority",
    9: "it is not valid yet; a clock may be wrong",
    10: "it has expired",
    11: "the list of revoked certificates is not valid yet; a clock may be wrong",
    12: "the list of revoked certificates has expired",
    18: "it was signed by itself",
    19: "another authority signed it",
    20: "another authority signed it",
    21: "another authority signed it",
    23: "it was revoked",
    26: "its role may not do this; only the certificate of a master may listen",
    62: "it was not issued for the name that was asked for",
    64: "it was not issued for the address that was asked for",
}
#: A certificate that ends within so many days is warned of; what was said of which.
SOON_DAYS, DAY_S = 30, 86400
_days_told: dict[Path, int] = {}
#: Turns of each side in a handshake in memory.
_TURNS_MAX = 4
#: How DER marks a sequence, and a length of several bytes.
_SEQUENCE, _LONG = 0x30, 0x80
_NO_CERTIFICATE = "PEER_DID_NOT_RETURN_A_CERTIFICATE"

Context = TypeVar("Context", bound=ssl.SSLContext)
log = logging.getLogger("murmuration.certificates")


class Identity(NamedTuple):
    """Whose certificate it is."""

    name: str
    role: str

    def __str__(self) -> str:
        return f"{self.name} ({self.role})"


def peer_identity(ssl_object: ssl.SSLObject | ssl.SSLSocket | None) -> Identity | None:
    """Who is at the other end of an encrypted connection; None if it is in clear text, or if no
    certificate with one name and one known role was shown."""
    certificate = None if ssl_object is None else ssl_object.getpeercert()
    return _identity_of(certificate) if certificate else None


def _identity_of(certificate: Certificate) -> Identity | None:
    fields: dict[str, list[str]] = {}
    for part in certificate.get("subject", ()):
        for pair in part:
            assert isinstance(pair, tuple)
            fields.setdefault(pair[0], []).append(pair[1])
    match fields.get("commonName"), fields.get("organizationalUnitName"):
        case [str(name)], [str(role)] if role in ROLES:
            return Identity(name, role)
    return None


def explain_refusal(error: Exception) -> str:
    """Why a handshake failed, in one sentence; empty if it was not because of a certificate."""
    if isinstance(error, ssl.SSLCertVerificationError):
        reason = _REFUSALS.get(error.verify_code, error.verify_message)
        return f"the other side's certificate was refused: {reason}"
    if isinstance(error, ssl.SSLError) and error.reason == _NO_CERTIFICATE:
        return "the other side showed no certificate"
    return ""


# Contexts.


def server_context(folder: Path) -> ServerContext:
    """For those who listen. Every handshake uses the files as they are then, so a renewed
    certificate and a longer list of revoked ones need no restart; while they cannot be read, the
    ones before are used."""
    identity = read_identity(folder)
    if identity.role != MASTER:
        raise InputError(
            f"{folder / CERTIFICATE}: expected the certificate of a {MASTER}, the only one that "
            f"may listen, got that of {identity}"
        )
    context = _load_server(folder)
    context.follow(folder)
    return context


def client_context(folder: Path) -> ssl.SSLContext:
    """For those who connect: the other side must be a master under the name it was called by."""
    read_identity(folder)
    return _load(folder, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))


def read_identity(folder: Path) -> Identity:
    """Whose certificate is in a folder. It is checked as others will check it: InputError if it has
    expired, was revoked or does not match its key."""
    check_files(folder)
    server = _load_server(folder)
    client = _load(folder, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    try:
        shown = _shake_hands(server, client)
        identity = peer_identity(shown)
    except ssl.SSLCertVerificationError as error:
        reason = _REFUSALS.get(error.verify_code, error.verify_message)
        raise InputError(
            f"{folder / CERTIFICATE}: expected a certificate that others accept, but {reason}; "
            "make another one with murmur ca issue"
        ) from error
    if identity is None:
        raise InputError(f"{folder / CERTIFICATE}: expected a certificate made by murmur ca issue")
    _warn_of_end(folder / CERTIFICATE, identity, shown.getpeercert() or {})
    return identity


def check_files(folder: Path) -> None:
    """InputError if a file is missing, somebody else can write it, or can read the key."""
    try:
        check_own(folder, folder.lstat())
        for name in FILES:
            seen = (folder / name).lstat()
            check_own(folder / name, seen, may_be_link=False)
            if not stat.S_ISREG(seen.st_mode):
                raise InputError(f"{folder / name}: expected a file")
        check_secret(folder / KEY, "issue another certificate and revoke this one")
    except OSError as error:
        sentence = (error.strerror or str(error)).lower()
        raise InputError(
            f"{error.filename}: {sentence}; expected {', '.join(FILES[:-1])} and {FILES[-1]}, as "
            "murmur ca issue writes them"
        ) from error


def _load(folder: Path, context: Context) -> Context:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF | ssl.VERIFY_X509_STRICT
    context.hostname_checks_common_name = False
    for name in (AUTHORITY, REVOKED):
        try:
            context.load_verify_locations(folder / name)
        except (ssl.SSLError, OSError) as error:
            raise InputError(f"{folder / name}: expected a file of murmur ca") from error
    try:
        # Without a password, OpenSSL would ask the terminal for that of an encrypted key.
        context.load_cert_chain(folder / CERTIFICATE, folder / KEY, password="")
    except (ssl.SSLError, OSError) as error:
        raise InputError(
            f"{folder / CERTIFICATE}: expected a certificate that belongs to {KEY} beside it"
        ) from error
    return context


def _load_server(folder: Path) -> ServerContext:
    context = _load(folder, ServerContext(ssl.PROTOCOL_TLS_SERVER))
    # A session cannot be resumed by asyncio's clients, and each ticket costs a signature.
    context.num_tickets = 0
    return context


def _shake_hands(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """A handshake of two contexts in memory; what the server has learned."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    # A full handshake takes each side two turns.
    for _ in range(_TURNS_MAX):
        for end in ends:
            with contextlib.suppress(ssl.SSLWantReadError):
                end.do_handshake()
    return ends[1]


class ServerContext(ssl.SSLContext):
    """The context of those who listen. It stands for the files of a folder as they are now."""

    def follow(self, folder: Path) -> None:
        """Use the files of a folder, and those that come in their place."""
        self._folder, self._stamp = folder, _stamp(folder)
        self._current: ssl.SSLContext = self
        self._revoked = _read_revoked(folder / REVOKED)
        self.sni_callback = self._choose

    def read_revoked(self) -> frozenset[int]:
        """The serial numbers of the certificates that are revoked now."""
        self._refresh()
        return self._revoked

    def _choose(
        self, ssl_object: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext
    ) -> None:
        """Called by OpenSSL at the start of each handshake, with or without a name."""
        self._refresh()
        ssl_object.context = self._current

    def _refresh(self) -> None:
        stamp = _stamp(self._folder)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            # This also checks who has signed the list of revoked certificates.
            read_identity(self._folder)
            revoked = _read_revoked(self._folder / REVOKED)
            self._current, self._revoked = _load_server(self._folder), revoked
            log.info("the certificates in %s were read again", self._folder)
        except (InputError, OSError) as error:
            log.warning("%s; the certificates of before are used", error)


def _read_revoked(path: Path) -> frozenset[int]:
    """The serial numbers in a list of revoked certificates. The standard library cannot read such a
    list, so this looks for them itself: they are the third sequence in the part that is signed, and
    missing in a list without entries (RFC 5280, 5.1)."""
    serials = set()
    try:
        encoded = "".join(path.read_text().split("-----")[2].split())
        (whole,) = _read_elements(base64.b64decode(encoded))
        signed = _read_elements(whole[1])[0][1]
        sequences = [content for tag, content in _read_elements(signed) if tag == _SEQUENCE]
        for _, entry in _read_elements(sequences[2]) if len(sequences) > 2 else ():
            serials.add(int.from_bytes(_read_elements(entry)[0][1], "big"))
    except (ValueError, IndexError) as error:
        raise InputError(f"{path}: expected a list of revoked certificates") from error
    return frozenset(serials)


def _read_elements(data: bytes) -> list[tuple[int, bytes]]:
    """Tag and content of each element in a row, as DER writes them."""
    at, elements = 0, []
    while at < len(data):
        tag, size, at = data[at], data[at + 1], at + 2
        if size & _LONG:
            digits = size & ~_LONG
            size, at = int.from_bytes(data[at : at + digits], "big"), at + digits
        if at + size > len(data):
            raise ValueError("an element is longer than what is there")
        elements.append((tag, data[at : at + size]))
        at += size
    return elements


def _warn_of_end(path: Path, identity: Identity, certificate: Certificate) -> None:
    """Say once a day that a certificate ends soon."""
    left = int((ssl.cert_time_to_seconds(str(certificate["notAfter"])) - time.time()) // DAY_S)
    if left < SOON_DAYS and _days_told.get(path) != left:
        _days_told[path] = left
        renew = f"murmur ca issue {identity.name} --renew"
        log.warning("%s: it ends in %d days; make another one with %s", path, left, renew)


def _stamp(folder: Path) -> tuple[tuple[int, ...], ...]:
    """What changes when a file of a folder does, and once a day."""
    stamps: list[tuple[int, ...]] = [(int(time.time() // DAY_S),)]
    for name in FILES:
        try:
            seen = (folder / name).stat()
            stamps.append((seen.st_mtime_ns, seen.st_size, seen.st_ino))
        except OSError:
            stamps.append((0, 0, 0))
    return tuple(stamps)
