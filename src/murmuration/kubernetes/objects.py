"""The objects in a file of `kubectl get … -o json` or `-o yaml`: lists in lists, several documents,
one object."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from murmuration.base.errors import InputError
from murmuration.workload.formats.source import Source

Object = Mapping[str, Any]
#: What brings pods of its own, and where it keeps their number.
MAKERS = ("Deployment", "StatefulSet", "ReplicaSet", "ReplicationController", "Job")


def read_objects(source: Source) -> list[Object]:
    """Every object of a file, lists opened."""
    objects = [item for document in _documents(source) for item in _open_lists(document, source)]
    if not objects:
        raise InputError(f"{source.path}: expected Kubernetes objects, found none")
    return objects


def looks_like_objects(source: Source) -> bool:
    """Whether a file holds objects, by its first lines: a JSON object or array, or YAML with the
    two keys every object has."""
    text = source.data[:4096].decode("utf-8", errors="replace").lstrip("\ufeff \t\r\n")
    return text[:1] in "{[" or text.startswith("---") or "apiVersion:" in text or "kind:" in text


def _documents(source: Source) -> list[Any]:
    """The JSON or YAML documents of a file."""
    text = source.data.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] in (b"{", b"["):
        try:
            return [msgspec.json.decode(text)]
        except msgspec.DecodeError as error:
            raise InputError(
                f"{source.path}: expected JSON as kubectl writes it: {error}"
            ) from None
    return _yaml(source)


def _yaml(source: Source) -> list[Any]:
    try:
        import yaml
    except ImportError:
        raise InputError(
            f"{source.path}: reading YAML needs PyYAML: pip install 'murmuration[plan]', or "
            "write it with -o json"
        ) from None
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return [
            document
            for document in yaml.load_all(source.data, Loader=loader)
            if document is not None
        ]
    except yaml.YAMLError as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        at = "" if line is None else f", line {line + 1}"
        raise InputError(
            f"{source.path}{at}: expected YAML: {getattr(error, 'problem', None) or error}"
        ) from None


def _open_lists(document: Any, source: Source) -> Iterator[Object]:
    """The objects in a document; lists in lists are opened."""
    if isinstance(document, list):
        for item in document:
            yield from _open_lists(item, source)
    elif isinstance(document, Mapping) and isinstance(document.get("items"), list):
        # Items of a typed list, such as a PodList, need not repeat their kind.
        kind = str(document.get("kind", ""))
        kind = kind.removesuffix("List") if kind not in ("", "List") else ""
        for item in document["items"]:
            named = {"kind": kind, **item} if isinstance(item, Mapping) and kind else item
            yield from _open_lists(named, source)
    elif (
        isinstance(document, Mapping)
        and document.get("kind")
        and isinstance(document.get("metadata"), Mapping)
    ):
        yield document
    else:
        raise InputError(
            f"{source.path}: expected Kubernetes objects with kind and metadata (kubectl get "
            "nodes,pods,pdb -A -o json)"
        )


def name_of(thing: Object) -> str:
    """`namespace/name`, as messages and moves call a pod."""
    metadata = thing["metadata"]
    name = metadata.get("name") or metadata.get("generateName")
    if not isinstance(name, str) or not name:
        raise InputError(f"a {thing.get('kind')} in namespace {namespace_of(thing)!r} has no name")
    return f"{namespace_of(thing)}/{name}"


def namespace_of(thing: Object) -> str:
    return str(thing["metadata"].get("namespace") or "default")


def pods_to_place(things: list[Object]) -> list[Object]:
    """New pods: pods as they are, without a node, and those a Deployment or the like would make."""
    pods: list[Object] = []
    for thing in things:
        if thing["kind"] == "Pod":
            pods.append(_without_node(thing))
        elif thing["kind"] in MAKERS:
            pods += _replicas(thing)
        else:
            raise InputError(
                f"--place: expected pods or what makes them ({', '.join(MAKERS)}), got a "
                f"{thing['kind']}"
            )
    return pods


def _without_node(pod: Object) -> Object:
    spec = {key: value for key, value in (pod.get("spec") or {}).items() if key != "nodeName"}
    return {**pod, "spec": spec, "status": {"phase": "Pending"}}


def _replicas(maker: Object) -> list[Object]:
    """The pods a controller would make of its template."""
    spec = maker.get("spec") or {}
    template = spec.get("template")
    if not isinstance(template, Mapping):
        raise InputError(f"{maker['kind']} {name_of(maker)}: expected spec.template")
    count = spec.get("parallelism" if maker["kind"] == "Job" else "replicas", 1)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= 100_000:
        raise InputError(
            f"{maker['kind']} {name_of(maker)}: expected a number of replicas, got {count!r}"
        )
    name = maker["metadata"].get("name", "")
    owner = {"kind": maker["kind"], "name": name, "controller": True}
    metadata = {
        **(template.get("metadata") or {}),
        "namespace": namespace_of(maker),
        "ownerReferences": [owner],
    }
    return [
        {
            "kind": "Pod",
            "metadata": {**metadata, "name": f"{name}-new-{k}"},
            "spec": template.get("spec") or {},
        }
        for k in range(count)
    ]
