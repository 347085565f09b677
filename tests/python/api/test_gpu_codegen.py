"""`options={"gpu_codegen": "triton"}`, as far as there is no GPU: the compiler, and who has none."""

import os
import pathlib
import subprocess
import sys

import braze
import pytest
import torch
from braze import _triton

ROOT = pathlib.Path(__file__).parents[3]
FOLDER = os.environ.get("BRAZE_TRITON", str(ROOT / ".venv" / "triton"))
needs_triton = pytest.mark.skipif(
    not (pathlib.Path(FOLDER) / "triton").exists(),
    reason="needs Triton; `make triton` lifts it",
)
SOURCE = """import triton
import triton.language as tl


@triton.jit
def {name}(p0, p1):
    point = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    tl.store(p1 + point, tl.load(p0 + point) + {what})
"""
FLAGS = ["sm=90", "warps=8", "signature=*fp32:16,*fp32:16"]


@pytest.mark.parametrize("language", ["ptx", "Triton", 3, None, []])
def test_other_languages_are_refused(language):
    with pytest.raises(ValueError, match="gpu_codegen must be one of 'cuda', 'triton', not"):
        braze.compile(torch.sin, options={"gpu_codegen": language})


@pytest.mark.parametrize("language", ["cuda", "triton"])
def test_kernels_of_cpus_do_not_mind(language):
    x = torch.randn(100)
    compiled = braze.compile(lambda x: torch.sin(x) + 1, options={"gpu_codegen": language})
    torch.testing.assert_close(compiled(x), torch.sin(x) + 1)


def test_versions():
    assert "pip install triton" in _triton.why_not(None)
    assert "triton 3.1.0 is older than 3.5" in _triton.why_not("3.1.0")
    for version in ("3.5.0", "3.5.1+git123", "3.6.0", "3.7.0", "4.0"):
        assert _triton.why_not(version) == ""


def test_without_triton_the_reason_is_told_once():
    program = (
        "import importlib.util, sys\n"
        "find = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda n, *a: None if n == 'triton' else find(n, *a)\n"
        "import braze, torch\n"
        "for _ in range(2):\n"
        "    f = braze.compile(lambda x: x + 1, options={'gpu_codegen': 'triton'})\n"
        "    assert f(torch.ones(2)).tolist() == [2, 2]\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("kernels on GPUs are CUDA C++ and not Triton") == 1


@needs_triton
def test_sources_are_compiled_side_by_side(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    names = [f"k_{i}" for i in range(3)]
    sources = [(name, SOURCE.format(name=name, what="1.5"), FLAGS) for name in names]
    made = _triton.compile_sources(sources, str(tmp_path / "sources"))
    assert len(made) == 3
    for name, (shared, pointers, cubin) in zip(names, made, strict=True):
        assert shared == 0 and pointers in (1, 2)
        assert cubin.startswith(b"\x7fELF") and name.encode() in cubin
        assert (tmp_path / "sources" / f"{name}.py").exists()
    assert "triton" not in sys.modules


@needs_triton
def test_what_cannot_be_compiled_is_an_error(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(FOLDER)
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    source = SOURCE.format(name="k_bad", what="tl.no_such_thing")
    with pytest.raises(RuntimeError, match="k_bad: "):
        _triton.compile_sources([("k_bad", source, FLAGS)], "")
