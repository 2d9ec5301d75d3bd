"""Whoever compares runs is told which of them did not run their workload."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Murmur


def test_compare_warns_of_jobs_that_were_not_placed(murmur: Murmur) -> None:
    """180 CPUs' worth of batch jobs on 120 CPUs."""
    words = ("compare", "small.toml", "-s", "monolithic,machine", "--jobs", "1")
    crowded = ("--set", "workload.batch.arrivals_per_s=0.6")
    answer = murmur(*words, *crowded, "--out", "crowded")
    told = [line for line in answer.err.splitlines() if line.startswith("warning: ")]
    assert [line.split()[1] for line in told] == ["monolithic:", "machine:"], answer.err
    page = Path("crowded/report.html").read_text()
    assert page.count("jobs of batch not placed") >= 2
    document = json.loads(murmur(*words, *crowded, "--json").out)
    assert all("its figures are those of the rest" in text for text in document["warnings"])
    assert len(document["warnings"]) == 2
    assert "warning: " not in murmur(*words, "--out", "calm").err
