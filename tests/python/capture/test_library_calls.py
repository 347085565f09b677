"""Functions of libraries that keep state, read it, or look at frames: every call does what it does
in eager, also when their Python code would run natively while tracing."""

import decimal
import importlib
import inspect
import subprocess
import sys
import traceback
import types

import braze
import numpy
import pytest
import torch

LIBRARIES = (decimal, importlib, inspect, numpy, sys, traceback)  # named in CALLS below
module = types.ModuleType("braze_test_reloaded")


class Loader:
    loads = 0

    def create_module(self, spec):
        return module

    def exec_module(self, module):
        Loader.loads += 1

    def find_spec(self, name, path=None, target=None):
        if name == module.__name__:
            return importlib.util.spec_from_loader(name, self)
        return None


@pytest.fixture
def reloadable(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", [Loader(), *sys.meta_path])
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.__spec__ = importlib.util.spec_from_loader(module.__name__, Loader())


def has_default(q=1):
    return q


class Box:
    def __init__(self):
        self.value, self.items = 1, []


box = Box()


def nothing(k):
    pass


def set_value(k):
    box.value = k


def set_default(k):
    has_default.__defaults__ = (k,)


def set_annotation(k):
    has_default.__annotations__["q"] = (int, str)[k % 2]


def forget_annotation(k):
    has_default.__annotations__.clear()


def print_precision(k):
    numpy.set_printoptions(precision=k + 2)


def division(k):
    numpy.seterr(divide=("warn", "ignore")[k % 2])


def decimal_precision(k):
    decimal.getcontext().prec = 5 + k


def recursion_limit(k):
    sys.setrecursionlimit(3000 + k)


def matmul_precision(k):
    torch.set_float32_matmul_precision(("highest", "high")[k % 2])


def mkldnn(k):
    torch.backends.mkldnn.enabled = bool(k % 2)


CALLS = [
    ("inspect.currentframe().f_code.co_name", nothing),
    ("inspect.stack()[0].function", nothing),
    ("inspect.getmembers(box)[-1]", set_value),
    ("inspect.getattr_static(box, 'value')", set_value),
    ("str(inspect.signature(has_default))", set_default),
    ("inspect.getfullargspec(has_default).defaults", set_default),
    ("inspect.signature(has_default).parameters['q'].annotation", set_annotation),
    ("traceback.extract_stack()[-1].name", nothing),
    ("numpy.get_printoptions()['precision']", print_precision),
    ("str(numpy.array([1 / 3]))", print_precision),
    ("f'{numpy.array([1 / 3])}'", print_precision),
    ("numpy.geterr()['divide']", division),
    ("str(decimal.Decimal(1) / 3)", decimal_precision),
    ("sys.getrecursionlimit()", recursion_limit),
    ("torch.get_float32_matmul_precision()", matmul_precision),
    ("torch.backends.mkldnn.enabled", mkldnn),
]


@pytest.fixture
def restored():
    limit, precision = sys.getrecursionlimit(), decimal.getcontext().prec
    yield
    sys.setrecursionlimit(limit)
    decimal.getcontext().prec = precision
    set_default(1)
    forget_annotation(0)
    numpy.set_printoptions(precision=8)
    numpy.seterr(divide="warn")
    torch.set_float32_matmul_precision("highest")
    torch.backends.mkldnn.enabled = True


@pytest.mark.parametrize("expression, change", CALLS)
def test_state_is_read_anew(expression, change, restored, capfd):
    scope = dict(globals())
    exec(f"def f(x):\n    return x + 1, {expression}\n", scope)
    fn = scope["f"]
    fast, x = braze.compile(fn), torch.ones(3)
    for k in range(4):
        change(k)
        assert fast(x)[1] == fn(x)[1]
    assert "Please report" not in capfd.readouterr().err


EFFECTS = [
    ("importlib.reload(module)", lambda: Loader.loads),
    ("numpy.set_printoptions(precision=3)", lambda: numpy.get_printoptions()["precision"]),
    ("numpy.seterr(divide='ignore')", lambda: numpy.geterr()["divide"]),
]


@pytest.mark.parametrize("statement, state", EFFECTS)
def test_effects_happen_at_every_call(statement, state, restored, reloadable):
    scope = dict(globals())
    exec(f"def f(x):\n    {statement}\n    return x + 1\n", scope)

    def states(fn):
        found, Loader.loads = [], 0
        for _ in range(4):
            numpy.set_printoptions(precision=8)
            numpy.seterr(divide="warn")
            fn(torch.ones(3))
            found.append(state())
        return found

    assert states(braze.compile(scope["f"])) == states(scope["f"])


def test_printed_tracebacks(capsys):
    def f(x):
        traceback.print_stack(limit=1)
        try:
            raise ValueError("shown")
        except ValueError:
            traceback.print_exc()
        return x + 1

    fast = braze.compile(f)
    for _ in range(3):
        fast(torch.ones(3))
        assert capsys.readouterr().err.count("ValueError: shown") == 1


def test_an_attribute_set_again_goes_to_the_end():
    def f(x, b):
        del b.value
        b.value = x
        return x + 1

    fast = braze.compile(f)
    for _ in range(3):
        b = Box()
        fast(torch.ones(3), b)
        assert list(vars(b)) == ["items", "value"]


def test_a_hook_that_is_removed_in_the_same_call():
    layer = torch.nn.Linear(3, 3)

    def f(x):
        handle = layer.register_forward_hook(lambda module, args, out: out * 2)
        y = layer(x)
        handle.remove()
        return y, len(layer._forward_hooks)

    fast, x = braze.compile(f), torch.ones(3)
    with torch.no_grad():
        for _ in range(3):
            (actual, left), expected = fast(x), layer(x) * 2
            assert torch.allclose(actual, expected) and left == len(layer._forward_hooks) == 0


def test_modules_are_made_while_torch_compile_watches_them():
    # torch.compile, once used, wraps Module.__init__ in a function of its own.
    script = """
import torch, torch._dynamo.mutation_guard as guard
guard.install_generation_tagging_init()
import braze
layers = torch.nn.ModuleList([torch.nn.Linear(3, 3) for _ in range(3)])

class Scale(torch.nn.Module):
    def __init__(self, by):
        super().__init__()
        self.by = by

    def forward(self, x):
        return x * self.by

def f(x):
    for layer in layers[:2]:
        x = layer(x)
    return Scale(3)(torch.relu(x))

x = torch.ones(3)
with torch.no_grad():
    fast = braze.compile(f, fullgraph=True)
    for _ in range(3):
        assert torch.allclose(fast(x), f(x))
"""
    subprocess.run([sys.executable, "-c", script], check=True)


class RemovableHandle:
    """Named like one of torch's own classes."""

    def __init__(self, log):
        log.append(len(log))


@pytest.mark.parametrize("name", ["numpy_helpers", "importlib_helpers", "torchlike"])
def test_code_named_like_that_of_libraries_is_evaluated(name):
    helpers = types.ModuleType(name)
    exec("def note(log):\n    log.append('noted')", helpers.__dict__)

    def fn(x, log):
        RemovableHandle(log)
        helpers.note(log)
        return x * len(log)

    fast = braze.compile(fn, fullgraph=True)
    ours, theirs = [], []
    for _ in range(3):
        assert torch.equal(fast(torch.ones(2), ours), fn(torch.ones(2), theirs))
        assert ours == theirs
