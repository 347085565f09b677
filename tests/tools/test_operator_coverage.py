"""docs/coverage.md says how operators run, and letters stand for what they say."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def operator_coverage(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    sys.modules.pop("operator_coverage", None)
    import operator_coverage

    return operator_coverage


def test_the_page_is_true(operator_coverage):
    """Of each thirty-second operator; `make test-public` looks at all."""
    _, version = operator_coverage.written_rows()
    if torch.__version__.split("+")[0] != version:
        pytest.skip(f"the page is of PyTorch {version}; that version lifts it")
    command = [sys.executable, ROOT / "tools/operator_coverage.py", "--check", "--every", "32"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_what_is_not_true_is_named(operator_coverage, monkeypatch):
    monkeypatch.setattr(operator_coverage, "rows", lambda every: [("abs", ["B"] * 9)])
    (found,) = operator_coverage.differences(1)
    assert found.startswith("abs: the page has ['K'")


def test_letters(operator_coverage):
    kinds = operator_coverage.kinds_of
    assert kinds("%0: f32[3] input 0\nlaunch(%0, %1) kernel fused(...)") == {"K"}
    assert kinds("%2 = aten.conj_physical(%1)\nreturn [%2]") == {"L"}
    assert kinds("%1, %2 = aten.sort(%0, 0, false)") == {"L"}
    assert kinds("%2: f32[2] view of %1 + 1\nreturn [%2]") == {"V"}
    cell = operator_coverage.cell
    assert cell([{"K"}, {"K", "L"}]) == "Kl"
    assert cell([set(), {"B"}]) == "B"
    assert cell([]) == "-"
