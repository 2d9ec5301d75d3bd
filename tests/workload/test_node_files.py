"""Node tables as files."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from murmuration.base.errors import InputError
from murmuration.base.resources import Resources
from murmuration.workload.nodes import NodeTable, read_nodes, write_nodes

if TYPE_CHECKING:
    from tests.workload.conftest import Write

HAND = "node_id,cpu,mem_gb,resource.gpu,zone,generation\nn1,4,16,2,a,3\nn0,0.5,1.5,,,3.5\n"
NAMES = st.text(st.characters(blacklist_categories=("Cc", "Cs")), min_size=1, max_size=8).filter(
    lambda t: t.strip()
)
KEYS = st.sampled_from(["zone", "rack/row", "generation", "a b"])
VALUES = st.one_of(
    st.sampled_from(["a", "b c", "x,y", "T4", 'q"q']),
    st.floats(allow_nan=False, allow_infinity=False),
)


@st.composite
def node_tables(draw: st.DrawFn) -> NodeTable:
    names = draw(st.lists(NAMES, min_size=1, max_size=6, unique=True))
    resources = Resources(
        ("cpu", "memory", *draw(st.lists(st.sampled_from(["gpu", "disk"]), unique=True)))
    )
    sizes = st.lists(st.integers(0, 2**49), min_size=len(resources), max_size=len(resources))
    total = np.array([draw(sizes) for _ in names], dtype=np.int64)
    return NodeTable(
        resources, tuple(names), total, tuple(draw(st.dictionaries(KEYS, VALUES)) for _ in names)
    )


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@settings(max_examples=40, deadline=None)
@given(nodes=node_tables())
def test_what_is_written_reads_back_the_same(suffix: str, nodes: NodeTable) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"nodes{suffix}"
        write_nodes(nodes, path)
        back = read_nodes(path)
    assert (back.resources, back.names, back.attributes) == (
        nodes.resources,
        nodes.names,
        nodes.attributes,
    )
    np.testing.assert_array_equal(back.total, nodes.total)


def test_by_hand(write: Write) -> None:
    nodes = read_nodes(write("nodes.csv", HAND))
    assert nodes.resources.names == ("cpu", "memory", "gpu")
    assert nodes.names == ("n1", "n0")
    assert nodes.total.tolist() == [
        [4_000_000, 16_000_000_000, 2_000_000],
        [500_000, 1_500_000_000, 0],
    ]
    assert nodes.attributes == ({"zone": "a", "generation": 3.0}, {"generation": 3.5})


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "n0,0.5",
            "n0,-1",
            " line 3: cpu: expected a finite number from 0 to 1125899906, got '-1'",
        ),
        ("n0,", "n1,", " line 3: node_id: 'n1' is there twice, first on line 2"),
        (",3.5", "", " line 3: expected 6 fields, got 5"),
        (
            "mem_gb",
            "memory",
            ": column 'mem_gb' is missing; it has cpu, generation, memory, node_id, "
            "resource.gpu, zone",
        ),
        (
            ".gpu",
            ".cpu",
            ": column 'resource.cpu': expected 'resource.' and a name that is not cpu or memory",
        ),
    ],
)
def test_bad_tables(write: Write, old: str, new: str, sentence: str) -> None:
    path = write("nodes.csv", HAND.replace(old, new))
    with pytest.raises(InputError) as error:
        read_nodes(path)
    assert str(error.value) == f"{path}{sentence}"


def test_header_only(write: Write) -> None:
    with pytest.raises(InputError, match="expected at least one row, there are no nodes"):
        read_nodes(write("nodes.csv", "node_id,cpu,mem_gb\n"))


@pytest.mark.parametrize(
    "attributes", [{"zone": "3"}, {"zone": ""}, {"zone": " a"}, {"cpu": "a"}, {"resource.x": "a"}]
)
def test_what_could_not_be_read_back_is_not_written(
    tmp_path: Path, write: Write, attributes: dict[str, str]
) -> None:
    nodes = replace(read_nodes(write("nodes.csv", HAND)), attributes=(attributes, {}))
    with pytest.raises(InputError, match="cannot be"):
        write_nodes(nodes, tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
