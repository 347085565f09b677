"""Scalars of numpy in compiled code, and its functions of plain numbers."""

import warnings

import braze
import numpy
import pytest
import torch

from tests.python.support import entries, reasons

X = torch.arange(12.0).reshape(3, 4)
NUMBERS = [
    numpy.float64(2.5),
    numpy.float32(0.1),
    numpy.float16(0.3),
    numpy.int64(2),
    numpy.int32(1),
    numpy.uint8(3),
    numpy.int8(-1),
    numpy.bool_(True),
    numpy.float64("nan"),
    numpy.float64(-0.0),
    numpy.float64("inf"),
    numpy.complex64(1 + 2j),  # runs in eager, which may warn
    numpy.longdouble(1.5),  # as does this
]
BODIES = {
    "x + s": lambda x, s: x + s,
    "s + x": lambda x, s: s + x,
    "x * s": lambda x, s: x * s,
    "s * x": lambda x, s: s * x,
    "x / s": lambda x, s: x / s,
    "s / x": lambda x, s: s / x,
    "x ** s": lambda x, s: x**s,
    "s ** x": lambda x, s: s**x,
    "x > s": lambda x, s: x > s,
    "s > x": lambda x, s: s > x,
    "-s": lambda x, s: -s * x,
    "abs": lambda x, s: abs(s) * x,
    "halves": lambda x, s: x.half() * s,
    "integers": lambda x, s: x.int() * s,
    "full": lambda x, s: torch.full((2,), s),
    "tensor": lambda x, s: torch.tensor(s),
    "as_tensor": lambda x, s: torch.as_tensor(s),
    "new_tensor": lambda x, s: x.new_tensor(s),
    "where": lambda x, s: torch.where(x > 1, x, s),
    "masked_fill_": lambda x, s: x.clone().masked_fill_(x > 2, s),
    "add_": lambda x, s: x.clone().add_(s),
    "alpha": lambda x, s: torch.add(x, x, alpha=s),
    "clamp": lambda x, s: x.clamp(max=s),
    "a dim": lambda x, s: x.sum(s),
    "an index": lambda x, s: x[s],
    "a slice": lambda x, s: x[:s],
    "a shape": lambda x, s: x.reshape(s, -1),
    "range": lambda x, s: list(range(s)),
    "a condition": lambda x, s: x if s else -x,
    "an index of a list": lambda x, s: [10, 20, 30, 40][s] * x,
    "a key": lambda x, s: {2: 1, 1: 5}.get(s, 0) * x,
    "beside a size": lambda x, s: (x.size(0) * s, s * x.size(0)),
    "arithmetic": lambda x, s: (s * 2 + 1) / 3,
    "over zero": lambda x, s: (numpy.float64(1) / (s - s)) * x,
    "max": lambda x, s: max(s, 2) * x,
    "round": lambda x, s: round(float(s), 1) * x,
    "text": lambda x, s: f"{s} {s!r}",
    "its class": lambda x, s: (isinstance(s, float), isinstance(s, numpy.floating), type(s)),
    "its dtype": lambda x, s: str(s.dtype),
    "astype": lambda x, s: x * s.astype(numpy.float32),
    "item": lambda x, s: x * s.item(),
    "itself": lambda x, s: (s, x + 1),
    "sqrt of it": lambda x, s: numpy.sqrt(s) * x,
}


class Holder(torch.nn.Module):
    def __init__(self, body, number):
        super().__init__()
        self.body, self.number = body, number

    def forward(self, x):
        return self.body(x, self.number)


def shown(call, *args):
    """What it gives, or raises, and the warnings."""
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("always")
        try:
            result = call(*args)
        except Exception as error:
            result = error

    def plain(value):
        if isinstance(value, torch.Tensor):
            numbers = [round(n, 4) if isinstance(n, float) else n for n in value.flatten().tolist()]
            return str(value.dtype), tuple(value.shape), repr(numbers)
        if isinstance(value, (tuple, list)):
            return [plain(item) for item in value]
        return type(value), str(value)[:90] if isinstance(value, Exception) else repr(value)

    return plain(result), [str(warning.message) for warning in given]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", BODIES)
def test_a_number_that_is_given(name, dynamic):
    body = BODIES[name]
    fast = braze.compile(lambda x, s: body(x, s), dynamic=dynamic)
    for number in NUMBERS:
        for x in (X, torch.ones(5, 4)):
            assert shown(fast, x, number) == shown(body, x, number), repr(number)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", BODIES)
def test_a_number_of_a_module(name, dynamic):
    for number in NUMBERS:
        module = Holder(BODIES[name], number)
        fast = braze.compile(module, dynamic=dynamic)
        for x in (X, torch.ones(5, 4)):
            assert shown(fast, x) == shown(module, x), repr(number)


FUNCTIONS = {
    "sqrt": lambda x: x / numpy.sqrt(x.shape[1]),
    "ceil": lambda x: x[: int(numpy.ceil(x.shape[0] / 2))],
    "log": lambda x: x * float(numpy.log(5)),
    "power": lambda x: x * numpy.power(2.0, -0.5),
    "maximum": lambda x: x * numpy.maximum(3, x.shape[0]),
    "prod": lambda x: x.reshape(numpy.prod(x.shape)),
    "clip": lambda x: x * numpy.clip(x.shape[0], 2, 4),
    "mean": lambda x: x * numpy.mean(x.shape),
    "float32": lambda x: x * numpy.float32(x.shape[0]) + numpy.int64(3),
    "pi": lambda x: x * numpy.sin(numpy.pi / 3),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_numbers(name, dynamic):
    function = FUNCTIONS[name]
    fast = braze.compile(function, dynamic=dynamic)
    for x in (X, torch.ones(5, 4), torch.ones(2, 4)):
        assert shown(fast, x) == shown(function, x)
    assert not reasons(fast)


def test_one_graph_with_gradients():
    module = Holder(lambda x, s: (x / s).square().sum() * numpy.sqrt(x.shape[1]), numpy.sqrt(64))
    x = X.clone().requires_grad_()
    with torch.enable_grad():
        (expected,) = torch.autograd.grad(module(x), x)
        (got,) = torch.autograd.grad(braze.compile(module, fullgraph=True)(x), x)
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize(
    "function", [lambda: numpy.sqrt(-1.0), lambda: numpy.log(0), lambda: numpy.floor_divide(1, 0)]
)
def test_what_warns_warns_in_each_call(function):
    def body(x):
        return x + 1, function()

    fast = braze.compile(body)
    for _ in range(3):
        assert shown(fast, X) == shown(body, X)


def test_what_numpy_is_told_to_do_with_errors_stays():
    before = numpy.geterr()
    braze.compile(lambda x: x * numpy.sqrt(4) + numpy.sqrt(-1.0))(X)
    assert numpy.geterr() == before


def test_numbers_that_vary_are_not_compiled_for_each():
    module = Holder(lambda x, s: x * s + 1, numpy.float32(0))
    fast = braze.compile(module)
    for k in range(12):
        module.number = numpy.float32(k)
        assert torch.equal(fast(X), module(X))
    assert len(entries(fast)) <= 8

    betas = numpy.linspace(0, 1, 12)
    fast = braze.compile(lambda x, k: x * betas[k] + x.sin())
    for k in range(12):
        torch.testing.assert_close(fast(X, k), X * float(betas[k]) + X.sin())
    assert len(entries(fast)) <= 8


def test_the_function_changes():
    class Applies(torch.nn.Module):
        def forward(self, x):
            return x * self.function(4.0), x * self.whole((2, 3))

    module = Applies()
    fast = braze.compile(module)
    for module.function in (numpy.sqrt, numpy.square, numpy.cbrt, numpy.sqrt):
        for module.whole in (numpy.prod, numpy.sum):
            assert shown(fast, X) == shown(module, X)


TUPLES = [(2, 3), (2, 4), (2, 4, 5), (numpy.int64(7),), ((1, 2), (3, 4)), ((1, 2), (3, 5))]


@pytest.mark.parametrize("name", ["prod", "zeros"])
def test_a_tuple_changes(name):
    class Sizes(torch.nn.Module):
        def forward(self, x):
            made = numpy.prod(self.sizes) if name == "prod" else numpy.zeros(self.sizes).size
            return x * float(made)

    module = Sizes()
    fast = braze.compile(module)
    for module.sizes in TUPLES if name == "prod" else TUPLES[:3]:
        assert shown(fast, X) == shown(module, X)


@pytest.mark.parametrize("inner", [[2, 3], numpy.array([2, 3])], ids=["list", "array"])
def test_what_lies_in_a_tuple_changes(inner):
    class Sizes(torch.nn.Module):
        sizes = (inner, inner)

        def forward(self, x):
            return x * float(numpy.prod(self.sizes))

    module = Sizes()
    fast = braze.compile(module)
    for inner[0] in (2, 5, 7):
        assert shown(fast, X) == shown(module, X)


def test_a_number_of_another_class_or_sign():
    module = Holder(lambda x, s: (torch.tensor(s), x / s), None)
    fast = braze.compile(module)
    two = [numpy.float64(2), 2.0, numpy.float32(2), numpy.int64(2), 2, numpy.uint8(2)]
    for module.number in [*two, numpy.float64(-0.0), numpy.float64(0.0), numpy.bool_(True), True]:
        assert shown(fast, X) == shown(module, X)
