"""Numbers that the dtype of a tensor cannot hold: eager's exception, or eager's value."""

import math

import braze
import pytest
import torch
from support import same


@pytest.mark.parametrize("backend", ["eager", "aten", "braze"])
def test_an_error_of_a_kernel_that_is_no_torch_error(backend):
    def fn(x):
        return torch.full((2,), 300, dtype=x.dtype)

    fast = braze.compile(fn, backend=backend)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="without overflow"):
            fast(torch.zeros(2, dtype=torch.int8))


NUMBERS = [300, -200, -1, 1e308, -1e39, 70000.0, float("inf"), 2**31, 2**63 - 1, 3.7]
DTYPES = [torch.int8, torch.uint8, torch.int64, torch.bool, torch.float16, torch.bfloat16]
DTYPES += [torch.float32, torch.float64, torch.complex64]
OPERATORS = {
    "full": lambda x, v: torch.full((2,), v, dtype=x.dtype),
    "full_like": lambda x, v: torch.full_like(x, v),
    "new_full": lambda x, v: x.new_full((2,), v),
    "fill": lambda x, v: (torch.fill(x, v), x.clone().fill_(v)),
    "masked_fill": lambda x, v: x.masked_fill(torch.tensor([True, False]), v),
    "clamp": lambda x, v: (x.clamp(max=v), torch.clamp(x, 0, v)),
    "clamp in place": lambda x, v: x.clone().clamp_(min=v),
    "where": lambda x, v: torch.where(x == 0, x, v),
    "operators": lambda x, v: (x + v, x * v, v - x, x == v, x < v, x / v),
    "in place": lambda x, v: (x.clone().add_(v), x.clone().mul_(v)),
    "alpha": lambda x, v: torch.add(x, x, alpha=v),
    "addcmul": lambda x, v: torch.addcmul(x, x, x, value=v),
    "lerp": lambda x, v: torch.lerp(x, x, v),
    "leaky_relu": lambda x, v: torch.nn.functional.leaky_relu(x, v),
    "threshold": lambda x, v: torch.nn.functional.threshold(x, v, v),
    "softplus": lambda x, v: torch.nn.functional.softplus(x, v, v),
    "pad": lambda x, v: torch.nn.functional.pad(x, (1, 1), value=v),
    "scalar_tensor": lambda x, v: torch.scalar_tensor(v, dtype=x.dtype) + x,
    "item": lambda x, v: put(x.clone(), v),
}


def put(x, v):
    x[0] = v
    return x


def called(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error).splitlines()[0]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_as_eager(name, dtype):
    """The numbers are constants of the code; one function with all of them at a time is compiled."""
    operator, x = OPERATORS[name], torch.zeros(2, dtype=dtype)

    def fn(x):
        results = []
        for number in NUMBERS:
            results.append(called(operator, x, number))
        return results

    same(braze.compile(fn, backend="aten")(x), fn(x))


@pytest.mark.parametrize("dtype", [torch.int8, torch.int32, torch.int64], ids=str)
def test_a_difference_adds_the_negated_factor(dtype):
    lowest = torch.iinfo(dtype).min

    def fn(x):
        used = [
            called(lambda: torch.sub(x, x, alpha=lowest)),
            called(lambda: torch.rsub(x, 3, alpha=lowest)),
            called(lambda: x.clone().sub_(x, alpha=lowest)),
        ]
        dropped = called(lambda: torch.sub(x, x, alpha=lowest) is None)
        return used, dropped, x + 1

    x = torch.tensor([0, 1, 2, 100], dtype=dtype)
    same(braze.compile(fn)(x), fn(x))


@pytest.mark.parametrize("exponent", [1e-46, -1e-46, 1e-300, 1e-39, 1e39, -1e300])
def test_exponents_beyond_single_precision(exponent):
    def fn(x):
        return x**exponent, torch.pow(x, torch.tensor(exponent, dtype=torch.float64))

    bases = [0.0, -0.0, 1.0, -1.0, 2.0, math.inf, -math.inf, math.nan, 1e-40, -3.0]
    for dtype in (torch.float32, torch.float64):
        x = torch.tensor(bases * 3, dtype=dtype)
        for dynamic in (False, True):
            same(braze.compile(fn, dynamic=dynamic)(x), fn(x))
