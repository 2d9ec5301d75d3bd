"""Addresses: where somebody listens, as a value instead of a text that everybody takes apart."""

from __future__ import annotations

import msgspec

SCHEME, SECURE = "http://", "https://"


class Address(msgspec.Struct, frozen=True):
    """A host and a port. An IPv6 host is written in brackets, as in a URL."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The address of an HTTP server."""
        return f"{SCHEME}{self}"

    @property
    def secure_url(self) -> str:
        """The address of an HTTP server that speaks TLS."""
        return f"{SECURE}{self}"


def parse_address(text: str) -> Address:
    """The address in `host:port`, `http://host:port` or `https://host:port`; ValueError if there
    is none."""
    host, _, port = text.removeprefix(SCHEME).removeprefix(SECURE).rpartition(":")
    if not (host and port.isascii() and port.isdecimal() and int(port[:6]) < 2**16):
        raise ValueError(f"got {text[:80]!r}")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))
