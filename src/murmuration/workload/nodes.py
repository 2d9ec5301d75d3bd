"""Node tables: the nodes of a cluster with their sizes and attributes, in CSV or Parquet, and what
happens to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from murmuration.base.arrays import Amounts, Floats, Integers
from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.cluster.constraints import Attributes, Value, as_value, value_text
from murmuration.workload.formats.sizes import check_suffix, read_sizes, size_columns, write_frame
from murmuration.workload.formats.source import load
from murmuration.workload.formats.table import TraceTable, codes, of_source

BASE = ("node_id", "cpu", "mem_gb")
RESOURCE = "resource."
ATTRIBUTE_MAX = 1000

ADD, REMOVE, UPDATE = 0, 1, 2
EVENT_NAMES = ("add", "remove", "update")


@dataclass(frozen=True)
class NodeTable:
    """Nodes in the order of the file; row n of `total` is what node n has."""

    resources: Resources
    names: tuple[str, ...]
    total: Amounts
    attributes: tuple[Attributes, ...]

    def __len__(self) -> int:
        return len(self.names)

    def select(self, rows: Integers) -> NodeTable:
        """The nodes at these rows, in that order."""
        names, attributes = (
            tuple(column[row] for row in rows) for column in (self.names, self.attributes)
        )
        return NodeTable(self.resources, names, self.total[rows], attributes)


@dataclass(frozen=True)
class NodeEvents:
    """Nodes that come, go and change, by time and then by node; `kind` is ADD, REMOVE or UPDATE."""

    resources: Resources
    time_s: Floats
    node_id: NDArray[np.str_]
    kind: Integers
    total: Amounts
    attributes: tuple[Attributes, ...]

    def __len__(self) -> int:
        return len(self.time_s)

    def select(self, rows: Integers) -> NodeEvents:
        """The events at these rows, in that order."""
        attributes = tuple(self.attributes[row] for row in rows)
        return NodeEvents(
            self.resources,
            self.time_s[rows],
            self.node_id[rows],
            self.kind[rows],
            self.total[rows],
            attributes,
        )


def read_nodes(path: str | Path) -> NodeTable:
    """A node table from a CSV (also .gz or .xz) or Parquet file."""
    return nodes_of(of_source(load(path)))


def nodes_of(table: TraceTable) -> NodeTable:
    """The nodes in a table of our own columns; every column that is no size is an attribute."""
    table.need(BASE, "nodes")
    resources, total = read_sizes(table, _size_columns(table))
    names = tuple(table.names("node_id").to_list())
    attributes = {
        name: name
        for name in table.columns
        if name not in BASE and not name.startswith(RESOURCE) and name
    }
    return NodeTable(resources, names, total, read_attributes(table, attributes))


def _size_columns(table: TraceTable) -> dict[str, str]:
    """Resource to column: CPU and memory, then whatever else is named `resource.<name>`."""
    columns = {"cpu": "cpu", "memory": "mem_gb"}
    for column in table.columns:
        name = column.removeprefix(RESOURCE)
        if name == column:
            continue
        if not name or name in columns:
            raise InputError(
                f"{table.path}: column {column!r}: expected 'resource.' and a name that is not "
                "cpu or memory"
            )
        columns[name] = column
    return columns


def read_attributes(table: TraceTable, columns: dict[str, str]) -> tuple[Attributes, ...]:
    """For each row its attributes, by the column each is read from; an empty field is an attribute
    the node lacks."""
    rows: list[dict[str, Value]] = [{} for _ in range(len(table))]
    for name, column in columns.items():
        texts, code = codes(table.texts(column, optional=True, length_max=ATTRIBUTE_MAX))
        values = [as_value(text) for text in texts]
        for row, k in zip(rows, code.tolist(), strict=True):
            if values[k] != "":
                row[name] = values[k]
    return tuple(rows)


def write_nodes(nodes: NodeTable, path: str | Path) -> None:
    """A node table to a CSV or Parquet file, by its suffix."""
    import polars as pl

    path = check_suffix(path)
    sizes = size_columns(nodes.resources, nodes.total)
    columns = {"node_id": pl.Series(list(nodes.names), dtype=pl.String)}
    columns |= {"cpu": pl.Series(sizes.pop("cpu")), "mem_gb": pl.Series(sizes.pop("memory"))}
    columns |= {f"{RESOURCE}{name}": pl.Series(size) for name, size in sizes.items()}
    names = sorted({name for node in nodes.attributes for name in node})
    for name in names:
        if name in columns or name.startswith(RESOURCE):
            raise InputError(
                f"{path}: an attribute cannot be called {name!r}, that is the name of a size"
            )
        columns[name] = pl.Series(_attribute_texts(nodes.attributes, name, path), dtype=pl.String)
    frame = pl.DataFrame(columns)
    nodes_of(TraceTable(path, frame))
    write_frame(frame, path)


def _attribute_texts(attributes: Sequence[Attributes], name: str, path: Path) -> list[str | None]:
    """One attribute of all nodes as text; a value that would read back as another is refused."""
    texts: list[str | None] = []
    for node in attributes:
        text = value_text(node[name]) if name in node else None
        if text is not None and (node[name] == "" or as_value(text) != node[name]):
            raise InputError(
                f"{path}: attribute {name}: {text!r} cannot be written as text that reads back "
                "the same"
            )
        texts.append(text)
    return texts
