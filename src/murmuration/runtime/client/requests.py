"""The client of the command: one request, one answer, over a plain socket. It is quick because it
imports little."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

import msgspec

from murmuration.base.errors import InputError
from murmuration.runtime.folder import TLS, find_folder
from murmuration.runtime.net.addresses import Address, parse_address
from murmuration.runtime.net.directory import (
    Credentials,
    FolderDirectory,
    load_credentials,
    no_cluster,
    read_token,
)
from murmuration.runtime.net.sockets import check_loopback, dial

if TYPE_CHECKING:
    import socket

TIMEOUT_S = 60.0
#: HTTP's word for who has asked too often; how often a command waits and asks again.
TOO_OFTEN, TRIES_MAX = 429, 5


class AnswerError(InputError):
    """The master refused; `status` is HTTP's, `field` the part of a job it is about."""

    def __init__(self, status: int, sentence: str, field: str = "") -> None:
        super().__init__(f"{field}: {sentence}" if field else sentence)
        self.status, self.field, self.sentence = status, field, sentence


class TooOftenError(AnswerError):
    """This client has asked too often; it may again in so many seconds."""

    def __init__(self, status: int, sentence: str, retry_s: float) -> None:
        super().__init__(status, sentence)
        self.retry_s = retry_s


class Reach(NamedTuple):
    """How to reach a cluster that is not this folder's own: where its masters may listen, and the
    file with a token that was issued."""

    join: tuple[str, ...] = ()
    token_file: Path | None = None


#: The cluster of the folder itself.
HERE = Reach()


class ApiClient:
    """Talks to the cluster of a folder, or to one that is reached otherwise."""

    def __init__(self, folder: Path | None = None, reach: Reach = HERE) -> None:
        self.folder, self._reach = find_folder(folder), reach
        directory = FolderDirectory(self.folder)
        self._addresses = [read_address(text) for text in reach.join] or [directory.leader().api]
        self._credentials = _find_credentials(directory, reach)
        if reach.join and self._credentials.client_tls is None:
            # A token is never sent over a network in clear text.
            for address in self._addresses:
                check_loopback(address.host)

    def again(self) -> ApiClient:
        """The same, looked up afresh: another master may lead by now."""
        return ApiClient(self.folder, self._reach)

    @property
    def address(self) -> Address:
        return self._addresses[0]

    @property
    def token(self) -> str:
        """What it shows."""
        return self._credentials.token

    @property
    def url(self) -> str:
        encrypted = self._credentials.client_tls is not None
        return self.address.secure_url if encrypted else self.address.url

    def get(self, *path: str, **query: object) -> Any:
        return self._ask("GET", path, query)

    def post(self, *path: str, body: object = None, **query: object) -> Any:
        return self._ask("POST", path, query, body)

    def put(self, *path: str, body: object) -> Any:
        return self._ask("PUT", path, {}, body)

    def delete(self, *path: str) -> Any:
        return self._ask("DELETE", path, {})

    def _ask(
        self, method: str, path: tuple[str, ...], query: Mapping[str, object], body: object = None
    ) -> Any:
        for _ in range(TRIES_MAX):
            try:
                return self._ask_once(method, path, query, body)
            except TooOftenError as error:
                time.sleep(error.retry_s)
        return self._ask_once(method, path, query, body)

    def _ask_once(
        self, method: str, path: tuple[str, ...], query: Mapping[str, object], body: object
    ) -> Any:
        data = bytearray()
        with self._send(method, path, query, body) as connection:
            try:
                while part := connection.recv(65536):
                    data += part
            except OSError as error:
                raise self._cut_off(data) from error
        if not data:
            raise self._cut_off(data)
        head, _, content = bytes(data).partition(b"\r\n\r\n")
        return _answer(head, content)

    def _cut_off(self, data: bytearray) -> InputError:
        """A master that refuses a certificate says so in its log only: a handshake is over for the
        client before the server has looked at its certificate."""
        if data or self._credentials.client_tls is None:
            return cut_off()
        return InputError(
            f"{self.url}: the master ended the connection without an answer; if it goes on doing "
            "so it refuses this certificate, and its log says why"
        )

    def _send(
        self, method: str, path: tuple[str, ...], query: Mapping[str, object], body: object
    ) -> socket.socket:
        target = "/v1/" + "/".join(quote(part, safe="") for part in path)
        if query:
            target += "?" + urlencode(query)
        content = b"" if body is None else msgspec.json.encode(body)
        head = (
            f"{method} {target} HTTP/1.1\r\nHost: {self.address}\r\nAuthorization: Bearer "
            f"{self._credentials.token}\r\n"
            f"Connection: close\r\nContent-Length: {len(content)}\r\n\r\n"
        )
        connection = self._dial()
        # A master that refuses at once does not read all of it, and its answer says why; where
        # there is none, reading says so. TLS has errors of its own for a connection that ended.
        with contextlib.suppress(OSError):
            connection.sendall(head.encode() + content)
        return connection

    def _dial(self) -> socket.socket:
        """A connection to the first master that listens; those that stand by do not."""
        for _ in self._addresses:
            try:
                return dial(self.address, TIMEOUT_S, self._credentials.client_tls)
            except OSError:
                self._addresses.append(self._addresses.pop(0))
        if not self._reach.join:
            raise no_cluster(self.folder)
        places = " or ".join(map(str, self._addresses))
        raise InputError(f"{places}: nobody answers; expected the address of a master's API")

    def events(self, after: int) -> Iterator[dict[str, Any]]:
        """Facts as they come, until the connection breaks; `after` takes them up again."""
        with self._send("GET", ("events",), {"follow": 1, "index": after}, None) as connection:
            connection.settimeout(None)
            with connection.makefile("rb") as answer:
                head = _read_head(answer)
                if b" 200 " not in head.partition(b"\r\n")[0]:
                    _answer(head, answer.read())
                for line in _read_chunks(answer):
                    if line.startswith(b"data: "):
                        yield msgspec.json.decode(line[6:])


def read_address(text: str) -> Address:
    try:
        return parse_address(text)
    except ValueError as error:
        raise InputError(f"--join: expected HOST:PORT, {error}") from error


def _find_credentials(directory: FolderDirectory, reach: Reach) -> Credentials:
    """What to show: a token that was given comes before the one of the folder."""
    if reach.token_file is None:
        return directory.credentials()
    return load_credentials(read_token(reach.token_file), directory.folder / TLS)


def cut_off() -> InputError:
    return InputError("the master ended in the middle of its answer; ask again")


def _read_head(answer: IO[bytes]) -> bytes:
    head = b""
    while (line := answer.readline()) not in (b"\r\n", b""):
        head += line
    return head


def _read_chunks(answer: IO[bytes]) -> Iterator[bytes]:
    """The lines of a body in chunks. The master sends whole events, so no line is ever split."""
    while size := int(answer.readline() or b"0", 16):
        chunk = answer.read(size)
        if len(chunk) < size:
            return
        yield from chunk.splitlines()
        answer.readline()


def _retry_s(head: bytes) -> float:
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"retry-after" and value.strip().isdigit():
            return min(float(value), TIMEOUT_S)
    return 1.0


def _answer(head: bytes, content: bytes) -> Any:
    words = head.split(b" ", 2)
    if len(words) < 2 or not words[1].isdigit():
        raise cut_off()
    status = int(words[1])
    try:
        document = msgspec.json.decode(content)
    except msgspec.DecodeError as error:
        raise cut_off() from error
    if status == TOO_OFTEN:
        raise TooOftenError(status, document.get("error", "refused"), retry_s=_retry_s(head))
    if status >= 400:
        raise AnswerError(status, document.get("error", "refused"), document.get("field", ""))
    return document
