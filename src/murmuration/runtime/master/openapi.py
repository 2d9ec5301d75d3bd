"""The OpenAPI document, made from the table of routes and the types of their answers."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.responses import Response

from murmuration.base.version import __version__
from murmuration.runtime.net.http import ErrorAnswer

#: Fields of queries that are numbers.
NUMBERS = ("duration_s", "index", "limit", "offset", "run", "wait_s")

#: A part of the document.
Schema = dict[str, Any]


@dataclass(frozen=True)
class ApiRoute:
    """One operation of the API, and the function that answers it."""

    method: str
    path: str
    summary: str
    handler: Callable[..., Awaitable[Response]]
    answers: Any
    body: Any = None
    query: tuple[tuple[str, str], ...] = ()
    #: Only for the user whose job it is about. What changes a job always is.
    private: bool = False


def describe(routes: Sequence[ApiRoute]) -> Schema:
    """The OpenAPI document of these routes."""
    kinds = [
        kind for route in routes for kind in (*_answers(route), route.body) if kind is not None
    ]
    kinds.append(ErrorAnswer)
    schemas, components = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    by_kind = dict(zip(map(repr, kinds), schemas, strict=True))
    paths: dict[str, Schema] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Murmuration", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _answers(route: ApiRoute) -> tuple[Any, ...]:
    return route.answers if isinstance(route.answers, tuple) else (route.answers,)


def _query_schema(name: str, what: str) -> Schema:
    """What a field of a query may be: a flag says what 1 means, some are numbers."""
    if what.startswith("1:"):
        return {"type": "string", "enum": ["0", "1"]}
    if name in NUMBERS:
        return {"type": "number", "minimum": 0, "exclusiveMaximum": 2**53}
    return {"type": "string"}


def _operation(route: ApiRoute, schemas: Schema) -> Schema:
    def content(*kinds: Any) -> Schema:
        choices = [schemas[repr(kind)] for kind in kinds]
        return {
            "application/json": {"schema": choices[0] if len(choices) == 1 else {"oneOf": choices}}
        }

    names = re.findall(r"\{(\w+)\}", route.path)
    text = {"type": "string"}
    operation: Schema = {
        "summary": route.summary,
        "operationId": route.handler.__name__,
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": text} for name in names
        ]
        + [
            {"name": name, "in": "query", "description": what, "schema": _query_schema(name, what)}
            for name, what in route.query
        ],
        "responses": {
            "2XX": {"description": "The answer", "content": content(*_answers(route))},
            "4XX": {"description": "What was wrong", "content": content(ErrorAnswer)},
        },
    }
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": content(route.body)}
    return operation
