"""Numbers read the same everywhere, and terminal tables show names as they are."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from rich.console import Console
from rich.table import Table

from murmuration.reports.formats import tick_label
from murmuration.reports.terminal import comparison_table, human, percent, verdict_table


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "—"),
        (math.nan, "—"),
        (math.inf, "∞"),
        (0.0, "0"),
        (-0.0, "0"),
        (0.123456, "0.1235"),
        (12.3, "12.3"),
        (999.96, "1,000"),
        (12345.6, "12,346"),
        (1234567, "1,234,567"),
        (1.5e12, "1.5e12"),
        (0.0000123456, "1.235e-5"),
        (True, "yes"),
        ("text", "text"),
        (np.float64(0.5), "0.5"),
        (np.int64(7), "7"),
    ],
)
def test_human(value: object, text: str) -> None:
    assert human(value) == text


def test_percent() -> None:
    assert percent(0.1234) == "12.3\u00a0%"
    assert percent(0.5, 0) == "50\u00a0%"
    assert percent(None) == percent(math.nan) == "—"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.1, "0.1"),
        (1, "1"),
        (100, "100"),
        (1000, "1k"),
        (2.5e6, "2.5M"),
        (1e-5, "10⁻⁵"),
        (2e-5, "2·10⁻⁵"),
    ],
)
def test_tick_label(value: float, text: str) -> None:
    assert tick_label(value) == text


def test_tick_label_percent() -> None:
    assert tick_label(0.5, as_percent=True) == "50\u00a0%"


def shown(table: Table) -> str:
    out = io.StringIO()
    Console(file=out, width=120, force_terminal=True, color_system="standard").print(table)
    return out.getvalue()


def test_comparison_table() -> None:
    table = comparison_table(["name", "wait"], [["[bold]a", 1.23456], ["b", None]], "Runs")
    text = shown(table)
    assert "[bold]a" in text and "1.235" in text and "—" in text and "Runs" in text
    assert [column.justify for column in table.columns] == ["left", "right"]


def test_verdict_table() -> None:
    base = {"quantity": "q", "paper": 1, "measured": 2, "low": 0, "high": 3}
    text = shown(
        verdict_table(
            [{**base, "holds": True}, {**base, "holds": False}, {**base, "holds": None}], "Claims"
        )
    )
    assert "\x1b[1;32m✓" in text and "\x1b[1;31m✗" in text and "—" in text
