"""Imports while a function is traced: what a module's body makes is real, and whole."""

import subprocess
import sys
import textwrap

import braze
import pytest
import torch
from support import same

BODY = """
import torch
Z = torch.ones(2)
L = torch.nn.Linear(2, 2)
NAMES = []
def register(name):
    NAMES.append(name)
    return name
class Kind:
    pass
for name in "abc":
    setattr(Kind, name, register(name))
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of its own for each test, with a module whose body makes tensors and calls."""
    name = "package_" + tmp_path.name.replace("-", "_")
    folder = tmp_path / name
    folder.mkdir()
    (folder / "__init__.py").write_text("from . import inner\n")
    (folder / "inner.py").write_text(BODY)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield name
    for loaded in [module for module in sys.modules if module.startswith(name)]:
        del sys.modules[loaded]


STATEMENTS = {
    "import": "import {0}.inner as m",
    "from": "from {0} import inner as m",
    "importlib": "import importlib\n    m = importlib.import_module('{0}.inner')",
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("statement", STATEMENTS)
def test_what_a_module_makes_is_real(package, statement, dynamic, capfd):
    space = {"torch": torch}
    source = f"def f(x):\n    {STATEMENTS[statement].format(package)}\n    return m.L(x) + m.Z"
    exec(source, space)
    x = torch.randn(3, 2)
    with torch.no_grad():
        got = braze.compile(space["f"], dynamic=dynamic)(x)
        same(got, space["f"](x))
    inner = sys.modules[package + ".inner"]
    assert inner.Z.tolist() == [1, 1] and inner.NAMES == ["a", "b", "c"] and inner.Kind.c == "c"
    assert inner.L.weight.requires_grad and inner.L.weight.is_leaf
    assert "internal error" not in capfd.readouterr().err


def test_a_lazy_import_inside_of_pytorch():
    """Metadata of some operators imports sympy and mpmath, whose bodies write to classes."""
    program = """
        import torch, braze
        def f(x):
            return torch.multinomial(torch.ones(4), 2)
        fast = braze.compile(f)
        fast(torch.ones(4)), fast(torch.ones(6))
        torch.optim.Adam([torch.nn.Parameter(torch.ones(2))])
        import mpmath
        print(mpmath.mpf(2) + 1)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.stdout == "3.0\n", done.stderr[-2000:]


def test_a_name_that_is_not_there():
    def f(x):
        try:
            from torch import no_such_name
        except ImportError as error:
            return str(error), error.name, error.path
        return no_such_name

    assert braze.compile(f)(torch.ones(2)) == f(torch.ones(2))
