"""Functions of numbers and of PyTorch that are given Python floats that vary: one compile for all."""

import math

import braze
import pytest
import torch
import torch.nn.functional as F
from support import entries, reasons, same

VALUES = [0.3, 0.7, 0.9, 1.7, 2.3, 1e-3, 11.0]
X = torch.linspace(-3, 3, 12).reshape(3, 4)
Y = torch.cos(X) + 2


def outcomes(fast, fn, make):
    found = []
    for call in (fast, fn):
        try:
            found.append(call(*make()))
        except Exception as error:
            found.append((type(error), str(error)))
    return found


def serve(fn, tensors, values=VALUES, count=2):
    """Compiled calls over the values give what eager gives; that many entries are made."""
    fast = braze.compile(fn)
    for value in values:
        same(*outcomes(fast, fn, lambda: (*(t.clone() for t in tensors), value)))
    assert not reasons(fast)
    if count is not None:
        assert len(entries(fast)) == count, [entry["guards"] for entry in entries(fast)]
    return fast


TENSOR_FUNCTIONS = {
    "clamp": lambda x, s: (x.clamp(max=s), x.clamp(-s, s), torch.clamp(x, 0, s), x.clip(min=s)),
    "clamp one bound": lambda x, s: (torch.clamp_min(x, s), x.clamp_max(s)),
    "clamp in place": lambda x, s: x.clamp_(min=-s, max=s),
    "clamp one bound in place": lambda x, s: x.clamp_min_(-s).clamp_max_(max=s),
    "power": lambda x, s: (x.abs() ** s, s**x, torch.pow(x.abs(), s), x.abs().pow(s)),
    "power in place": lambda x, s: x.abs_().pow_(s),
    "full": lambda x, s: (torch.full((2, 3), s), torch.full_like(x, s), x.new_full((2,), s)),
    "full with dtype": lambda x, s: torch.full((2, 3), s, dtype=torch.float64) + x.sum(),
    "fill": lambda x, s: (torch.fill(x, s), x.clone().fill_(s)),
    "where": lambda x, s: (torch.where(x > 0, s, x), torch.where(x > 0, x, s)),
    "where method": lambda x, s: x.where(x > 0, s),
    "masked_fill": lambda x, s: (x.masked_fill(x > 0, s), x.clone().masked_fill_(x > 0, s)),
    "index_fill": lambda x, s: x.index_fill(0, torch.tensor([0, 2]), s),
    "alpha": lambda x, s: (torch.add(x, x, alpha=s), x.sub(x, alpha=s), x.add_(x.sin(), alpha=s)),
    "addcmul": lambda x, s: (torch.addcmul(x, x, x, value=s), x.addcdiv(x, x + 4, value=s)),
    "addcmul in place": lambda x, s: x.addcmul_(x.sin(), x.cos(), value=s),
    "lerp": lambda x, s: (torch.lerp(x, x + 1, s), x.lerp_(x * 2, s)),
    "divisions": lambda x, s: (x // s, x % s, torch.fmod(x, s), x.remainder(s)),
    "mixed": lambda x, s: (x.clamp(-s, 2 * s) / (1 - s)) ** 2 + torch.full_like(x, s * s),
}


@pytest.mark.parametrize("name", TENSOR_FUNCTIONS)
def test_functions_of_tensors(name):
    serve(TENSOR_FUNCTIONS[name], [X])
    serve(TENSOR_FUNCTIONS[name], [X.double()])


EACH = ("add", "sub", "mul", "div", "minimum", "maximum", "clamp_min", "clamp_max")


@pytest.mark.parametrize("name", EACH)
def test_functions_of_lists(name):
    new, in_place = getattr(torch, f"_foreach_{name}"), getattr(torch, f"_foreach_{name}_")

    def fn(x, y, s):
        lists = new([x, y], s), new((x, y), [s, 2 * s]), new([x], 1.5)
        return *lists, in_place([x, y], s), x, y

    serve(fn, [X, Y.double()])
    serve(fn, [X.flatten(), Y], [0.3, 0.7, 0.9, 1.7, 2.5, -0.5])


def test_results_of_functions_of_lists():
    def fn(x, y, s):
        given = [x, y], (x, y), [x], [y]
        results = (
            torch._foreach_mul_(given[0], s),
            torch._foreach_add_(given[1], [y, x], alpha=s),
            torch._foreach_lerp_(given[2], [y], s),
            torch._foreach_addcmul_(given[3], [x], [y], s),
        )
        return results, [a is b for a, b in zip(results, given)], x, y

    serve(fn, [X, Y])


@pytest.mark.parametrize("name", ["minimum", "maximum"])
def test_extrema_of_lists(name):
    new, in_place = getattr(torch, f"_foreach_{name}"), getattr(torch, f"_foreach_{name}_")
    values = [0.3, 0.7, math.nan, math.inf, -math.inf, 2.5]
    integers, halves = torch.arange(-3, 4), X.bfloat16()
    serve(lambda x, y, s: (new([x, y], s), in_place([x], s), x), [X, Y], values, None)
    serve(lambda x, s: new([x], s), [integers], values[:4], None)
    serve(lambda x, s: in_place([x], s), [integers], values[:4], None)
    serve(lambda x, s: (new([x], s), in_place([x], s), x), [halves], [0.3, 0.7, 0.9], None)
    serve(lambda x, y, s: new([x, y * s], [y, x]), [X, Y], values[:2])


NUMBER_FUNCTIONS = {
    "math": lambda x, s: x * math.sqrt(s) + math.exp(-s) * math.log(s) - math.sin(s),
    "results": lambda x, s: (x + s, math.sqrt(s), math.log(s, 3), math.atan2(s, 2.0), abs(-s)),
    "division": lambda x, s: x * (1 / s) + x / (3.0 / s),
    "power": lambda x, s: (x * s**2, x * 2.0**s, pow(s, 0.5) * x),
    "chain": lambda x, s: x * math.sqrt(1 - math.exp(-s)) / (1 + math.tanh(2 * s - 1)),
    "modulo": lambda x, s: (x * (s % 1.0), x * (s // 0.1)),
    "round": lambda x, s: (x * round(s, 1), round(s, 3)),
    "hypot": lambda x, s: x * math.hypot(s, 3) + math.copysign(2.0, s),
}


@pytest.mark.parametrize("name", NUMBER_FUNCTIONS)
def test_functions_of_numbers(name):
    serve(NUMBER_FUNCTIONS[name], [X])


def test_results_are_those_of_python_to_the_last_bit():
    def fn(x, s):
        return x * s, math.exp(s), math.log(s) * 3, s**0.3, 1 / s

    fast = braze.compile(fn)
    for s in VALUES:
        assert fast(X, s)[1:] == fn(X, s)[1:]


def test_integers_that_are_computed():
    """One entry serves all floats that give the same integer; integers that vary are symbols."""

    def fn(x, s):
        return x * int(s) + math.floor(s * 10) + round(s)

    serve(fn, [X], [0.31, 0.32, 0.33, 0.34, 0.35], count=2)
    serve(fn, [X], [float(i) + 0.25 for i in range(9)], count=None)


def test_extrema():
    def fn(x, s):
        return x * min(s, 1.0) + max(0.5, s), min(s, 1.0) is s

    fast = serve(fn, [X], [0.3, 0.4, 0.45, 0.7, 0.9, 0.8, 1.5, 2.5, 3.5, 0.2], count=4)
    assert any("1.0" in line for entry in entries(fast) for line in entry["guards"])


def test_comparisons_of_what_is_computed():
    def fn(x, s):
        return x * s if math.sqrt(s) * 2 > 1 else x - s

    serve(fn, [X], [0.5, 0.7, 0.9, 0.1, 0.2, 2.0], count=3)


@pytest.mark.parametrize("value", [0.0, -1.0])
def test_exceptions_of_functions(value):
    def fn(x, s):
        return x * math.log(s) + x / s

    serve(fn, [X], [0.3, 0.7, value, 0.9], count=None)


SPECIAL = [0.5, 2.0, -0.5, -1.0, 0.0, -0.0, 1.0, 3.0, math.inf, -math.inf, math.nan, 1e39, -1e39]


def bounds_may_be_nan():
    """PyTorch 2.11 takes no notice of a single bound that is NaN; later versions do."""
    return bool(X.clamp(min=math.nan).isnan().all())


@pytest.mark.parametrize("name", TENSOR_FUNCTIONS)
def test_special_values(name):
    edges = torch.tensor([0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 2.5])
    fn = TENSOR_FUNCTIONS[name]
    fast = braze.compile(fn, recompile_limit=40)
    for value in [0.3, 0.7, *SPECIAL]:
        if name == "clamp" and math.isnan(value) and not bounds_may_be_nan():
            continue
        same(*outcomes(fast, fn, lambda: (edges.clone(), value)))


@pytest.mark.parametrize("name", TENSOR_FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8, torch.bool, torch.bfloat16])
def test_promotion(name, dtype):
    fn = TENSOR_FUNCTIONS[name]
    for x in (X.to(dtype), X[2, 2].to(dtype)):
        fast = braze.compile(fn, recompile_limit=40)
        for value in [0.3, 0.7, 1.3, 2.5]:
            same(*outcomes(fast, fn, lambda: (x.clone(), value)), rtol=1e-2, atol=1e-2)


def test_tensors_of_two_dtypes():
    def fn(x, y, s):
        return torch.add(x, y, alpha=s), torch.where(x > 0, x, s) + y, y.clamp(max=s)

    serve(fn, [X, Y.double()], count=None)
    serve(fn, [X, Y.to(torch.float16)], count=None)


def test_what_needs_the_number_says_so():
    def fn(x, s):
        return F.dropout(x, s, training=False) * s, f"{s:.1f}"

    fast = serve(fn, [X], [0.3, 0.5, 0.6, 0.7], count=None)
    assert any("s == 0.7" in line for line in entries(fast)[-1]["guards"])


def test_a_function_that_is_not_called_with_what_fits():
    def fn(x, s):
        try:
            return x.clamp(minimum=s)
        except TypeError:
            return torch.pow(x, s, out=torch.empty(3, 4)) * s

    fast = braze.compile(fn)
    for s in (1.5, 2.5, 3.5):
        same(*outcomes(fast, fn, lambda: (Y, s)))


def test_an_optimiser_step():
    """Bias correction as in Adam: what is computed from the step on the host varies each time."""

    def step(p, g, m, v, beta, lr, t):
        m.mul_(beta).add_(g, alpha=1 - beta)
        v.mul_(0.99).addcmul_(g, g, value=0.01)
        scale = lr / (1 - math.pow(beta, t))
        return p.addcdiv_(m, v.sqrt() + 1e-8, value=-scale)

    fast = braze.compile(step)
    state = [[torch.ones(4) * i for i in (1, 0.5, 0, 0.1)] for _ in range(2)]
    for t in range(1, 9):
        for call, (p, g, m, v) in zip((fast, step), state):
            call(p, g, m, v, 0.9, 0.1, float(t))
        same(state[0], state[1])
    assert len(entries(fast)) <= 3


def test_bounds_that_clamp_refuses_together():
    bound = torch.zeros(4)

    def f(x, s):
        return torch.clamp(x, min=bound, max=s)

    def in_place(x, s):
        return x.clamp_(s, bound)

    for fn in (f, in_place):
        fast = braze.compile(fn)
        for value in VALUES[:3]:
            same(*outcomes(fast, fn, lambda value=value: (X.clone(), value)))
