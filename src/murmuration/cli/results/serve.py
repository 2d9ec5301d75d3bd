"""One page on this host's own address, until it is stopped."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class PageServer(ThreadingHTTPServer):
    """A text under a path that nobody can guess: other users of this host can connect, too."""

    daemon_threads = True

    def __init__(self, text: str, port: int) -> None:
        super().__init__(("127.0.0.1", port), PageRequest)
        self.path = f"/{secrets.token_urlsafe(12)}/"
        self.body = text.encode()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}{self.path}"


class PageRequest(BaseHTTPRequestHandler):
    server: PageServer

    def do_GET(self) -> None:
        is_page = self.path == self.server.path
        body = self.server.body if is_page else b"no such page\n"
        self.send_response(200 if is_page else 404)
        self.send_header("content-type", "text/html; charset=utf-8" if is_page else "text/plain")
        self.send_header("content-length", str(len(body)))
        self.send_header("cache-control", "no-store")
        self.send_header("referrer-policy", "no-referrer")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: the path is a secret."""


def serve_page(text: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until somebody interrupts."""
    with PageServer(text, port) as server:
        ready(server.url)
        server.serve_forever()
