"""The objects in a file of `kubectl get … -o json` or `-o yaml`: lists in lists, several documents,
one object."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from murmuration.base.errors import InputError
from murmuration.base.extras import install_hint
from murmuration.workload.formats.source import SourceFile

Object = Mapping[str, Any]
_GAP = re.compile(r"\s*")


def read_objects(source: SourceFile) -> list[Object]:
    """Every object of a file, lists opened."""
    objects = [item for document in _documents(source) for item in _open_lists(document, source)]
    if not objects:
        raise InputError(f"{source.path}: expected Kubernetes objects, found none")
    return objects


def looks_like_objects(source: SourceFile) -> bool:
    """Whether a file holds objects, by its first lines: a JSON object or array, or YAML with the
    two keys every object has."""
    text = as_utf8(source.data[:4096]).decode("utf-8", errors="replace").lstrip("\ufeff \t\r\n")
    return text[:1] in "{[" or text.startswith("---") or "apiVersion:" in text or "kind:" in text


def as_utf8(data: bytes) -> bytes:
    """The same text in UTF-8: PowerShell writes UTF-16 into a file."""
    encoding = json.detect_encoding(data)
    if encoding == "utf-8":
        return data
    return data.decode(encoding, errors="replace").encode()


def _documents(source: SourceFile) -> list[Any]:
    """The JSON or YAML documents of a file."""
    text = as_utf8(source.data).lstrip()
    if text[:1] not in (b"{", b"["):
        return _yaml(source, text)
    try:
        return [msgspec.json.decode(text)]
    except RecursionError:
        raise InputError(f"{source.path}: expected JSON as kubectl writes it: too deep") from None
    except msgspec.DecodeError as error:
        documents = _several(text)
        if documents is None:
            raise InputError(
                f"{source.path}: expected JSON as kubectl writes it: {error}"
            ) from None
        return documents


def _several(text: bytes) -> list[Any] | None:
    """JSON documents one after the other, on lines of their own or not; None if they are not."""
    decoder, rest = json.JSONDecoder(), text.decode("utf-8", errors="replace")
    documents, at = [], 0
    try:
        while at < len(rest):
            document, end = decoder.raw_decode(rest, at)
            documents.append(document)
            gap = _GAP.match(rest, end)
            at = end if gap is None else gap.end()
    except (json.JSONDecodeError, RecursionError):
        return None
    return documents


def _yaml(source: SourceFile, text: bytes) -> list[Any]:
    try:
        import yaml
    except ImportError:
        raise InputError(
            f"{source.path}: reading YAML needs PyYAML; write it with -o json, or "
            f"{install_hint('plan')}"
        ) from None
    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        return [document for document in yaml.load_all(text, Loader=loader) if document is not None]
    except yaml.YAMLError as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        at = "" if line is None else f", line {line + 1}"
        raise InputError(
            f"{source.path}{at}: expected YAML: {getattr(error, 'problem', None) or error}"
        ) from None


def _open_lists(document: Any, source: SourceFile) -> Iterator[Object]:
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


def controller_of(pod: Object) -> Object | None:
    """The owner that would make a pod again. Other owners only take it with them when they go;
    `kubectl drain` asks for the same mark."""
    owners = pod["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


def listed(thing: Object, key: str, where: str) -> list[Object]:
    """A list of objects in an object; nothing at all is an empty one."""
    items = thing.get(key)
    if not items:
        return []
    if not isinstance(items, list) or not all(isinstance(item, Mapping) for item in items):
        raise InputError(f"{where}: expected {key} to be a list of objects")
    return items


# The shape that objects must have for their fields to be read at all: a file may hold anything.
# What the API server writes always passes, and fields that are not listed here are left alone.
Fields = dict[str, Any] | None
Listed = list[dict[str, Any]] | None


class RequiredTerms(msgspec.Struct, rename={"terms": "nodeSelectorTerms"}):
    terms: Listed = None


class NodeAffinityShape(
    msgspec.Struct,
    rename={
        "required": "requiredDuringSchedulingIgnoredDuringExecution",
        "preferred": "preferredDuringSchedulingIgnoredDuringExecution",
    },
):
    required: RequiredTerms | None = None
    preferred: Listed = None


class PodAffinityShape(
    msgspec.Struct,
    rename={
        "required": "requiredDuringSchedulingIgnoredDuringExecution",
        "preferred": "preferredDuringSchedulingIgnoredDuringExecution",
    },
):
    required: Listed = None
    preferred: Listed = None


class AffinityShape(msgspec.Struct, rename="camel"):
    node_affinity: NodeAffinityShape | None = None
    pod_affinity: PodAffinityShape | None = None
    pod_anti_affinity: PodAffinityShape | None = None


class PodSpecShape(msgspec.Struct, rename="camel"):
    affinity: AffinityShape | None = None
    node_selector: Fields = None
    tolerations: Listed = None
    scheduling_gates: Listed = None
    topology_spread_constraints: Listed = None


class NodeSpecShape(msgspec.Struct):
    taints: Listed = None


class StatusShape(msgspec.Struct):
    conditions: Listed = None


class MetadataShape(msgspec.Struct, rename="camel"):
    labels: Fields = None
    annotations: Fields = None
    owner_references: Listed = None


class PodShape(msgspec.Struct):
    metadata: MetadataShape
    spec: PodSpecShape | None = None
    status: StatusShape | None = None


class NodeShape(msgspec.Struct):
    metadata: MetadataShape
    spec: NodeSpecShape | None = None
    status: StatusShape | None = None


def check_pod(pod: Object) -> None:
    """Raise an error that names the pod and the field if something is of another type."""
    _check(pod, PodShape, "pod", name_of(pod))


def check_node(node: Object) -> None:
    _check(node, NodeShape, "node", str(node["metadata"].get("name")))


def _check(thing: Object, shape: type[msgspec.Struct], what: str, name: str) -> None:
    try:
        msgspec.convert(thing, shape)
    except msgspec.ValidationError as error:
        # "Expected `array | null`, got `str` - at `$.spec.tolerations`"
        text = str(error).replace("`", "").replace("$.", "")
        raise InputError(f"{what} {name}: {text[:1].lower()}{text[1:]}") from None
