"""`murmur autoscale` as a user meets it: what it prints and writes, and one sentence for every bad
input."""

from __future__ import annotations

import json
import math
import statistics
from pathlib import Path

import polars as pl
import pytest
from tests.cli.conftest import Murmur
from tests.cli.test_bad_input import check

SCENARIO = """
name = "web"
seed = 5
seconds = 240

[autoscaler]
cycle_s = 20
window_s = 20

[[autoscaler.type]]
name = "small"
capacity = 1
price = 1.0

[[autoscaler.type]]
name = "large"
capacity = 4
price = 5.0

[requests]
rate = [[0, 20], [120, 40]]
"""


@pytest.fixture
def web(tmp_path: Path) -> Path:
    path = tmp_path / "web.toml"
    path.write_text(SCENARIO)
    return path


def test_one_json_document_with_stable_names(murmur: Murmur, web: Path) -> None:
    answer = murmur("autoscale", "web.toml", "--json", "--seed", "9")
    assert answer.code == 0, answer.err
    summary = json.loads(answer.out)
    assert list(summary) == [
        "scenario",
        "autoscaler",
        "seed",
        "seconds",
        "requests",
        "response_s",
        "capacity",
        "nodes",
        "types",
        "cost",
        "one_cycle",
        "timing",
    ]
    assert (summary["scenario"], summary["autoscaler"], summary["seed"], summary["seconds"]) == (
        "web",
        "depas",
        9,
        240,
    )
    assert set(summary["requests"]) == {
        "arrived",
        "done",
        "rejected",
        "lost",
        "in_flight",
        "rejected_fraction",
        "hops_mean",
    }
    assert set(summary["response_s"]) == {"mean", "p50", "p95", "p99"}
    assert set(summary["capacity"]) == {
        "mean",
        "optimum_mean",
        "max",
        "inside_fraction",
        "below_fraction",
        "above_fraction",
        "oscillations",
    }
    assert set(summary["nodes"]) == {"mean", "max", "added", "removed", "crashed", "refused"}
    assert summary["types"]["small"]["last"] > 0
    assert not Path("runs").exists(), "with --json and no folder named, nothing is written"


def test_results_in_a_folder_are_the_same_for_the_same_seed(
    murmur: Murmur, web: Path, tmp_path: Path
) -> None:
    for folder in ("a", "b"):
        assert murmur("autoscale", "web.toml", "--out", folder).code == 0
    for name in ("summary.json", "series.parquet", "scenario.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    series = pl.read_parquet(tmp_path / "a" / "series.parquet")
    assert {
        "time_s",
        "rate",
        "capacity",
        "optimum",
        "band_low",
        "band_high",
        "nodes.small",
        "cost",
    } <= set(series.columns)
    assert len(series) == 241
    page = (tmp_path / "a" / "report.html").read_text()
    for title in (
        "Capacity against the band",
        "Nodes by type",
        "Rejected requests",
        "Response time",
        "Cost so far",
    ):
        assert title in page


def test_several_scalers_on_the_same_requests(murmur: Murmur, web: Path, tmp_path: Path) -> None:
    answer = murmur(
        "autoscale", "web.toml", "-s", "depas,threshold,oracle", "--json", "--out", "all"
    )
    runs = json.loads(answer.out)["runs"]
    assert [run["autoscaler"] for run in runs] == ["depas", "threshold", "oracle"]
    assert len({run["requests"]["arrived"] for run in runs}) == 1
    assert (tmp_path / "all" / "oracle-seed5" / "summary.json").exists()
    table = murmur("autoscale", "web.toml", "-s", "oracle", "--out", "o").out
    assert "inside band" in table and "oracle" in table


def test_replicas_have_consecutive_seeds_and_intervals(
    murmur: Murmur, web: Path, tmp_path: Path
) -> None:
    """Each figure is the mean of runs with one seed each, with Student's interval."""
    command = ("autoscale", "web.toml", "-s", "depas,oracle", "--json")
    alone = [json.loads(murmur(*command, "--seed", str(seed)).out)["runs"] for seed in (5, 6, 7)]
    answer = murmur(*command, "--replicas", "3", "--jobs", "1", "--out", "many")
    together = json.loads(answer.out)
    assert [run["seed"] for run in together["runs"]] == [[5, 6, 7], [5, 6, 7]]
    for place, run in enumerate(together["runs"]):
        costs = [runs[place]["cost"]["total"] for runs in alone]
        figure = run["cost"]["total"]
        assert figure["mean"] == pytest.approx(statistics.mean(costs))
        # Student's t for two degrees of freedom and 95 %: 4.303.
        half = 4.303 * statistics.stdev(costs) / math.sqrt(3)
        assert figure["high"] - figure["mean"] == pytest.approx(half)
    assert together["verdict"][0].startswith("Compared with depas, seed by seed; 3 seeds")
    assert "±" in (tmp_path / "many" / "report.html").read_text()
    stored = json.loads((tmp_path / "many" / "summary.json").read_text())
    assert stored["runs"][0]["cost"] == together["runs"][0]["cost"]


def test_resume_makes_only_what_is_missing(murmur: Murmur, web: Path, tmp_path: Path) -> None:
    command = ("autoscale", "web.toml", "--replicas", "2", "--jobs", "1", "--out", "r", "--json")
    first = json.loads(murmur(*command).out)
    kept, again = tmp_path / "r" / "depas-seed5", tmp_path / "r" / "depas-seed6"
    written = (kept / "series.parquet").stat().st_mtime_ns
    (again / "summary.json").unlink()
    second = json.loads(murmur(*command, "--resume").out)
    for document in (first, second):
        document.pop("timing")
    assert first == second and (again / "summary.json").exists()
    assert (kept / "series.parquet").stat().st_mtime_ns == written


def test_other_settings_get_a_folder_of_their_own(
    murmur: Murmur, web: Path, tmp_path: Path
) -> None:
    for setting in ("autoscaler.cycle_s=20", "autoscaler.cycle_s=30"):
        assert murmur("autoscale", "web.toml", "--set", setting).code == 0
    folders = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert folders == ["web-depas-seed5-cycle_s=20", "web-depas-seed5-cycle_s=30"]
    page = (tmp_path / "runs" / folders[0] / "report.html").read_text()
    assert "Made by: murmur" in page


def test_a_rate_file_beside_the_scenario(murmur: Murmur, web: Path, tmp_path: Path) -> None:
    (tmp_path / "rate.csv").write_text(
        "time_s,rate\n" + "".join(f"{30 * k},{k % 3}\n" for k in range(8))
    )
    web.write_text(SCENARIO.replace("rate = [[0, 20], [120, 40]]", 'trace = "rate.csv"\npeak = 40'))
    summary = json.loads(murmur("autoscale", "web.toml", "--json").out)
    assert summary["requests"]["arrived"] == pytest.approx(240 * 40 * 7 / 16, rel=0.1)


BAD = [
    ("autoscaler.knid=depas", ["autoscaler.knid", "did you mean 'kind'"]),
    ("autoscaler.kind=depass", ["autoscaler.kind", "did you mean 'depas'"]),
    ("autoscaler.formula=old", ["autoscaler.formula", "heterogeneous"]),
    ("autoscaler.target_load=0", ["autoscaler.target_load", "above 0"]),
    ("autoscaler.target_load=1.2", ["autoscaler.target_load", "up to 1"]),
    ("autoscaler.band=0", ["autoscaler.band", "above 0"]),
    ("autoscaler.band=0.4", ["autoscaler.band", "0.3 to 1.1"]),
    ("autoscaler.target_load=0.1", ["autoscaler.band", "0 to 0.2"]),
    ("autoscaler.cycle_s=0", ["autoscaler.cycle_s"]),
    ("autoscaler.window_s=1.5", ["autoscaler.window_s", "expected a whole number"]),
    ("autoscaler.nodes_min=9000000", ["autoscaler.nodes_min"]),
    ("autoscaler.nodes_max=5", ["autoscaler.nodes_max", "29 nodes"]),
    ("autoscaler.overlay.degree=0", ["autoscaler.overlay.degree"]),
    ("autoscaler.overlay.exchange=51", ["autoscaler.overlay.exchange", "up to 50"]),
    ("autoscaler.type=[]", ["autoscaler.type", "at least one"]),
    (
        "autoscaler.type=[{name='a', capacity=0}]",
        ["autoscaler.type[0].capacity", "from 1", "got 0"],
    ),
    ("autoscaler.type=[{name='a', capacity=1, price=-1}]", ["autoscaler.type[0].price", "from 0"]),
    (
        "autoscaler.type=[{name='a', capacity=1}, {name='a', capacity=2}]",
        ["autoscaler.type[1].name", "twice"],
    ),
    (
        "autoscaler.type=[{name='a', capacty=1}]",
        ["autoscaler.type[0].capacty", "did you mean 'capacity'"],
    ),
    ("autoscaler.type=[{name='a', capacity=1, from_s=9}]", ["no type is on offer at second 0"]),
    ("autoscaler.choose=cheepest", ["autoscaler.choose", "did you mean 'cheapest'"]),
    ("autoscaler.choose=nowhere:rule", ["autoscaler.choose", "nowhere:rule"]),
    ("requests.rate=-1", ["requests.rate", "above 0"]),
    ("requests.rate=[[5, 1]]", ["requests.rate", "second 0"]),
    ("requests.rate=[[0, 1], [9, 2], [9, 3]]", ["requests.rate[2][0]", "rise"]),
    ("requests.rate=[[0, 0]]", ["above 0 at some time"]),
    ("requests.trace=rate.csv", ["requests", "one of rate and trace"]),
    ("requests.queue_max=-1", ["requests.queue_max"]),
    ("requests.execution_s=0", ["requests.execution_s"]),
    ("requests.hops_max=-1", ["requests.hops_max"]),
    ("requests.gaps=fill", ["requests.gaps", "hold"]),
    ("faults.loss=1", ["faults.loss", "0.99"]),
    ("faults.crash_share=0.3", ["faults.crash_s", "faults.crash_share"]),
    ("seconds=0", ["seconds", "above 0"]),
    ("cluster.nodes=5", ["unknown key 'cluster'"]),
]


@pytest.mark.parametrize(("setting", "words"), BAD, ids=[setting for setting, _ in BAD])
def test_bad_input_gets_one_sentence(
    murmur: Murmur, web: Path, tmp_path: Path, setting: str, words: list[str]
) -> None:
    check(murmur, tmp_path, ("autoscale", "web.toml", "--set", setting, "--out", "out"), *words)


FILES = {
    "gap": (
        "".join(f"{60 * k},1\n" for k in range(20)) + "1500,1\n",
        ["rate.csv line 21", "a gap of 360 s"],
    ),
    "unsorted": ("0,1\n60,1\n30,1\n", ["rate.csv line 3", "times that rise"]),
    "empty": ("", ["rate.csv", "empty"]),
}


@pytest.mark.parametrize("what", FILES)
def test_a_bad_rate_file_gets_one_sentence(
    murmur: Murmur, web: Path, tmp_path: Path, what: str
) -> None:
    (tmp_path / "rate.csv").write_text(FILES[what][0])
    web.write_text(SCENARIO.replace("rate = [[0, 20], [120, 40]]", 'trace = "rate.csv"'))
    check(murmur, tmp_path, ("autoscale", "web.toml", "--out", "out"), *FILES[what][1])


def test_other_bad_arguments(murmur: Murmur, web: Path, tmp_path: Path) -> None:
    check(
        murmur,
        tmp_path,
        ("autoscale", "web.toml", "-s", "depas,hpa"),
        "unknown autoscaler 'hpa'",
        "threshold",
    )
    check(murmur, tmp_path, ("autoscale", "depass"), "did you mean 'depas'")
    check(murmur, tmp_path, ("autoscale", "small.toml"), "[autoscaler]")
    check(murmur, tmp_path, ("simulate", "web.toml"), "murmur autoscale")
    check(murmur, tmp_path, ("autoscale", "omega-a"), "[autoscaler]")


def test_what_is_recorded_is_checked(murmur: Murmur, web: Path) -> None:
    made = murmur(
        *("autoscale", "web.toml", "-s", "depas,threshold", "--detail", "--jobs", "1"),
        *("--out", "recorded"),
    )
    assert made.code == 0, made.err
    folders = sorted(str(path.parent) for path in Path("recorded").glob("*/requests.parquet"))
    checked = murmur("check", *folders)
    assert checked.code == 0, checked.err
    assert (checked.out + checked.err).count("0 differ, 0 rules are broken") == len(folders) == 2
    refused = murmur("autoscale", "web.toml", "--detail", "--json")
    assert refused.code == 2 and "--detail: expected --out DIR" in refused.err
