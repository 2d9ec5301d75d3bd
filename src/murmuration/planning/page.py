"""The report of a plan."""

from __future__ import annotations

from typing import Any

from murmuration.cluster.version import __version__
from murmuration.planning.document import table
from murmuration.planning.plan import LABEL, Plan
from murmuration.reports.page import Page, Section, Table


def page(plan: Plan, told: dict[str, Any]) -> Page:
    columns, rows = table(plan)
    return Page(
        f"Plan for {told['snapshot']}", LABEL, (), (Section("Objectives", "", (), (Table("", columns, rows),)),),
        f"Murmuration {__version__}.",
    )  # fmt: skip
