"""Anything at all can be given to `compile`: it does what eager does, or says why not."""

import asyncio
import functools
import operator

import braze
import pytest
import torch
from support import compare, entries, reasons, same

X = torch.randn(4, 3)


@pytest.mark.parametrize(
    "function, args",
    [
        (len, ([1, 2],)),
        (sum, ([1, 2],)),
        (torch.sin, (X,)),
        (torch.nn.functional.relu, (X,)),
        (operator.add, (X, X)),
        (operator.itemgetter(1), ([X, X + 1],)),
        (X.add, (X,)),
        (torch.Tensor.mul, (X, 3)),
        (functools.lru_cache(lambda x: x * 2), (X,)),
        (functools.partial(torch.add, alpha=2), (X, X)),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_builtins_and_other_callables(function, args):
    fast = braze.compile(function)
    for _ in range(2):
        same(fast(*args), function(*args))
    with pytest.raises(TypeError):
        fast(*args, *args, *args, nonsense=1)


def test_builtin_of_torch_is_captured():
    fast = braze.compile(torch.sin, fullgraph=True)
    same(fast(X), torch.sin(X))
    assert entries(fast)[0]["kind"] == "plan" and fast.__name__ == "sin"


def test_class_of_modules():
    @braze.compile(fullgraph=True)
    class Net(torch.nn.Module):
        def __init__(self, size):
            super().__init__()
            self.linear = torch.nn.Linear(size, size)

        def forward(self, x):
            return self.linear(x).relu()

    nets = [Net(3), Net(3)]
    for net in nets:
        same(net(X), net.linear(X).relu())
        assert isinstance(net, Net)
    assert len(vars(Net)["__call__"]._entries()) == 1
    same(braze.compile(nets[0])(X), nets[0].forward(X))


def test_class_with_a_call():
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, x):
            return x * self.factor

    assert braze.compile(Scale) is Scale
    same(Scale(2.0)(X), X * 2.0)
    same(Scale(3.0)(X), X * 3.0)


def test_coroutine_function():
    async def f(x):
        await asyncio.sleep(0)
        return x * 2

    fast = braze.compile(f)
    for _ in range(2):
        same(asyncio.run(fast(X)), X * 2)
    assert [e["exit"] for e in entries(fast) if e["nodes"] == 1] == ["return"]


def test_async_generator():
    async def steps(x):
        for i in range(3):
            yield x * i

    async def use(function):
        return [y async for y in function(X)]

    fast = braze.compile(steps)
    for _ in range(2):
        same(asyncio.run(use(fast)), asyncio.run(use(steps)))
    assert any(e["nodes"] == 1 for e in entries(fast))


def test_generator_function():
    def steps(x):
        got = yield x
        yield got * 2

    fast = braze.compile(steps)
    for _ in range(2):
        made = fast(X)
        same(next(made), X)
        same(made.send(X + 1), (X + 1) * 2)
        assert made.gi_frame is not None and list(made) == []
    assert set(reasons(fast)) == {"a generator yields to its caller"}


def test_explain_of_a_generator():
    def steps(x):
        yield x + 1

    async def later(x):
        return x + 1

    for function in (steps, later):
        told = braze.explain(function)(X)
        assert told.breaks == [] and "compiled when it is resumed" in told
        told.result.close()


def test_fullgraph_refuses_generators():
    def steps(x):
        yield x + 1

    with pytest.raises(braze.GraphBreakError, match="B606.*\n.*\n.*return a list"):
        braze.compile(steps, fullgraph=True)(X)


def test_generator_that_a_compiled_function_resumes():
    def steps(x):
        for k in range(3):
            got = yield x * k
            x = x + (0 if got is None else got)

    fast_steps = braze.compile(steps)

    def total(x):
        made = fast_steps(x)
        return sum(made) + x, next(fast_steps(x))

    fast = braze.compile(total)
    for _ in range(2):
        same(fast(X), total(X))
    assert reasons(fast) == []


def test_wrong_arguments():
    def make():
        def f(a, /, b, *, c=1):
            return a + b + c

        return f

    calls = [
        lambda: (X,),
        lambda: (X, X, X),
        lambda: ((X,), {"a": X}),
        lambda: ((X, X), {"b": X}),
        lambda: ((X, X), {"d": 1}),
        lambda: ((X, X), {"c": "text"}),
        lambda: (X, X),
    ]
    compare(make, calls)


def test_function_that_recurses_without_end():
    def f(x):
        return f(x) + 1

    with pytest.raises(RecursionError):
        braze.compile(f)(X)


def test_function_that_changes_its_own_code():
    def f(x):
        f.__code__ = other.__code__
        return x * 2

    def other(x):
        return x * 3 if f else other

    code = f.__code__
    fast = braze.compile(f)
    same(fast(X), X * 2)
    same(fast(X), X * 3)
    f.__code__ = code
    same(fast(X), X * 2)


def test_function_that_deletes_its_locals():
    def make():
        def f(x, flag):
            y = x * 2
            del x
            if flag:
                del y
            return y

        return f

    compare(make, [lambda: (X, False), lambda: (X, True), lambda: (X, False)])


def test_disable_takes_what_torch_takes():
    @braze.disable(recursive=False, reason="slow")
    def f(x):
        return x + 1

    same(f(X), X + 1)
    same(braze.disable(f, False)(X), X + 1)
    with pytest.raises(TypeError, match="recursive must be"):
        braze.disable(f, recursive="no")
