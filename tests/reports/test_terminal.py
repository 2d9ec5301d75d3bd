"""Numbers read the same everywhere, and terminal tables show names as they are."""

from __future__ import annotations

import io
import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console, RenderableType

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


def shown(table: RenderableType, width: int = 120) -> str:
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=True, color_system="standard").print(table)
    return out.getvalue()


def test_comparison_table() -> None:
    table = comparison_table(["name", "wait"], [["[bold]a", 1.23456], ["b", None]], "Runs")
    text = shown(table)
    assert "[bold]a" in text and "1.235" in text and "—" in text and "Runs" in text
    assert re.search(r"^b +—", text, re.M), "text on the left, figures on the right"


ROW = ["shared-state-machine-all-or-nothing", 127_962, 0.2345, "25.15\u00a0%", 1_234_567.0, 3]
HEADINGS = ["scheduler", "jobs", "wait s", "busy", "p99", "left"]


@given(st.integers(min_value=20, max_value=200), st.permutations(HEADINGS[1:]))
def test_no_figure_is_ever_cut(width: int, order: list[str]) -> None:
    """Whatever the width, a column is there as a whole or named below the table."""
    text = shown(comparison_table(HEADINGS, [ROW], drop_first=order[:2]), width)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert all(cell_len(line) <= width for line in plain.splitlines())
    table, _, missing = " ".join(plain.split()).partition("no room for: ")
    for heading, cell in zip(HEADINGS[1:], ROW[1:], strict=True):
        listed = heading in missing.split(", ")
        whole = rf"(?<![\d.,]){re.escape(' '.join(human(cell).split()))}(?![\d.,])"
        assert listed != bool(re.search(whole, table.split("─")[-1]))


def test_what_is_dropped_first() -> None:
    text = shown(comparison_table(HEADINGS, [ROW], drop_first=["jobs"]), 60)
    assert "127,962" not in text and "no room for: jobs" in text
    assert "no room for" not in shown(comparison_table(HEADINGS, [ROW]), 200)


def test_verdict_table() -> None:
    base = {"quantity": "q", "paper": 1, "measured": 2, "low": 0, "high": 3}
    text = shown(
        verdict_table(
            [{**base, "holds": True}, {**base, "holds": False}, {**base, "holds": None}], "Claims"
        )
    )
    assert "\x1b[1;32m✓" in text and "\x1b[1;31m✗" in text and "—" in text
