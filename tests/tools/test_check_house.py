"""The checks of the house find what they are there to find."""

import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


@pytest.fixture
def house(tmp_path, monkeypatch):
    """check_house over an empty tree, and a function that writes a file into it."""
    monkeypatch.syspath_prepend(str(TOOLS))
    sys.modules.pop("check_house", None)
    import check_house

    monkeypatch.setattr(check_house, "ROOT", tmp_path)
    (tmp_path / "CMakeLists.txt").write_text(
        "braze_library(base)\nbraze_library(graph DEPENDS base)\n"
        "  braze_library(trace TORCH DEPENDS graph)\n"
        "  braze_module(_C FOLDER bindings DEPENDS trace)\n"
    )

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return check_house, write


def test_dependencies_are_transitive(house):
    check_house, _ = house
    allowed = check_house.allowed_folders()
    assert allowed["graph"] == {"graph", "base"}
    assert allowed["bindings"] == {"bindings", "trace", "graph", "base"}


@pytest.mark.parametrize("header", ["<ATen/core/Tensor.h>", "<Python.h>", "<pybind11/pybind11.h>"])
def test_the_core_knows_neither_python_nor_pytorch(house, header):
    check_house, write = house
    path = write("src/graph/a.h", f"#pragma once\n#include {header}\n")
    findings = check_house.check_includes(path, check_house.allowed_folders())
    assert findings == [f"src/graph/a.h:2: the core knows neither Python nor PyTorch: {header}"]
    outside = write("src/trace/a.h", f"#include {header}\n")
    assert check_house.check_includes(outside, check_house.allowed_folders()) == []


def test_layers_hold(house):
    check_house, write = house
    path = write("src/base/a.cpp", '#include "graph/graph.h"\n#include "base/error.h"\n')
    findings = check_house.check_includes(path, check_house.allowed_folders())
    assert findings == ["src/base/a.cpp:1: base/ may not use graph/ (CMakeLists.txt)"]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("python/braze/a.py", "import torch._dynamo\n", "imports the competition"),
        ("python/braze/a.py", "from functorch import vmap\n", "imports the competition"),
        ("src/trace/a.cpp", 'auto* x = std::getenv("HOME");\n', "not getenv"),
        ("docs/a.md", "see /" + "root/x\n", "a path of one machine"),
    ],
)
def test_text_findings(house, name, text, words):
    check_house, write = house
    (finding,) = check_house.check_text(write(name, text))
    assert finding.startswith(f"{name}:1: ")
    assert words in finding


def test_what_is_allowed(house):
    check_house, write = house
    for name, text in {
        "python/braze/dynamo_backend.py": "import torch._dynamo\n",
        "python/braze/a.py": "x = 1  # torch._dynamo would import this\n",
        "bench/a.py": "import torch._dynamo\n",
        "src/base/options.cpp": "getenv(name)\n",
    }.items():
        assert check_house.check_text(write(name, text)) == []


def test_files_headers_and_classes_stay_small(house):
    check_house, write = house
    long = write("src/base/a.h", "int a;\n" * 251)
    assert check_house.check_sizes(long) == ["src/base/a.h: 251 lines, 250 are the most"]
    assert check_house.check_sizes(write("src/base/a.cpp", "int a;\n" * 500)) == []
    assert check_house.check_sizes(write("tests/a.py", "a\n" * 501)) != []


def test_names_of_test_modules_are_unique(house):
    check_house, write = house
    paths = [write(f"tests/{name}", "") for name in ("a/test_x.py", "b/test_y.py", "b/cases.py")]
    assert check_house.check_test_names([*paths, write("tests/a/cases.py", "")]) == []
    assert check_house.check_test_names([*paths, write("tests/b/test_x.py", "")]) == [
        "tests/b/test_x.py: pytest takes it for tests/a/test_x.py"
    ]


def test_methods_are_counted(house):
    check_house, _ = house
    text = """
    class A : public B<int> {
     public:
      A(int a) : a_(f(a)) {}  // not_one();
      void one(int) const;
      int two() { return g(h()); }
      template <class F> void each(F&& f) { f(); }
      struct Inner { void inside(); int field = 0; };
      friend bool operator==(const A&, const A&) = default;
      std::vector<int> field_ = {1, 2};
      int a_ = 0;
    };
    class Declared;
    """
    assert check_house.methods(text) == {"A": 4, "Inner": 1}
