"""Folders of results: named by what differs, and never replaced by another command in silence."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from murmuration.experiments import record
from murmuration.experiments.specs import make_study

WORKLOAD = {"arrivals_per_s": 0.1, "task_duration_s": 30, "task_cpu": 1, "task_memory": "1G"}


def made(nodes: int, command: str = "murmur compare x") -> record.CommandRecord:
    tables = {"cluster": {"nodes": nodes}, "workload": {"w": WORKLOAD}}
    return record.record_command(command, [make_study(tables).base])


def test_a_folder_is_named_by_what_differs() -> None:
    name = record.name_folder("omega-a-compare", ["scheduler.placement=mine:pack"], 0.1)
    assert name == "omega-a-compare-placement=mine_pack-days=0.1"


@given(st.lists(st.text(), max_size=8), st.none() | st.floats(0, 1e9))
def test_any_name_can_be_a_folder(settings: list[str], days: float | None) -> None:
    name = record.name_folder("runs", settings, days)
    assert name.startswith("runs") and "/" not in name and "\0" not in name
    assert len(name) <= record.NAME_MAX


def test_other_results_are_not_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "x"
    for nodes, name in ((10, "x"), (20, "x-2"), (30, "x-3"), (20, "x-2"), (10, "x")):
        chosen = record.choose_folder(folder, made(nodes))
        assert chosen.name == name
        record.write_record(chosen, made(nodes))


def test_the_same_runs_under_another_command_line_go_on_where_they_were(tmp_path: Path) -> None:
    record.write_record(tmp_path / "x", made(10))
    assert record.choose_folder(tmp_path / "x", made(10, "murmur compare x --resume")) == (
        tmp_path / "x"
    )


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    assert record.choose_folder(folder, made(10)) == folder, "it is empty"
    (folder / "notes.txt").write_text("mine")
    assert record.choose_folder(folder, made(10)).name == "x-2"


def test_nothing_is_left_of_a_command_that_failed(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "x"
    record.write_record(folder, made(10))
    record.forget(folder, [folder, folder.parent])
    assert list(tmp_path.iterdir()) == []


def test_results_stay(tmp_path: Path) -> None:
    record.write_record(tmp_path / "x", made(10))
    (tmp_path / "x" / "summary.json").write_text("{}")
    record.forget(tmp_path / "x", [tmp_path / "x"])
    assert record.read_record(tmp_path / "x") == made(10)
