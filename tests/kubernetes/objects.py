"""Kubernetes objects for tests, as short as they can be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Object = dict[str, Any]


def node(
    name: str,
    cpu: str = "4",
    memory: str = "16Gi",
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    status = {
        "allocatable": {"cpu": cpu, "memory": memory, "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    named = {"kubernetes.io/hostname": name, **(labels or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": named},
        "spec": spec,
        "status": status,
    }


def pod(
    name: str,
    on: str = "",
    cpu: str = "500m",
    memory: str = "1Gi",
    owner: str = "ReplicaSet/web",
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    kind, _, owner_name = owner.partition("/")
    owners = [{"kind": kind, "name": owner_name, "controller": True}] if owner else []
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    placed = {"nodeName": on} if on else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": "shop",
            "name": name,
            "labels": labels or {},
            "ownerReferences": owners,
        },
        "spec": {"containers": [container], **placed, **spec},
        "status": {"phase": "Running" if on else "Pending"},
    }


def budget(name: str, labels: dict[str, str], **spec: Any) -> Object:
    body = {"selector": {"matchLabels": labels}, **spec}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"namespace": "shop", "name": name},
        "spec": body,
    }


def apart(labels: dict[str, str], key: str = "kubernetes.io/hostname") -> Object:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def together(labels: dict[str, str], key: str = "kubernetes.io/hostname") -> Object:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def write(path: Path, *things: Object) -> Path:
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(things)}))
    return path
