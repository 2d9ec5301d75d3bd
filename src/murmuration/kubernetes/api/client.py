"""The verbs of the API that a scheduler needs, on objects as the server writes them.

The official client wraps every object in a class of its own and is an order of magnitude slower
than the server it talks to; here objects are what JSON holds, decoded once.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import quote, urlencode

import msgspec

from murmuration.base.errors import InputError
from murmuration.kubernetes.api.access import Access
from murmuration.kubernetes.api.http import ANSWER_S, Answer, Pool, UnreachableError
from murmuration.kubernetes.objects import Object

PAGE = 500
AGENT = "murmuration"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
_encode = msgspec.json.Encoder().encode


class ApiError(Exception):
    """The server refused: its status, the reason it names, and its sentence."""

    def __init__(self, status: int, reason: str, sentence: str, retry_s: float | None = None):
        super().__init__(sentence)
        self.status, self.reason, self.sentence = status, reason, sentence
        #: How long the server asks to wait before the next try.
        self.retry_s = retry_s


@dataclass(frozen=True)
class Kind:
    """A kind of objects: where they are, and what one is called."""

    group: str
    version: str
    plural: str
    name: str
    namespaced: bool = True
    #: The only namespace that is followed, and the only labels; empty for all.
    inside: str = ""
    selector: str = ""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def query(self) -> dict[str, str]:
        return {"labelSelector": self.selector} if self.selector else {}

    def path(self, namespace: str | None = None, name: str = "", part: str = "") -> str:
        """The path of all objects, of those in a namespace, of one, or of a part of one."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        namespace = namespace or self.inside
        space = f"/namespaces/{quote(namespace)}" if namespace and self.namespaced else ""
        one = f"/{quote(name)}" if name else ""
        return f"{root}{space}/{self.plural}{one}{f'/{part}' if part else ''}"


PODS = Kind("", "v1", "pods", "Pod")
NODES = Kind("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Kind("", "v1", "namespaces", "Namespace", namespaced=False)
CLAIMS = Kind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUMES = Kind("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
CLASSES = Kind("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
CSI_NODES = Kind("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease")
REPLICA_SETS = Kind("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = Kind("apps", "v1", "statefulsets", "StatefulSet")
EVENTS = Kind("", "v1", "events", "Event")
BUDGETS = Kind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
#: Where budgets and evictions were before 1.21 and 1.22.
OLD_BUDGETS = Kind("policy", "v1beta1", "poddisruptionbudgets", "PodDisruptionBudget")


class Listed(msgspec.Struct):
    """A list as the server gave it: all of one moment."""

    version: str
    items: list[dict[str, object]]


class _ListMeta(msgspec.Struct):
    resourceVersion: str = ""  # noqa: N815 - names of the API
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta
    items: list[dict[str, object]] | None = None


class _Details(msgspec.Struct):
    retryAfterSeconds: int = 0  # noqa: N815


class _ErrorStatus(msgspec.Struct):
    message: str = ""
    reason: str = ""
    details: _Details | None = None


class KubeClient:
    """One cluster, asked as one user."""

    def __init__(self, access: Access, connections: int = 32) -> None:
        self.access = access
        self.pool = Pool(access.server, connections)
        #: Whether the server did not answer when it was last asked by a follower.
        self.is_away = False

    def close(self) -> None:
        self.pool.close()

    async def __aenter__(self) -> KubeClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Object:
        return _decode(await self.ask("GET", with_query(path, query)))

    async def create(self, path: str, thing: object, timeout_s: float = ANSWER_S) -> Object:
        return _decode(await self.ask("POST", path, _encode(thing), timeout_s=timeout_s))

    async def replace(self, path: str, thing: object, timeout_s: float = ANSWER_S) -> Object:
        return _decode(await self.ask("PUT", path, _encode(thing), timeout_s=timeout_s))

    async def patch(self, path: str, change: object, how: str = MERGE) -> Object:
        return _decode(await self.ask("PATCH", path, _encode(change), how))

    async def delete(self, path: str, options: object = None) -> Object:
        body = b"" if options is None else _encode(options)
        return _decode(await self.ask("DELETE", path, body))

    async def list_all(self, kind: Kind, query: Mapping[str, str] | None = None) -> Listed:
        """Every object of a kind, in pages of one moment. A page that has become too old starts the
        list again, whole."""
        asked = {**kind.query, **(query or {})}
        try:
            return await self._pages(kind.path(), {**asked, "limit": str(PAGE)}, kind)
        except ApiError as error:
            if error.status != 410:
                raise
            return await self._pages(kind.path(), asked, kind)

    async def list_at(self, kind: Kind, version: str) -> Listed:
        """Every object of a kind as it was at a version of the store."""
        query = {
            "resourceVersion": version,
            "resourceVersionMatch": "Exact",
            "limit": str(PAGE),
        }
        return await self._pages(kind.path(), query, kind)

    async def _pages(self, path: str, query: Mapping[str, str], kind: Kind) -> Listed:
        items: list[dict[str, object]] = []
        asked, version = dict(query), ""
        while True:
            page = msgspec.json.decode(await self.ask("GET", with_query(path, asked)), type=_List)
            items += page.items or ()
            version = page.metadata.resourceVersion
            if not page.metadata.continue_:
                break
            # What follows a page is of its moment; the server refuses to be told of another.
            rest = {k: v for k, v in query.items() if not k.startswith("resourceVersion")}
            asked = {**rest, "continue": page.metadata.continue_}
        for item in items:
            # Items of a list do not repeat what they are.
            item.setdefault("kind", kind.name)
            item.setdefault("apiVersion", kind.api_version)
        return Listed(version, items)

    async def watch(
        self, kind: Kind, version: str, timeout_s: int, silence_s: float
    ) -> AsyncIterator[list[bytes]]:
        """The changes of a kind after a version, line by line as the server writes them; ends when
        the server ends it, after `timeout_s`."""
        query = {
            **kind.query,
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_s),
        }
        path = with_query(kind.path(), query)
        answer, stream = await self.pool.stream(path, self._headers("application/json"))
        if answer.status == 401 and self.access.credentials.renew():
            answer, stream = await self.pool.stream(path, self._headers("application/json"))
        if answer.status != 200:
            _refuse(answer)
        async for lines in stream.batches(silence_s):
            yield lines

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        content: str = "application/json",
        timeout_s: float = ANSWER_S,
    ) -> bytes:
        """One request; what is no success raises. ApiCredentials that have run out are renewed
        once."""
        answer = await self.pool.request(method, path, self._headers(content), body, timeout_s)
        if answer.status == 401 and self.access.credentials.renew():
            answer = await self.pool.request(method, path, self._headers(content), body, timeout_s)
        if not 200 <= answer.status < 300:
            _refuse(answer)
        return answer.body

    def _headers(self, content: str) -> dict[str, str]:
        headers = {"accept": "application/json", "content-type": content, "user-agent": AGENT}
        authorization = self.access.credentials.header()
        if authorization is not None:
            headers["authorization"] = authorization
        return headers


def with_query(path: str, query: Mapping[str, str] | None) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _decode(body: bytes) -> Object:
    thing: Object = msgspec.json.decode(body)
    return thing


def _refuse(answer: Answer) -> NoReturn:
    """Raise what the server said."""
    try:
        status = msgspec.json.decode(answer.body, type=_ErrorStatus)
    except msgspec.DecodeError:
        status = _ErrorStatus(answer.body[:200].decode(errors="replace").strip())
    wait = answer.headers.get("retry-after", "")
    retry_s = float(wait) if wait.isdigit() else None
    if retry_s is None and status.details is not None and status.details.retryAfterSeconds:
        retry_s = float(status.details.retryAfterSeconds)
    sentence = status.message or f"HTTP status {answer.status}"
    raise ApiError(answer.status, status.reason, sentence, retry_s)


_DENIED = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]*)" in API group '
    r'"(?P<group>[^"]*)"(?: in the namespace "(?P<space>[^"]*)")?'
)


def explain(error: ApiError | UnreachableError, access: Access) -> InputError:
    """A refusal as one sentence for people: what is missing, and where."""
    if isinstance(error, UnreachableError):
        server = access.server
        return InputError(f"{access.name}: {server.host}:{server.port} does not answer: {error}")
    if error.status == 401:
        return InputError(
            f"{access.name}: the server does not accept these credentials (an expired token?)"
        )
    denied = _DENIED.search(error.sentence)
    if error.status == 403 and denied:
        role = "Role" if denied["space"] else "ClusterRole"
        inside = f" in namespace {denied['space']}" if denied["space"] else ""
        return InputError(
            f"{access.name}: {denied['user']} may not {denied['verb']} {denied['resource']}{inside}"
            f'; it needs a {role} with apiGroups ["{denied["group"]}"], resources '
            f'["{denied["resource"]}"], verbs ["{denied["verb"]}"]'
        )
    return InputError(f"{access.name}: {error.sentence}")
