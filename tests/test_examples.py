"""The examples run as the docs tell a reader to, from the root of a checkout, and print what was
recorded."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
#: Kernels may have to be compiled first, on a machine that is busy.
pytestmark = pytest.mark.timeout(3600)
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if path.with_suffix(".out").exists())
NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_an_example_prints_what_was_recorded(script: Path) -> None:
    run = subprocess.run(
        [sys.executable, f"examples/{script.name}"],
        cwd=EXAMPLES.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout == script.with_suffix(".out").read_text()


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run the lines of a cell; what its last expression shows, as a notebook would show it."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)
    return value._repr_html_() if hasattr(value, "_repr_html_") else repr(value)


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs_from_top_to_bottom(
    notebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every cell runs, and every last line shows something."""
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.syspath_prepend(str(EXAMPLES))
    # What a cell defines belongs to the program that runs it.
    names = vars(sys.modules["__main__"])
    before = dict(names)
    try:
        for cell in json.loads(notebook.read_text())["cells"]:
            if cell["cell_type"] == "code":
                run_cell("".join(cell["source"]), names)
        shown = run_cell("comparison", names)
        assert "shortest wait" in shown and "<iframe" in shown
        assert run_cell("len(comparison.figures) >= 3", names) == "True"
    finally:
        for name in names.keys() - before.keys():
            del names[name]


def test_there_are_examples() -> None:
    assert SCRIPTS and NOTEBOOKS
