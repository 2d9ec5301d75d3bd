"""Authorities and certificates for tests, and what OpenSSL says of them."""

from __future__ import annotations

import datetime
import shutil
import subprocess
from pathlib import Path

from murmuration.runtime.net.authority import (
    CertificateOrder,
    create_authority,
    current_time,
    issue_certificate,
    revoke_certificate,
)
from murmuration.runtime.net.certificates import AUTHORITY, CERTIFICATE, REVOKED


class TestAuthority:
    """An authority in a folder, and the certificates it has made beside it."""

    __test__ = False

    def __init__(self, folder: Path, days: int = 3650, days_ago: int = 0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.ca = folder, folder / "ca"
        self._made = current_time() - datetime.timedelta(days=days_ago)
        create_authority(self.ca, days, self._made)

    def issue(
        self, name: str, role: str, *addresses: str, days: int = 60, to: str = "", days_ago: int = 0
    ) -> Path:
        """The folder of a new certificate. Masters are on this host unless they say otherwise."""
        reached = addresses or (("127.0.0.1",) if role == "master" else ())
        target = self.folder / (to or name)
        now = current_time() - datetime.timedelta(days=days_ago)
        issue_certificate(self.ca, CertificateOrder(name, role, reached, days), target, now)
        return target

    def revoke(self, name: str, *copy_to: Path) -> None:
        revoke_certificate(self.ca, name)
        for folder in copy_to:
            shutil.copy(self.ca / REVOKED, folder / REVOKED)

    def verify(self, folder: Path, *arguments: str) -> str:
        """What `openssl verify` says of a certificate, with the list of revoked ones."""
        given = ["-x509_strict", "-crl_check", "-CAfile", str(self.ca / AUTHORITY)]
        given += ["-CRLfile", str(self.ca / REVOKED), *arguments]
        return openssl("verify", *given, str(folder / CERTIFICATE))


def openssl(*arguments: str) -> str:
    """What the command says, on either stream and with any exit code."""
    ran = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr
