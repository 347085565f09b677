"""Numbers that vary among `*args` and `**kwargs`: those of a module, whose call has nothing else."""

import math

import braze
import pytest
import torch
from support import entries, reasons, same

X = torch.linspace(-3, 3, 8).reshape(2, 4)
FLOATS = [0.5, 0.7, 0.9, -0.0, 0.0, 1.0, math.inf, math.nan, 1e-300, 3e38]
INTEGERS = [3, 4, 7, 12, 100, 2**30, -5]


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x, k, *rest, shift=0.0, **named):
        for each in rest:
            x = x + each
        return self.linear(x) * k + shift, named


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Scaled()

    def forward(self, *args, **kwargs):
        return self.inner(*args, **kwargs)


def serve(target, make, values, count=2):
    """Compiled calls over the values give what eager gives; that many entries are made."""
    fast = braze.compile(target)
    for value in values:
        outcomes = []
        for call in (fast, target):
            args, kwargs = make(value)
            outcomes.append((call(*args, **kwargs), args, kwargs))
        same(*outcomes)
    assert len(entries(fast)) == count, [entry["guards"] for entry in entries(fast)]
    assert not reasons(fast)
    return fast


CALLS = {
    "by position": lambda k: ((X, k), {}),
    "by keyword": lambda k: ((X,), {"k": k}),
    "both": lambda k: ((X, k), {"shift": k}),
    "several": lambda k: ((X, k, k, k), {"other": "a", "another": k}),
}


@pytest.mark.parametrize("module", [Scaled, Outer])
@pytest.mark.parametrize("values", [FLOATS, INTEGERS], ids=["floats", "integers"])
@pytest.mark.parametrize("name", CALLS)
def test_arguments_of_a_module(name, values, module):
    serve(module(), CALLS[name], values)


def test_a_module_with_hooks():
    module = Scaled()
    module.register_forward_pre_hook(lambda m, args: (args[0] + args[1], *args[1:]))
    module.register_forward_pre_hook(
        lambda m, args, kwargs: (args, {**kwargs, "shift": kwargs["shift"] * 2}), with_kwargs=True
    )
    module.register_forward_hook(lambda m, args, result: (result[0] * args[1], result[1]))
    serve(module, CALLS["both"], FLOATS)


def test_a_module_that_is_compiled_in_place():
    module, plain = Scaled(), Scaled()
    plain.load_state_dict(module.state_dict())
    module.compile(backend="braze")
    for value in FLOATS:
        same(module(X, value), plain(X, value))


@torch.enable_grad()
def test_gradients():
    module = Scaled()

    def step(call, k):
        module.zero_grad()
        x = X.clone().requires_grad_()
        call(x, k, shift=k)[0].sum().backward()
        return x.grad, [p.grad for p in module.parameters()]

    fast = braze.compile(module)
    for value in (0.5, 0.7, -1.5, 0.0, 4.25):
        same(step(fast, value), step(module, value))
    assert len(entries(fast)) == 2


def unpacked(x, *args, **kwargs):
    a, b = args
    return x * a + b


def looped(x, *args, **kwargs):
    for each in args:
        x = x * each
    return x


def displayed(x, *args, **kwargs):
    return x * args[1], [*args, 1], (*args,), {**kwargs, "z": 2}


def merged(x, *args, **kwargs):
    return dict(a=1, **kwargs), x * args[0]


def changed(x, *args, **kwargs):
    kwargs["b"] *= 2
    kwargs["n"] = args[0]
    return x * kwargs["b"], kwargs


def popped(x, *args, **kwargs):
    b = kwargs.pop("b")
    return x * b, kwargs, list(kwargs.items())


def handed_on(x, *args, **kwargs):
    return unpacked(x, *args, **kwargs), looped(x, *args), displayed(x, *args, **kwargs)


def kept(x, *args, **kwargs):
    return looped(x, *args), args, kwargs


def sliced(x, *args, **kwargs):
    rest = args[1:]
    return x * rest[0], rest, args[::-1]


def left(x, *args, **kwargs):
    rest = iter(args)
    return x * next(rest), rest.__next__


@pytest.mark.parametrize(
    "fn", [unpacked, looped, displayed, merged, changed, popped, handed_on, kept, sliced]
)
@pytest.mark.parametrize("values", [FLOATS, INTEGERS], ids=["floats", "integers"])
def test_uses(fn, values):
    serve(fn, lambda s: ((X, s, s), {"b": s, "c": "text"}), values)


def test_an_iterator_that_is_left():
    fast = braze.compile(left)
    for value in FLOATS:
        (ours, next_ours), (theirs, next_theirs) = fast(X, value, 1.5), left(X, value, 1.5)
        same(ours, theirs)
        same(next_ours(), next_theirs())


def numbers(x, *args):
    return looped(x, *args), {args[0]: 1}, str(args)


def numbers_first(x, *args):
    text = repr(args)
    return looped(x, *args), text


@pytest.mark.parametrize("fn", [numbers, numbers_first])
def test_what_needs_the_numbers(fn):
    fast = braze.compile(fn)
    for value in (0.5, 0.7, 0.9, 0.5, 3, 4, 5, 3, 2.5):
        same(fast(X, value, value), fn(X, value, value))


def test_other_types_and_lengths():
    fast = braze.compile(looped)
    for args in ((0.5,), (0.7,), (3,), (4,), (5,), (True,), (0.9, 2.5), (0.1, 3), (), (0.25,)):
        same(fast(X, *args), looped(X, *args))


def test_one_of_several_varies():
    serve(looped, lambda s: ((X, 2, s, 0.5, torch.ones(4) * 3), {}), FLOATS)


def test_a_decision_on_an_argument():
    def fn(x, *args):
        return looped(x, *args) if args[0] > 1 else x - args[0]

    fast = braze.compile(fn)
    for value in (0.5, 0.7, 1.5, 2.5, 0.25, 3.5):
        same(fast(X, value), fn(X, value))
    assert len(entries(fast)) <= 4


def test_never_with_dynamic_false():
    fast = braze.compile(looped, dynamic=False)
    for value in (0.5, 0.7, 0.9):
        same(fast(X, value), looped(X, value))
    assert len(entries(fast)) == 3
