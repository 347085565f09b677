"""Braze under a PyTorch that it does not know, or was not compiled for: a warning, then eager."""

import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import braze
import pytest
import torch
from braze import _eager, _torch_version

ROOT = Path(__file__).resolve().parents[3]
NEXT = f"{_torch_version.LAST[0]}.{_torch_version.LAST[1] + 1}"


def run(version, code, *arguments):
    """Of a process in which PyTorch calls itself `version`."""
    # The extension cannot be loaded, as under another PyTorch.
    start = f"import sys, torch; torch.__version__ = {version!r}; sys.modules['braze._C'] = None\n"
    return subprocess.run(
        [sys.executable, *arguments, "-c", start + code], capture_output=True, text=True
    )


PROGRAM = """
import braze
@braze.compile
def f(x): return g(x) + 1
@braze.compile(fullgraph=True, dynamic=True, options={"recompile_limit": 3})
def g(x):
    braze.graph_break()
    assert not braze.is_compiling()
    return h(x) * 2
@braze.disable
def h(x): return k(x)
@braze.disable(reason="words")
def k(x): return l(x)
@braze.allow_in_graph
@braze.assume_constant_result
def l(x): return x - 1
x = torch.ones(3)
braze.mark_dynamic(x, 0, min=2, max=9); braze.maybe_mark_dynamic(x, 0)
braze.mark_static(x); braze.mark_unbacked(x, 0)
braze.set_stance("default")
with braze.set_stance("fail_on_recompile"): assert f(x).tolist() == [1, 1, 1]
assert braze.set_stance("force_eager")(f)(x).tolist() == [1, 1, 1]
layer = torch.nn.Linear(2, 2)
assert braze.compile(layer) is layer
said = braze.explain(f)(x)
assert said.entries == said.breaks == [] and said.result.tolist() == [1, 1, 1]
assert issubclass(braze.GraphBreakError, RuntimeError) and braze.list_backends()
braze.reset()
import braze.dynamo_backend, importlib
assert braze.dynamo_backend.braze_backend(torch.fx.symbolic_trace(layer), [])(torch.ones(2)).shape == (2,)
print(said)
"""


@pytest.mark.parametrize("version", [NEXT + ".0+cpu", "unheard-of"])
def test_an_unknown_version_is_one_warning_and_eager(version):
    done = run(version, PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Warning: ") == 1
    words = f"works with PyTorch 2.11 to {_torch_version.LAST[0]}.{_torch_version.LAST[1]}, not with {version}"
    assert words in done.stderr and words in done.stdout


def test_so_is_one_that_the_extension_was_not_compiled_for():
    other = "2.11.1" if _torch_version._minor(torch.__version__) != (2, 11) else "2.12.1"
    done = run(other, PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Warning: ") == 1
    built_for = torch.__version__.split("+")[0]
    assert f"it was compiled for PyTorch {built_for}" in done.stderr
    words = f", not for {other}: install it again"
    assert words in done.stderr and words in done.stdout


def test_the_doctor_says_it():
    code = "import runpy; sys.argv = ['braze', 'doctor']; runpy.run_module('braze', run_name='__main__')"
    done = run(NEXT, code, "-W", "ignore")
    assert done.returncode == 1 and done.stdout.startswith("nothing is compiled: "), done.stderr


def test_a_version_that_is_known():
    assert braze.WHY_EAGER is None
    assert _torch_version.why_not("2.13.0+cpu", "2.13.1") is None
    assert "2.13.0a0+git12" in _torch_version.why_not("2.12.0", "2.13.0a0+git12")
    for other in ("2.10.0", "3.0.1", NEXT, "2"):
        assert "works with PyTorch" in _torch_version.why_not(other, other)


def test_the_names_are_those_of_the_extension():
    assert [name for name in braze.__all__ if not hasattr(_eager, name)] == []
    for name in braze.__all__:
        if name not in ("Explanation", "GraphBreakError"):
            assert inspect.signature(getattr(_eager, name)) == inspect.signature(
                getattr(braze, name)
            )


def test_the_versions_are_said_in_one_voice():
    first, last = _torch_version.FIRST, _torch_version.LAST
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = f"torch>={first[0]}.{first[1]},<{last[0]}.{last[1] + 1}"
    assert wanted in project["project"]["dependencies"]
    assert wanted in project["build-system"]["requires"]
    assert re.search(
        rf"PyTorch {first[0]}\.{first[1]} to {last[0]}\.{last[1]}\b",
        (ROOT / "README.md").read_text(),
    )


@pytest.mark.parametrize(
    "module, name", [("_flex", "_get_mod_type"), ("_operator", "_permute_strides")]
)
def test_flex_attention_without_a_private_name(module, name):
    """Nothing is replaced then, and all else compiles."""
    program = f"""
import importlib
_flex = importlib.import_module("torch.nn.attention.flex_attention")
_operator = importlib.import_module("torch._higher_order_ops.flex_attention")
delattr({module}, "{name}")
import braze, torch
from braze import _flex_attention
assert _flex_attention.SUBSTITUTES == {{}}
assert torch.equal(braze.compile(lambda x: x + 1, fullgraph=True)(torch.ones(3)), torch.full((3,), 2.0))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
