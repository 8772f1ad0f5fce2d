"""examples/quickstart.ipynb runs to its last cell, says what it should, and charts the report."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

NOTEBOOK = Path(__file__).resolve().parents[2] / "examples" / "quickstart.ipynb"


def code_cells() -> list[str]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run_cell(text: str, number: int, names: dict[str, Any]) -> Any:
    """Runs a cell; the value of its last line, which Jupyter would show, or None."""
    tree = ast.parse(text)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, f"cell {number}", "exec"), names)
    return (
        None if last is None else eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
    )


def test_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names: dict[str, Any] = {}
    shown = [run_cell(text, number, names) for number, text in enumerate(code_cells(), 1)]
    out = capsys.readouterr().out
    assert "400 photos in" in out and "native" in out and "python —" not in out
    assert "epoch 3: 100% of 400 right" in out or "epoch 3: 9" in out, out
    assert "the third batch is the same: True" in out
    pictures = [value._repr_html_() for value in shown if hasattr(value, "_repr_html_")]
    assert pictures and "<svg" in pictures[0] and "wait" in pictures[0], "the report, as Jupyter shows it"


def test_it_is_stored_without_outputs() -> None:
    """What it shows depends on the machine, and old output would be nobody's."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert not [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")]
    assert len({cell["id"] for cell in cells}) == len(cells) > 10


@pytest.mark.slow
def test_jupyter_runs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    kinds = [list(output.get("data", ())) for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any("text/html" in kind for kind in kinds)
