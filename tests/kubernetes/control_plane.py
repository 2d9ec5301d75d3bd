"""A real control plane on this host: etcd and the programs `scripts/kubernetes.sh` builds, each
started by a test module and stopped by its process id.

Nothing of it is emulated: certificates, tokens, roles, disruption budgets and watches are the API
server's own. Nodes are objects without a kubelet unless a test starts kubemark's.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

Object = dict[str, Any]

VERSION = "1.20.2"
ROOT = Path(__file__).resolve().parent.parent.parent
#: How long a program may take to be ready, on a machine that is busy with other things.
READY_S = 240.0
#: Programs that serve metrics and their health.
SERVING = ("kube-controller-manager", "kube-scheduler")
SUBJECTS = {"ca": "/CN=test-ca", "server": "/CN=127.0.0.1", "admin": "/O=system:masters/CN=admin"}


def programs() -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "murmuration-kubernetes" / VERSION


def skip_unless_built() -> None:
    if not (programs() / "built").exists() or shutil.which("etcd") is None:
        pytest.skip("no control plane: scripts/kubernetes.sh builds it")


def free_ports(count: int) -> list[int]:
    holders = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [int(holder.getsockname()[1]) for holder in holders]
    for holder in holders:
        holder.close()
    return ports


def openssl(*arguments: str, folder: Path) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)


def make_certificates(folder: Path) -> None:
    """An authority, the server's certificate, an administrator's, and the key of accounts."""
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost")
    for name, subject in SUBJECTS.items():
        openssl(
            "ecparam",
            "-name",
            "prime256v1",
            "-genkey",
            "-noout",
            "-out",
            f"{name}.key",
            folder=folder,
        )
        if name == "ca":
            request = ["req", "-x509", "-new", "-key", "ca.key", "-days", "2", "-subj", subject]
            openssl(*request, "-out", "ca.crt", folder=folder)
            continue
        openssl(
            "req", "-new", "-key", f"{name}.key", "-subj", subject, "-out", "csr", folder=folder
        )
        sign = [
            "x509",
            "-req",
            "-in",
            "csr",
            "-CA",
            "ca.crt",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
        ]
        openssl(*sign, "-days", "2", "-extfile", "names", "-out", f"{name}.crt", folder=folder)
    openssl("genrsa", "-out", "accounts.key", "2048", folder=folder)


class Program:
    """A process of the control plane, with its log in a file."""

    def __init__(self, folder: Path, command: Sequence[str | Path]) -> None:
        self.name = Path(command[0]).name
        self.log = folder / f"{self.name}.log"
        self.command = [str(word) for word in command]
        # It ends with the tests, also when those are killed.
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*guard, *self.command], cwd=folder, stdout=log, stderr=log
            )

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def cpu_s(self) -> float:
        """What it has used of CPU so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class ControlPlane:
    """etcd and an API server; more programs on demand."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.etcd_port, peer_port, self.port = free_ports(3)
        make_certificates(folder)
        (folder / "tokens.csv").write_text(
            "admin-token,admin,1,system:masters\nnobody-token,nobody,2\nscheduler-token,murmur,3\n"
        )
        client, peer = f"http://127.0.0.1:{self.etcd_port}", f"http://127.0.0.1:{peer_port}"
        etcd = ["etcd", "--data-dir", "etcd", "--listen-client-urls", client]
        etcd += ["--advertise-client-urls", client, "--listen-peer-urls", peer]
        etcd += ["--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}"]
        self.programs = {"etcd": Program(folder, etcd)}
        self.kubeconfig = self.write_kubeconfig()
        self.start_server()

    # Programs.

    def start_server(self, *more: str) -> None:
        options = {
            "etcd-servers": f"http://127.0.0.1:{self.etcd_port}",
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": self.port,
            "tls-cert-file": "server.crt",
            "tls-private-key-file": "server.key",
            "client-ca-file": "ca.crt",
            "token-auth-file": "tokens.csv",
            "authorization-mode": "RBAC",
            "service-cluster-ip-range": "10.0.0.0/24",
            "service-account-key-file": "accounts.key",
            "service-account-signing-key-file": "accounts.key",
            "service-account-issuer": "https://127.0.0.1",
            # Nodes here are plain objects: without a kubelet they would stay tainted.
            "disable-admission-plugins": "ServiceAccount,TaintNodesByCondition",
            "max-requests-inflight": 4000,
            "max-mutating-requests-inflight": 2000,
        }
        command: list[str | Path] = [
            programs() / "kube-apiserver",
            *(f"--{k}={v}" for k, v in options.items()),
            *more,
        ]
        self.programs["server"] = Program(self.folder, command)
        self.wait_until(self.is_ready, "the API server is ready")

    def start(self, name: str, *options: str) -> Program:
        """kube-scheduler, kube-controller-manager or kubemark, as the administrator."""
        command: list[str | Path] = [programs() / name, f"--kubeconfig={self.kubeconfig}", *options]
        if name in SERVING:
            # Their usual ports are one for the whole host, where other tests run beside this one.
            command += ["--port=0", f"--secure-port={free_ports(1)[0]}", "--bind-address=127.0.0.1"]
        self.programs[name] = Program(self.folder, command)
        return self.programs[name]

    def stop(self, name: str | None = None) -> None:
        for each in [name] if name else list(reversed(self.programs)):
            self.programs.pop(each).stop()

    def is_ready(self) -> bool:
        try:
            self.call("GET", "/readyz")
            self.call("GET", "/api/v1/namespaces/default")
            return True
        except OSError:
            return False

    def wait_until(self, condition: Any, what: str, timeout_s: float = READY_S) -> None:
        ends = time.monotonic() + timeout_s
        while not condition():
            dead = [p for p in self.programs.values() if p.process.poll() is not None]
            for program in dead:
                raise AssertionError(f"{program.name} ended:\n{program.log.read_text()[-2000:]}")
            assert time.monotonic() < ends, f"waited {timeout_s:g} s until {what}"
            time.sleep(0.05)

    # Asking it, without a line of the client under test.

    def call(self, method: str, path: str, body: Object | None = None, **headers: str) -> Object:
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        sent = {
            "authorization": "Bearer admin-token",
            "content-type": "application/json",
            **headers,
        }
        request = urllib.request.Request(
            f"https://127.0.0.1:{self.port}{path}",
            data=None if body is None else json.dumps(body).encode(),
            method=method,
            headers=sent,
        )
        with urllib.request.urlopen(request, timeout=60, context=context) as answer:
            text = answer.read()
        return dict(json.loads(text)) if text[:1] == b"{" else {}

    def create(self, thing: Object) -> Object:
        return self.call("POST", collection(thing), thing)

    def create_priority(self, name: str, value: int) -> None:
        thing = {"kind": "PriorityClass", "metadata": {"name": name}, "value": value}
        self.call("POST", "/apis/scheduling.k8s.io/v1/priorityclasses", thing)

    def get(self, kind: str, name: str, namespace: str = "default") -> Object:
        space = "" if kind == "nodes" else f"/namespaces/{namespace}"
        return self.call("GET", f"/api/v1{space}/{kind}/{name}")

    def get_names(self, kind: str) -> set[str]:
        return {item["metadata"]["name"] for item in self.call("GET", f"/api/v1/{kind}")["items"]}

    def pods(self) -> dict[str, Object]:
        items = self.call("GET", "/api/v1/pods")["items"]
        return {f"{p['metadata']['namespace']}/{p['metadata']['name']}": p for p in items}

    def write_kubeconfig(self, user: Object | None = None, name: str = "kubeconfig") -> Path:
        admin = {"client-certificate": "admin.crt", "client-key": "admin.key"}
        server = f"https://127.0.0.1:{self.port}"
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [
                {"name": "here", "cluster": {"server": server, "certificate-authority": "ca.crt"}}
            ],
            "users": [{"name": "me", "user": user if user is not None else admin}],
            "contexts": [{"name": "test", "context": {"cluster": "here", "user": "me"}}],
        }
        path = self.folder / name
        path.write_text(json.dumps(config))
        return path


PATHS = {
    "Node": "/api/v1/nodes",
    "Namespace": "/api/v1/namespaces",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
}
SPACED = {
    "Pod": ("/api/v1", "pods"),
    "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims"),
    "PodDisruptionBudget": ("/apis/policy/v1beta1", "poddisruptionbudgets"),
    "Deployment": ("/apis/apps/v1", "deployments"),
}


def collection(thing: Object) -> str:
    """Where an object is created."""
    kind, space = thing["kind"], thing["metadata"].get("namespace") or "default"
    if kind in PATHS:
        return PATHS[kind]
    root, plural = SPACED[kind]
    return f"{root}/namespaces/{space}/{plural}"


def real_node(name: str, cpu: str = "4", memory: str = "32Gi", **more: Any) -> Object:
    """A node that is ready, without a kubelet."""
    amounts = {"cpu": cpu, "memory": memory, "pods": "110", **more.pop("amounts", {})}
    labels = {"kubernetes.io/hostname": name, **more.pop("labels", {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": more,
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def real_pod(
    name: str, cpu: str = "100m", memory: str = "500Mi", scheduler: str = "murmuration", **spec: Any
) -> Object:
    metadata = {"name": name, "namespace": "default", **spec.pop("metadata", {})}
    requests = {"cpu": cpu, "memory": memory}
    container = {"name": "main", "image": "pause", "resources": {"requests": requests}}
    container |= spec.pop("container", {})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": scheduler, "containers": [container], **spec},
    }
