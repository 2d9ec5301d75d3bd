"""One page on this host's own address, until it is stopped: with as many points as a screen shows,
and all of them for the part that a reader zooms in on."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import msgspec

from murmuration.reports.document import series_between
from murmuration.reports.figures import Chart
from murmuration.reports.page import Page, render

ZOOM = "zoom"


class PageServer(ThreadingHTTPServer):
    """A page under a path that nobody can guess: other users of this host can connect, too."""

    daemon_threads = True

    def __init__(self, page: Page | str, port: int) -> None:
        super().__init__(("127.0.0.1", port), PageRequest)
        self.path = f"/{secrets.token_urlsafe(12)}/"
        self._page = None if isinstance(page, str) else page
        text = page if isinstance(page, str) else render(page, is_served=True)
        self.body = text.encode()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}{self.path}"

    def zoom(self, query: str) -> bytes | None:
        """The lines of a figure within a range of x; None if there is no such figure."""
        fields = parse_qs(query)
        try:
            section, figure = int(fields["section"][0]), int(fields["figure"][0])
            low, high = float(fields["from"][0]), float(fields["until"][0])
            if self._page is None or min(section, figure) < 0:
                return None
            found = self._page.sections[section].figures[figure]
        except (KeyError, ValueError, IndexError):
            return None
        if not isinstance(found, Chart):
            return None
        return msgspec.json.encode(series_between(found, low, high))


class PageRequest(BaseHTTPRequestHandler):
    server: PageServer

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if asked.path == self.server.path:
            self._answer(200, "text/html; charset=utf-8", self.server.body)
            return
        found = self.server.zoom(asked.query) if asked.path == self.server.path + ZOOM else None
        if found is None:
            self._answer(404, "text/plain", b"no such page\n")
        else:
            self._answer(200, "application/json", found)

    def _answer(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.send_header("cache-control", "no-store")
        self.send_header("referrer-policy", "no-referrer")
        self.send_header("x-content-type-options", "nosniff")
        self.send_header("cross-origin-resource-policy", "same-origin")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: the path is a secret."""


def serve_page(page: Page | str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until somebody interrupts."""
    with PageServer(page, port) as server:
        ready(server.url)
        server.serve_forever()
