"""Who we are to an API server: a token, one in a file that is renewed, or what a program prints."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Protocol

import msgspec

from murmuration.base.errors import InputError
from murmuration.base.files import why_failed

#: A token in a file is read again after this long: the kubelet renews it long before it ends.
REREAD_S = 60.0
#: A program that says who we are must have answered by then.
EXEC_S = 60.0
#: A credential is renewed this long before it ends.
EARLY_S = 30.0


class ApiCredentials(Protocol):
    """What stands in the header `authorization`."""

    def header(self) -> str | None:
        """Its value now; None if a certificate alone says who we are."""

    def renew(self) -> bool:
        """The server refused it: forget it; False if the next one would be the same."""


@dataclass
class Fixed:
    """A token or a password that never changes."""

    value: str | None = None

    def header(self) -> str | None:
        return self.value

    def renew(self) -> bool:
        return False


@dataclass
class TokenFile:
    """A token in a file."""

    path: Path
    _token: str = ""
    _read_s: float = float("-inf")

    def header(self) -> str | None:
        if time.monotonic() - self._read_s > REREAD_S:
            try:
                self._token = self.path.read_text().strip()
            except OSError as error:
                raise InputError(f"{self.path}: cannot be read ({why_failed(error)})") from None
            self._read_s = time.monotonic()
        return f"Bearer {self._token}"

    def renew(self) -> bool:
        before, self._read_s = self._token, float("-inf")
        return self.header() != f"Bearer {before}"


class _ExecStatus(msgspec.Struct):
    token: str = ""
    clientCertificateData: str = ""  # noqa: N815 - names of the API
    clientKeyData: str = ""  # noqa: N815
    expirationTimestamp: str | None = None  # noqa: N815


class _ExecCredential(msgspec.Struct):
    status: _ExecStatus


@dataclass
class Program:
    """What a program prints (`users[].user.exec` of a kubeconfig), until it ends."""

    command: Sequence[str]
    environment: Mapping[str, str]
    version: str
    hint: str = ""
    #: What is told to a program that wants to know of the cluster.
    cluster: Mapping[str, object] | None = None
    _status: _ExecStatus | None = None
    _ends_s: float = field(default=float("-inf"))

    def status(self) -> _ExecStatus:
        if self._status is None or time.time() > self._ends_s - EARLY_S:
            self._status = self._run()
            ends = self._status.expirationTimestamp
            self._ends_s = float("inf") if ends is None else _seconds(ends)
        return self._status

    def header(self) -> str | None:
        token = self.status().token
        return f"Bearer {token}" if token else None

    def renew(self) -> bool:
        before, self._status = self._status, None
        return self.status() != before

    def _run(self) -> _ExecStatus:
        name = self.command[0]
        spec: dict[str, object] = {"interactive": False}
        if self.cluster is not None:
            spec["cluster"] = dict(self.cluster)
        info = {"apiVersion": self.version, "kind": "ExecCredential", "spec": spec}
        environment = {
            **os.environ,
            **self.environment,
            "KUBERNETES_EXEC_INFO": json.dumps(info),
        }
        try:
            ended = subprocess.run(
                self.command,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=EXEC_S,
                check=False,
            )
        except FileNotFoundError:
            hint = f": {self.hint}" if self.hint else ""
            raise InputError(f"kubeconfig: no program {name!r} to log in with{hint}") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise InputError(f"kubeconfig: {name} could not be run: {error}") from None
        if ended.returncode:
            told = ended.stderr.decode(errors="replace").strip().splitlines()
            last = f": {told[-1]}" if told else ""
            raise InputError(f"kubeconfig: {name} ended with {ended.returncode}{last}")
        try:
            return msgspec.json.decode(ended.stdout, type=_ExecCredential).status
        except msgspec.DecodeError as error:
            raise InputError(f"kubeconfig: {name}: expected an ExecCredential: {error}") from None


def basic(name: str, password: str) -> Fixed:
    pair = base64.b64encode(f"{name}:{password}".encode()).decode()
    return Fixed(f"Basic {pair}")


def _seconds(stamp: str) -> float:
    try:
        return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()
    except ValueError:
        return float("-inf")
