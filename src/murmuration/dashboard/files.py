"""The page's files with what they are served with. Nothing here is made at run time: `built/` has
exactly what `npm run build` in `front/` writes."""

from __future__ import annotations

import gzip
import hashlib
from functools import cache
from importlib.resources import files as resources
from typing import NamedTuple

#: Where each file is served, and its kind. They lie in `built/` under their last name.
_SERVED = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/more.js": ("more.js", "text/javascript; charset=utf-8"),
    "/app.css": ("app.css", "text/css; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
#: Scripts, styles and requests of this origin alone; no frames, no forms, no plug-ins.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_ALWAYS = {
    "cache-control": "no-cache",
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class Asset(NamedTuple):
    body: bytes
    packed: bytes
    kind: str
    tag: str


def paths() -> tuple[str, ...]:
    """Where the page's files are served."""
    return tuple(_SERVED)


def read(name: str) -> bytes:
    """A built file."""
    return resources(__package__).joinpath("built", name).read_bytes()


@cache
def load(path: str) -> Asset:
    name, kind = _SERVED[path]
    body = read(name)
    tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    return Asset(body, gzip.compress(body, 9, mtime=0), kind, tag)


def headers(asset: Asset, is_packed: bool) -> dict[str, str]:
    packed = {"content-encoding": "gzip"} if is_packed else {}
    own = {"content-type": asset.kind, "etag": asset.tag, "vary": "accept-encoding"}
    return {**_ALWAYS, **packed, **own}
