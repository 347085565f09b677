"""Python floats that vary: one compile serves the third value and all later ones."""

import math

import braze
import pytest
import torch
from support import entries, reasons, same
from torch.utils._pytree import tree_leaves

VALUES = [0.5, 0.7, 0.9, -0.0, 0.0, 1.0, float("inf"), -float("inf"), float("nan"), 1e-300, 3e38]


def serve(fn, make, values=VALUES, count=2, **settings):
    """Compiled calls over the values give what eager gives; that many entries are made."""
    fast = braze.compile(fn, **settings)
    for value in values:
        outcomes = []
        for call in (fast, fn):
            try:
                outcomes.append(call(*make(value)))
            except Exception as error:
                outcomes.append((type(error), str(error)))
        same(*outcomes)
    assert len(entries(fast)) == count
    assert not reasons(fast)
    return fast


X = torch.linspace(-3, 3, 12).reshape(3, 4)

OPERATORS = {
    "multiply": lambda x, s: x * s,
    "from the left": lambda x, s: (s * x, s + x, s - x, s / x),
    "divide": lambda x, s: x / s,
    "add and subtract": lambda x, s: (x + s, x - s),
    "compare": lambda x, s: (x > s, s <= x, x == s, s != x),
    "functions": lambda x, s: (torch.mul(x, s), torch.sub(x, s), torch.div(x, s), torch.gt(x, s)),
    "methods": lambda x, s: (x.add(s), x.mul(s).sin(), x.div(s), x.le(s)),
    "arithmetic": lambda x, s: x * (s * 2 - 1.5) + x / (2 / 3) - -s + s * s,
    "whole number": lambda x, s: x * (s + 3) * (1 - s),
    "augmented": lambda x, s: augmented(x, s),
    "result": lambda x, s: (x * s, s, s * 2, [-s]),
    "identity": lambda x, s: (x * s, isinstance(s, float), type(s) is float, s is None),
    "mixed": lambda x, s: torch.where(x > s, x * s, x - 1).sum(0) + float(s),
}


def augmented(x, s):
    x = x + 1
    x *= s
    y = s
    y *= x
    s += 1
    return x, y, s


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name):
    serve(OPERATORS[name], lambda s: (X, s))


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.int64, torch.int32, torch.uint8, torch.bool]
)
@pytest.mark.parametrize("shape", [(6,), ()])
def test_promotion(dtype, shape):
    x = (torch.arange(6) % 3).to(dtype).reshape(2, 3)
    x = x[1, 2] if shape == () else x.reshape(shape)
    fn = lambda x, s: (x * s, x + s, x > s, x / (s + 1), s - x)
    serve(fn, lambda s: (x, s), [0.5, 0.7, 0.1, 2.5])
    serve(fn, lambda s: (torch.tensor(1.5, dtype=torch.float32), s), [0.5, 0.7, 0.1, 2.5])


HALF_FUNCTIONS = {
    "multiply": lambda x, y, s: (x * s, s * x, x.mul(s), torch.mul(x, 1 - s)),
    "divide": lambda x, y, s: (x / s, s / x, x.div(s), torch.div(x, s * 3)),
    "add": lambda x, y, s: (x + s, s + x, x.add(s), torch.add(x, 0.1 / (2 + s * s))),
    "subtract": lambda x, y, s: (x - s, s - x, x.sub(s), torch.sub(x, s * 0.3)),
    "in place": lambda x, y, s: x.clone().mul_(s).add_(s).div_(s).sub_(s),
    "add a multiple": lambda x, y, s: (x.add(y, alpha=s), torch.sub(x, y, alpha=-s)),
    "add a multiple in place": lambda x, y, s: x.clone().add_(y, alpha=-s).sub_(y, alpha=s),
    "add a quotient": lambda x, y, s: torch.addcdiv(x, x, y.abs() + 1, value=-s),
    "add a quotient in place": lambda x, y, s: x.clone().addcdiv_(x, y.abs() + 1, value=-s),
    "between": lambda x, y, s: (x.lerp(y, s), torch.lerp(x, y, 1 - s), x.clone().lerp_(y, s)),
    "lists": lambda x, y, s: (
        torch._foreach_mul([x, y], s),
        torch._foreach_div([x, y], [s, 2 * s]),
        torch._foreach_add([x, y], [y, x], alpha=s),
    ),
    "broadcast": lambda x, y, s: (x[:1].lerp(y, s), x.add(y[0], alpha=s), x[0] * s + y),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", HALF_FUNCTIONS)
def test_halves(name, dtype):
    """To the last bit where there is one rounding; eager's loops have several, and others at their
    ends."""
    generator = torch.Generator().manual_seed(3)
    x, y = (torch.randn(16, 32, generator=generator).to(dtype) for _ in range(2))
    values = [0.5, 0.7, 0.9, -0.0123, 123.456, 0.3337, -0.0, 3e-5]
    if name in ("multiply", "divide", "add", "subtract", "in place"):
        values += [float("nan"), float("inf"), 1e-300]
        serve(HALF_FUNCTIONS[name], lambda s: (x, y, s), values)
        return
    fast = braze.compile(HALF_FUNCTIONS[name])
    unit = torch.finfo(dtype).eps
    for s in values:
        ours, eagers = fast(x, y, s), HALF_FUNCTIONS[name](x, y, s)
        for a, b in zip(tree_leaves(ours), tree_leaves(eagers), strict=True):
            assert a.dtype is b.dtype is dtype
            torch.testing.assert_close(a, b, rtol=unit, atol=unit * (1 + abs(s)))
    assert len(entries(fast)) == 2


@torch.enable_grad()
def test_halves_with_gradients():
    fn = lambda x, y, s: x * s + (y / s).add(x, alpha=s).lerp(y, s)
    fast = braze.compile(fn)
    for s in (0.5, 0.7, 0.9, 0.3):
        results = []
        for call in (fast, fn):
            generator = torch.Generator().manual_seed(3)
            x, y = (torch.randn(8, 5, generator=generator).bfloat16() for _ in range(2))
            result = call(x.requires_grad_(), y.requires_grad_(), s)
            result.float().square().sum().backward()
            results.append((result, x.grad, y.grad))
        for ours, eagers in zip(*results):
            assert ours.dtype is eagers.dtype
            torch.testing.assert_close(ours, eagers, rtol=2e-2, atol=2e-2)
    assert len(entries(fast)) == 2


@pytest.mark.parametrize("shape", [(2, 5), (3,)])
def test_halves_that_do_not_fit_raise_as_in_eager(shape):
    fn = lambda x, y, s: x.add_(y, alpha=s)
    fast = braze.compile(fn)
    for s in (0.5, 0.7, 0.9):
        messages = []
        for call in (fast, fn):
            with pytest.raises(RuntimeError) as caught:
                call(torch.ones(2, dtype=torch.float16)[:1], torch.ones(shape).half(), s)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.complex64])
def test_dtypes_that_keep_the_number(dtype):
    x = torch.randn(4).to(dtype)[0]  # without dimensions
    fast = braze.compile(lambda x, s: x * s)
    for s in (0.5, 0.7, 0.1):
        same(fast(x, s), x * s)
    assert not reasons(fast)


def test_in_place_on_integers_raises():
    def fn(x, s):
        x.mul_(s)
        return x

    fast = braze.compile(fn)
    for s in (0.5, 0.7, 0.9):
        with pytest.raises(RuntimeError, match="can't be cast"):
            fast(torch.ones(3, dtype=torch.int64), s)


def test_where_floats_come_from():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = 0.5

        def forward(self, x):
            return x.sin() * self.scale

    class Options:
        rate = 0.1

    options, table = Options(), {"a": [1.5]}
    module = Scaled()

    def fn(x):
        return module(x) + options.rate * x + table["a"][0]

    fast = braze.compile(fn)
    for step in range(6):
        module.scale, options.rate, table["a"][0] = 0.5 + step, 0.1 * step + 0.3, 1.5 - step
        same(fast(X), fn(X))
    assert len(entries(fast)) == 2
    whole = braze.compile(module)
    for step in range(5):
        module.scale = step / 3 + 0.1
        same(whole(X), module(X))
    assert len(entries(whole)) == 2


def test_a_schedule():
    """What a training loop or sampler does: a coefficient that is new on every step."""

    def step(x, noise, alpha):
        return (x - noise * (1 - alpha)) * alpha + 0.01

    fast, x = braze.compile(step), torch.randn(5)
    for i in range(12):
        alpha = math.cos(i / 20)
        same(fast(x, x + 1, alpha), step(x, x + 1, alpha))
    assert len(entries(fast)) == 2


def test_a_state_that_is_computed():
    class Box:
        def __init__(self):
            self.scale = 1.0

    box, other = Box(), Box()

    def fn(x, box):
        box.scale = box.scale * 0.9 + 0.01
        return x * box.scale

    fast = braze.compile(fn)
    for _ in range(6):
        same(fast(X, box), fn(X, other))
        assert box.scale == other.scale
    assert len(entries(fast)) == 2


def test_decisions_are_guards():
    def fn(x, s):
        if s > 0.5:
            x = x + 1
        if s:
            x = x * 2
        return x * s if 0.0 <= s <= 1.0 else x / s

    fast = serve(fn, lambda s: (X, s), [0.1, 0.2, 0.3, 0.7, 0.8, 0.9, 0.4, 0.6, 2.5, 3.5], count=4)
    assert any("0.5" in line for entry in entries(fast) for line in entry["guards"])


def test_the_number_where_it_is_needed():
    def text(x, s):
        return x * s, f"{s:.2f}", round(s, 1), {s: 1}

    serve(text, lambda s: (X, s), [0.5, 0.7, 0.9, 0.7], count=3)


def test_zero_division_as_in_python():
    def fn(x, s):
        return x * (1 / s)

    fast = braze.compile(fn)
    for s in (0.5, 0.7, 0.9):
        same(fast(X, s), fn(X, s))
    with pytest.raises(ZeroDivisionError):
        fast(X, 0.0)


def test_other_types_are_other_entries():
    def fn(x, s):
        return x * s, type(s).__name__

    for values in ([0.5, 0.7, 2, 0.9, True, 3, 0.1], [2, 0.5, 0.7, 0.9, False]):
        fast = braze.compile(fn)
        for s in values:
            x = torch.arange(5)
            same(fast(x, s), fn(x, s))


def test_floats_and_sizes_vary_together():
    fast = braze.compile(lambda x, s: (x * s).sum(0) / x.shape[0])
    for size, s in ((4, 0.5), (5, 0.7), (7, 0.9), (6, 0.1)):
        x = torch.randn(size, 3)
        same(fast(x, s), (x * s).sum(0) / size)
    assert len(entries(fast)) == 2


def test_behind_a_break():
    def fn(x, s):
        y = x * s
        braze.graph_break()
        return y + s * 2, s

    fast = braze.compile(fn)
    for s in VALUES:
        same(fast(X, s), fn(X, s))


def test_never_with_dynamic_false():
    fast = braze.compile(lambda x, s: x * s, dynamic=False)
    for s in (0.5, 0.7, 0.9):
        same(fast(X, s), X * s)
    assert len(entries(fast)) == 3


def test_in_branches_on_data():
    def fn(x, s):
        return torch.cond(x.sum() > s, lambda a: a * s, lambda a: a + s, (x,))

    def eager(x, s):
        return x * s if x.sum() > s else x + s

    fast = braze.compile(fn, fullgraph=True)
    for s in (0.5, 0.7, 0.9, -4.0):
        same(fast(X, s), eager(X, s))
    assert len(entries(fast)) == 2


def test_reset_forgets_what_has_varied():
    fast = braze.compile(lambda x, s: x * s)
    for value in (0.5, 1.5):
        same(fast(X, value), X * value)
    fast.reset()
    for value in (0.5, 1.5, 2.5):
        same(fast(X, value), X * value)
    assert len(entries(fast)) == 2  # as at first: for the number, then for all
