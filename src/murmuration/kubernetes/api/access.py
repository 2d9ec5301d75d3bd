"""How a cluster is reached: by a kubeconfig, or as the service account of the pod we run in."""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from murmuration.base.errors import InputError, unknown
from murmuration.base.extras import install_hint
from murmuration.base.files import why_failed
from murmuration.kubernetes.api.credentials import ApiCredentials, Fixed, Program, TokenFile, basic
from murmuration.kubernetes.api.http import Server
from murmuration.kubernetes.objects import Object

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
VERSIONS = tuple(f"client.authentication.k8s.io/{v}" for v in ("v1", "v1beta1", "v1alpha1"))


@dataclass(frozen=True)
class Access:
    """A server, who we are to it, and the namespace we start from."""

    server: Server
    credentials: ApiCredentials
    namespace: str
    #: What messages call it: the context of a kubeconfig, or the pod's account.
    name: str


def find_access(
    kubeconfig: Path | None = None, context: str | None = None, account: Path = ACCOUNT
) -> Access:
    """The cluster meant: the files named, `KUBECONFIG`, the pod's own account, or the user's
    file."""
    if kubeconfig is not None:
        return _of_files([kubeconfig], context)
    listed = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    if listed:
        return _of_files([path for path in listed if path.exists()] or listed, context)
    if context is None and os.environ.get("KUBERNETES_SERVICE_HOST") and account.is_dir():
        return _of_account(account)
    usual = Path.home() / ".kube" / "config"
    if not usual.exists():
        raise InputError(
            f"no cluster: expected {usual}, KUBECONFIG or --kubeconfig FILE, or to run in a pod"
        )
    return _of_files([usual], context)


def _of_account(folder: Path) -> Access:
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    port = int(os.environ.get("KUBERNETES_SERVICE_PORT", "443"))
    tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    space = folder / "namespace"
    namespace = space.read_text().strip() if space.exists() else "default"
    return Access(
        Server(host, port, tls), TokenFile(folder / "token"), namespace, "this pod's account"
    )


class _Config:
    """Kubeconfig files as one: of two entries of one name the first counts, as for kubectl."""

    def __init__(self, paths: list[Path]) -> None:
        self.first = paths[0]
        self.current = ""
        #: Entries by kind and name, each with the folder its paths are relative to.
        self.entries: dict[tuple[str, str], tuple[Object, Path]] = {}
        for path in paths:
            document = _read(path)
            self.current = self.current or str(document.get("current-context") or "")
            for kind in ("cluster", "user", "context"):
                for item in document.get(f"{kind}s") or ():
                    if isinstance(item, dict) and isinstance(item.get(kind), dict):
                        key = (kind, str(item.get("name")))
                        self.entries.setdefault(key, (item[kind], path.parent))

    def get(self, kind: str, name: str) -> tuple[Object, Path]:
        if (kind, name) not in self.entries:
            names = [each for what, each in self.entries if what == kind]
            raise InputError(f"{self.first}: {unknown(kind, name, names)}")
        return self.entries[kind, name]


def _read(path: Path) -> Object:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({why_failed(error)})") from None
    try:
        import yaml
    except ImportError:
        raise InputError(
            f"{path}: reading a kubeconfig needs PyYAML; {install_hint('kube')}"
        ) from None
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: expected YAML: {error}") from None
    if not isinstance(document, dict):
        raise InputError(f"{path}: expected a kubeconfig with clusters, users and contexts")
    return document


def _of_files(paths: list[Path], context: str | None) -> Access:
    config = _Config(paths)
    chosen = context or config.current
    if not chosen:
        raise InputError(f"{paths[0]}: expected a current-context, or --context NAME")
    told, _ = config.get("context", chosen)
    cluster, beside_cluster = config.get("cluster", str(told.get("cluster")))
    user: Object = {}
    beside_user = beside_cluster
    if told.get("user"):
        user, beside_user = config.get("user", str(told["user"]))
    where = f"{paths[0]}: context {chosen}"
    credentials = _credentials(user, beside_user, cluster, where)
    server = _server(cluster, beside_cluster, where)
    if server.tls is not None:
        _show_certificate(server.tls, user, beside_user, credentials, where)
    return Access(server, credentials, str(told.get("namespace") or "default"), chosen)


def _server(cluster: Object, beside: Path, where: str) -> Server:
    parts = urlsplit(str(cluster.get("server") or ""))
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InputError(f"{where}: expected server as https://HOST:PORT")
    if cluster.get("proxy-url"):
        raise InputError(f"{where}: proxy-url is not supported")
    tls = None
    if parts.scheme == "https":
        tls = ssl.create_default_context()
        if cluster.get("insecure-skip-tls-verify"):
            tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
        elif (authority := _content(cluster, "certificate-authority", beside, where)) is not None:
            try:
                tls = ssl.create_default_context(cadata=authority.decode("ascii"))
            except (ssl.SSLError, UnicodeDecodeError) as error:
                raise InputError(f"{where}: certificate-authority: {error}") from None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    name = str(cluster.get("tls-server-name") or "") or None
    return Server(parts.hostname, port, tls, name, parts.path.rstrip("/"))


def _credentials(user: Object, beside: Path, cluster: Object, where: str) -> ApiCredentials:
    if user.get("exec"):
        return _program(user["exec"], cluster, beside, where)
    if user.get("tokenFile"):
        return TokenFile(beside / str(user["tokenFile"]))
    if user.get("token"):
        return Fixed(f"Bearer {user['token']}")
    if user.get("username"):
        return basic(str(user["username"]), str(user.get("password") or ""))
    if user.get("auth-provider"):
        raise InputError(f"{where}: auth-provider is gone from Kubernetes; use exec")
    return Fixed()


def _program(given: Object, cluster: Object, beside: Path, where: str) -> Program:
    version = str(given.get("apiVersion") or "")
    if version not in VERSIONS:
        raise InputError(f"{where}: exec: expected apiVersion {VERSIONS[0]}, got {version!r}")
    command = str(given.get("command") or "")
    if "/" in command:
        command = str(beside / command)
    info = None
    if given.get("provideClusterInfo"):
        authority = _content(cluster, "certificate-authority", beside, where)
        info = {"server": cluster.get("server")}
        if authority is not None:
            info["certificate-authority-data"] = base64.b64encode(authority).decode()
    return Program(
        command=[command, *(str(word) for word in given.get("args") or ())],
        environment={str(e["name"]): str(e.get("value", "")) for e in given.get("env") or ()},
        version=version,
        hint=str(given.get("installHint") or "").strip(),
        cluster=info,
    )


def _show_certificate(
    tls: ssl.SSLContext, user: Object, beside: Path, credentials: ApiCredentials, where: str
) -> None:
    """Let a certificate say who we are, if there is one."""
    certificate = _content(user, "client-certificate", beside, where)
    key = _content(user, "client-key", beside, where)
    if certificate is None and isinstance(credentials, Program):
        status = credentials.status()
        certificate = status.clientCertificateData.encode() or None
        key = status.clientKeyData.encode() or None
    if certificate is None:
        return
    # Python takes a certificate from files alone: they are readable by this user only, and gone
    # at once.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pair.pem"
        path.touch(mode=0o600)
        path.write_bytes(certificate + b"\n" + (key or b""))
        try:
            tls.load_cert_chain(path)
        except (ssl.SSLError, OSError) as error:
            raise InputError(f"{where}: client-certificate: {error}") from None


def _content(entry: Object, key: str, beside: Path, where: str) -> bytes | None:
    """What an entry says in place (`KEY-data`, in base64), or in a file it names."""
    if entry.get(f"{key}-data"):
        try:
            return base64.b64decode(str(entry[f"{key}-data"]), validate=True)
        except (binascii.Error, ValueError):
            raise InputError(f"{where}: {key}-data: expected base64") from None
    if not entry.get(key):
        return None
    path = beside / str(entry[key])
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{where}: {path}: cannot be read ({why_failed(error)})") from None
