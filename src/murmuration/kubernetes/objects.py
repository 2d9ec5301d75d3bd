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
    found = [item for document in _documents(source) for item in _opened(document, source)]
    if not found:
        raise InputError(f"{source.path}: expected Kubernetes objects, found none")
    return found


def looks_like_objects(source: Source) -> bool:
    """Told by the first lines: a JSON object or array, or YAML with the two keys every object
    has."""
    text = source.data[:4096].decode("utf-8", errors="replace").lstrip("\ufeff \t\r\n")
    return text[:1] in "{[" or text.startswith("---") or "apiVersion:" in text or "kind:" in text


def _documents(source: Source) -> list[Any]:
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


def _opened(document: Any, source: Source) -> Iterator[Object]:
    if isinstance(document, list):
        for item in document:
            yield from _opened(item, source)
    elif isinstance(document, Mapping) and isinstance(document.get("items"), list):
        # Items of a typed list, such as a PodList, need not repeat their kind.
        kind = str(document.get("kind", ""))
        kind = kind.removesuffix("List") if kind not in ("", "List") else ""
        for item in document["items"]:
            named = {"kind": kind, **item} if isinstance(item, Mapping) and kind else item
            yield from _opened(named, source)
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
    found: list[Object] = []
    for thing in things:
        if thing["kind"] == "Pod":
            found.append(_unplaced(thing))
        elif thing["kind"] in MAKERS:
            found += _made(thing)
        else:
            raise InputError(
                f"--place: expected pods or what makes them ({', '.join(MAKERS)}), got a "
                f"{thing['kind']}"
            )
    return found


def _unplaced(pod: Object) -> Object:
    spec = {key: value for key, value in (pod.get("spec") or {}).items() if key != "nodeName"}
    return {**pod, "spec": spec, "status": {"phase": "Pending"}}


def _made(maker: Object) -> list[Object]:
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
