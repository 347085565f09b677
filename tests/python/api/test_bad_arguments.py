"""What makes no sense as an argument is named, with what is allowed."""

import sys

import braze
import pytest
import torch
from support import same

X = torch.randn(4, 3)


def plain(x):
    return x * 2


@pytest.mark.parametrize(
    "arguments, error, words",
    [
        ({"backend": "inductor"}, ValueError, "unknown backend 'inductor'.*'braze'"),
        ({"backend": 3}, TypeError, "backend must be a string or a callable"),
        ({"backend": None}, TypeError, "backend must be a string or a callable"),
        ({"mode": "fastest"}, ValueError, "unknown mode 'fastest'"),
        ({"mode": []}, ValueError, "unknown mode"),
        ({"options": {"x": 1}}, ValueError, "unknown option 'x'.*'recompile_limit'"),
        ({"options": "x"}, TypeError, "options must be a dict, not str"),
        ({"options": 3}, TypeError, "options must be a dict, not int"),
        ({"options": {"capture_scalar_outputs": 1}}, TypeError, "capture_scalar_outputs must be"),
        ({"options": {"recompile_limit": 0}}, ValueError, "recompile_limit must be"),
        ({"dynamic": "often"}, ValueError, "dynamic must be None, True or False, not 'often'"),
        ({"dynamic": 1}, ValueError, "dynamic must be"),
        ({"dynamic": torch.ones(2)}, ValueError, "dynamic must be"),
        ({"fullgraph": 1}, TypeError, "fullgraph must be True or False, not 1"),
        ({"disable": "no"}, TypeError, "disable must be True or False, not 'no'"),
        ({"recompile_limit": 0}, ValueError, "recompile_limit must be"),
        ({"recompile_limit": True}, ValueError, "recompile_limit must be"),
        ({"recompile_limit": 2.0}, ValueError, "recompile_limit must be"),
        ({"nonsense": 1}, TypeError, "nonsense"),
    ],
)
def test_of_compile(arguments, error, words):
    with pytest.raises(error, match=words):
        braze.compile(plain, **arguments)
    with pytest.raises(error, match=words):
        braze.compile(**arguments)  # before there is a function to decorate


def test_targets():
    with pytest.raises(TypeError, match="not callable"):
        braze.compile(3)
    with pytest.raises(TypeError, match="cannot compile the class Thing"):
        braze.compile(type("Thing", (), {}))


def test_a_limit_beyond_all_calls():
    same(braze.compile(plain, recompile_limit=10**30)(X), X * 2)


def test_of_explain():
    with pytest.raises(ValueError, match="unknown backend 'inductor'"):
        braze.explain(plain, backend="inductor")
    with pytest.raises(TypeError, match="nonsense"):
        braze.explain(plain, nonsense=1)
    with pytest.raises(TypeError, match="cannot explain the class Linear"):
        braze.explain(torch.nn.Linear)


@pytest.mark.parametrize(
    "returned", [3, (), (3,), torch.ones(4, 3), (torch.ones(4, 3),) * 2, {"x": torch.ones(4, 3)}]
)
def test_outputs_of_a_backend(returned):
    fast = braze.compile(plain, backend=lambda gm, inputs: lambda *given: returned)
    with pytest.raises(TypeError, match="a tuple of 1 tensors"):
        fast(X)


def test_a_backend_that_returns_nonsense():
    with pytest.raises(TypeError, match="must return a callable"):
        braze.compile(plain, backend=lambda gm, inputs: 3)(X)
    lists = braze.compile(plain, backend=lambda gm, inputs: lambda x: [x * 2])
    same(lists(X), X * 2)


@pytest.mark.parametrize(
    "mark", [braze.mark_dynamic, braze.maybe_mark_dynamic, braze.mark_static, braze.mark_unbacked]
)
def test_of_marks(mark):
    x = torch.randn(4, 3)
    with pytest.raises(TypeError, match="not those of int"):
        mark(3, 0)
    with pytest.raises(IndexError, match="no dimension 2 in a tensor of 2 dimensions"):
        mark(x, [0, 2])
    with pytest.raises(TypeError, match="a dimension must be an int, not str"):
        mark(x, "0")
    assert not vars(x)


def test_bounds_of_a_mark():
    x = torch.randn(4, 3)
    with pytest.raises(ValueError, match="min=5 is larger than max=2"):
        braze.mark_dynamic(x, 0, min=5, max=2)
    with pytest.raises(ValueError, match="min must be a size, not -1"):
        braze.mark_dynamic(x, 0, min=-1)
    with pytest.raises(TypeError, match="max must be an int, not float"):
        braze.mark_dynamic(x, 0, max=2.5)
    assert not vars(x)


def test_compiled_functions_leave_their_type_alone():
    before = sys.getrefcount(braze._C.CompiledFunction)
    for _ in range(100):
        braze.compile(lambda x: x)
    assert sys.getrefcount(braze._C.CompiledFunction) - before < 50


def test_guards_of_something_else_cannot_be_checked():
    for given in ((), (len,), (torch.sin, torch.ones(2))):
        with pytest.raises(TypeError, match="check_only"):
            braze._C.check_only(*given)
