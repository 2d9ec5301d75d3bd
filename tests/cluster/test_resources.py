"""Amounts: what people write becomes exact whole numbers, and what makes no sense is refused in one
sentence."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from murmuration.base.errors import InputError
from murmuration.base.resources import AMOUNT_MAX, MICRO, Resources, format_amount, parse_quantity

PLAIN = Resources()
WITH_GPU = Resources(("cpu", "memory", "gpu"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (2, 2.0),
        (0, 0.0),
        (1.5, 1.5),
        ("500m", 0.5),
        ("250u", 0.00025),
        ("3n", 3e-9),
        ("2k", 2000.0),
        ("2K", 2000.0),
        ("1.5G", 1.5e9),
        ("1M", 1e6),
        ("1T", 1e12),
        ("1P", 1e15),
        ("1Ki", 1024.0),
        ("2Gi", 2_147_483_648.0),
        (".5Mi", 524_288.0),
        ("1e3", 1000.0),
        ("12e-1k", 1200.0),
        ("  4 G  ", 4e9),
        ("+3", 3.0),
    ],
)
def test_units_are_read_as_kubernetes_reads_them(text: str | float, value: float) -> None:
    assert parse_quantity(text) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("name", "text", "exact"),
    [
        ("cpu", 1.1, 1_100_000),
        ("cpu", "500m", 500_000),
        ("cpu", "1u", 1),
        ("cpu", "0.4u", 0),
        ("memory", "1.5G", 1_500_000_000),
        ("memory", "16Gi", 17_179_869_184),
        ("memory", "1Pi", AMOUNT_MAX),
        ("gpu", 8, 8_000_000),
        ("gpu", "250m", 250_000),
    ],
)
def test_amounts_are_exact_integers(name: str, text: str | float, exact: int) -> None:
    """Memory in bytes, everything else in millionths."""
    assert WITH_GPU.exact(name, text) == exact


@given(st.integers(0, AMOUNT_MAX // MICRO - 1), st.integers(0, 999_999))
def test_a_decimal_of_six_places_loses_nothing(whole: int, millionths: int) -> None:
    text = f"{whole}.{millionths:06d}"
    assert PLAIN.exact("cpu", text) == Fraction(text) * MICRO


@given(st.integers(0, AMOUNT_MAX))
def test_bytes_lose_nothing(amount: int) -> None:
    assert PLAIN.exact("memory", amount) == PLAIN.exact("memory", str(amount)) == amount


@pytest.mark.parametrize(
    "bad", ["", "two", "1.2.3", "--1", "1 2", "G", "nan", "inf", math.nan, math.inf, "0x10"]
)
def test_what_is_not_a_number_is_refused(bad: str | float) -> None:
    with pytest.raises(InputError) as error:
        parse_quantity(bad, "cluster.cpu")
    assert (
        str(error.value)
        == f"cluster.cpu: expected a number such as 2, '500m' or '2Gi', got {bad!r}"
    )


@pytest.mark.parametrize("bad", [True, None, [1], {"cpu": 1}])
def test_other_types_are_refused(bad: object) -> None:
    with pytest.raises(
        InputError, match=r"cluster\.cpu: expected a number such as 2, '500m' or '2Gi', got"
    ):
        parse_quantity(bad, "cluster.cpu")  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [-1, "-0.5", "-1Gi", "1e999", "-1e999"])
def test_negative_and_infinite_sizes_are_refused(bad: str | float) -> None:
    with pytest.raises(InputError) as error:
        parse_quantity(bad, "task_cpu")
    assert (
        str(error.value)
        == f"task_cpu: expected a size that is neither negative nor infinite, got {bad!r}"
    )


@pytest.mark.parametrize(
    ("text", "unit", "hint"), [("2GB", "GB", "'G'"), ("3gi", "gi", "'Gi'"), ("1mi", "mi", "'Mi'")]
)
def test_an_unknown_unit_names_the_nearest(text: str, unit: str, hint: str) -> None:
    with pytest.raises(InputError) as error:
        parse_quantity(text, "memory")
    assert (
        str(error.value) == f"memory: {text!r} has an unknown unit {unit!r}; did you mean {hint}?"
    )


def test_an_unknown_unit_like_none_lists_all() -> None:
    with pytest.raises(
        InputError, match=r"'64Q' has an unknown unit 'Q'; known: E, Ei, G, Gi, .*, u$"
    ):
        parse_quantity("64Q")


@pytest.mark.parametrize(
    ("name", "text"),
    [("memory", "1.01Pi"), ("memory", AMOUNT_MAX + 4), ("cpu", "2G"), ("gpu", 10**300)],
)
def test_too_large_is_refused(name: str, text: str | float) -> None:
    with pytest.raises(
        InputError, match=rf"^where: expected at most 1\.126e\+0\d \w+, got {text!r}$"
    ):
        WITH_GPU.exact(name, text, "where")


def test_the_largest_amount_has_room_for_the_arithmetic_of_scores() -> None:
    """Scores multiply by a hundred in 64-bit integers, and files keep amounts as floats."""
    assert AMOUNT_MAX * 100 < 2**63
    assert int(float(AMOUNT_MAX)) == AMOUNT_MAX
    assert AMOUNT_MAX <= 2**53


def test_a_vector_has_a_column_for_each_name() -> None:
    row = WITH_GPU.vector({"gpu": 1, "memory": "2Ki", "cpu": "100m"})
    assert row.tolist() == [100_000, 2048, 1_000_000]
    assert WITH_GPU.vector({"cpu": 2}).tolist() == [2_000_000, 0, 0]
    assert WITH_GPU.units().tolist() == [1e6, 1.0, 1e6]
    assert len(WITH_GPU) == 3


def test_an_unknown_resource_names_the_nearest() -> None:
    with pytest.raises(InputError) as error:
        WITH_GPU.vector({"gpus": 1}, "cluster.resources")
    assert (
        str(error.value) == "cluster.resources.gpus: unknown resource 'gpus'; did you mean 'gpu'?"
    )
    with pytest.raises(InputError, match="unknown resource 'disk'; known: cpu, memory"):
        PLAIN.exact("disk", 1)


def test_a_bad_amount_names_its_field() -> None:
    with pytest.raises(
        InputError, match=r"^cluster\.group\[1\]\.memory: expected a size that is neither"
    ):
        PLAIN.vector({"cpu": 1, "memory": "-1G"}, "cluster.group[1]")


@pytest.mark.parametrize(
    "names",
    [(), ("cpu",), ("memory", "cpu"), ("cpu", "memory", "gpu", "gpu"), ("cpu", "memory", "cpu")],
)
def test_cpu_and_memory_come_first_and_names_are_distinct(names: tuple[str, ...]) -> None:
    with pytest.raises(
        InputError, match="resources: expected cpu, memory, then distinct names, got"
    ):
        Resources(names)


def test_rows_are_described_in_units_people_use() -> None:
    assert PLAIN.describe([1_100_000, 1_500_000_000]) == "1.1 CPU, 1.5 GB"
    assert WITH_GPU.describe([0, 0, 0]) == "0 CPU, 0 GB"
    assert WITH_GPU.describe(WITH_GPU.vector({"cpu": 2, "gpu": "500m"})) == "2 CPU, 0 GB, 0.5 gpu"
    assert format_amount("licence", 3 * MICRO) == "3 licence"
