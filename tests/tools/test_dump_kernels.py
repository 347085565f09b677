"""Comparing generated kernels finds what differs, and the dump of one function is complete."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def dump_kernels(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOLS))
    sys.modules.pop("dump_kernels", None)
    import dump_kernels

    return dump_kernels


def test_comparison_names_what_differs(dump_kernels, tmp_path):
    before, after = tmp_path / "before", tmp_path / "after"
    for folder in (before, after):
        folder.mkdir()
        (folder / "same.0.cpp").write_text("a\n")
    assert dump_kernels.compare(before, after) == []
    (before / "gone.0.cpp").write_text("")
    (after / "new.0.plan").write_text("")
    for name, old, new in [("changed", "a\nb\n", "a\nc\n"), ("longer", "a\n", "a\nb\n")]:
        (before / name).write_text(old)
        (after / name).write_text(new)
    assert dump_kernels.compare(before, after) == [
        "changed: differs from line 2 on",
        "gone.0.cpp: only in " + str(before),
        "longer: differs at the end",
        "new.0.plan: only in " + str(after),
    ]


def test_names_are_unique(dump_kernels):
    names = [case.name for case in dump_kernels.functions() + dump_kernels.models()]
    assert len(names) > 90
    assert len(set(names)) == len(names)


def run(*arguments):
    return subprocess.run(
        [sys.executable, TOOLS / "dump_kernels.py", *map(str, arguments)],
        capture_output=True,
        text=True,
    )


def test_a_dump_holds_sources_and_plans_without_places(tmp_path):
    pattern = "functions.sum_all"
    for folder in ("before", "after"):
        assert run(tmp_path / folder, "--only", pattern).returncode == 0
    source = (tmp_path / "before" / f"{pattern}.0.cpp").read_text()
    plan = (tmp_path / "before" / f"{pattern}.0.plan").read_text()
    kernels = re.findall(r'^extern "C" \S+ (\w+)', source, re.M)
    assert kernels
    assert all(name in plan for name in kernels)
    assert "dump_kernels.py" not in plan
    same = run(tmp_path / "before", tmp_path / "after")
    count = len(kernels)
    assert same.returncode == 0
    assert same.stdout == f"1 plans, {count} of {count} kernels the same\n"
    (tmp_path / "after" / f"{pattern}.0.cpp").write_text(source + "\n")
    assert run(tmp_path / "before", tmp_path / "after").returncode == 1
    again = run(tmp_path / "before", "--only", pattern)
    assert again.returncode != 0 and "is not empty" in again.stderr


SOURCE = """INLINE f32 helper(f32 x) {{
  return x * {factor};
}}

// kernel scaled
extern "C" i64 k{number}_scaled(void* const* args) {{
  return 0;
}}

// kernel added
extern "C" i64 k{next}_added(void* const* args) {{
  return {term};
}}
"""


def test_kernels_are_compared_one_by_one(dump_kernels, tmp_path):
    before, after = tmp_path / "before", tmp_path / "after"
    for folder in (before, after):
        folder.mkdir()
    (before / "f.0.cpp").write_text(SOURCE.format(factor=2, number=0, next=1, term=3))
    assert dump_kernels.changed_kernels(before, after) == (
        ["f.0: scaled is another", "f.0: added is another"],
        2,
    )
    # Another number or another function beside them is no other kernel.
    (after / "f.0.cpp").write_text(SOURCE.format(factor=5, number=4, next=5, term=3))
    assert dump_kernels.changed_kernels(before, after) == ([], 2)
    (after / "f.0.cpp").write_text(SOURCE.format(factor=2, number=0, next=1, term=4))
    assert dump_kernels.changed_kernels(before, after) == (["f.0: added is another"], 2)
