"""Dtypes of results and errors about them: as eager's, with sizes that are numbers and symbols."""

import pytest
import torch
from support import compare, reasons

INTEGERS = torch.arange(6).reshape(2, 3)
FLOATS = INTEGERS + 0.5
CASES = {
    "pow of integers": (lambda x: x**0.5 + 1, INTEGERS),
    "pow of booleans": (lambda x: x**0.5, INTEGERS > 2),
    "pow, complex": (lambda x: x**2j, FLOATS),
    "number in C++": (lambda x: torch.poisson_nll_loss(x, x, False, False, 1e-8, 0), INTEGERS),
    "complex convolution": (
        lambda x: torch.conv1d(x, x[:1, None, :2], None, 1, 0),
        (FLOATS + 1j)[:, None],
    ),
    "acosh_": (torch.Tensor.acosh_, INTEGERS),
    "erfinv_": (torch.Tensor.erfinv_, INTEGERS > 2),
    "deg2rad_": (torch.Tensor.deg2rad_, INTEGERS),
    "logit_": (torch.Tensor.logit_, INTEGERS),
    "logit_ of floats": (lambda x: (x / 8).logit_(), FLOATS),
    "number that does not fit": (lambda x: x.add_(1.5), INTEGERS),
    "clamp by a complex number": (lambda x: torch.clamp(x, 1 + 2j), FLOATS.half()),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("case", CASES)
def test_dtypes(case, dynamic, capfd):
    fn, x = CASES[case]
    compare(lambda: lambda x: fn(x), [lambda: (x.clone(),)] * 2, dynamic=dynamic)
    assert "internal error" not in capfd.readouterr().err


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (3, 1), (3, 5)])
def test_addbmm_resizes_what_is_broadcast(shape, dynamic, capfd):
    def fn(x, a, b):
        return x.addbmm_(a, b)

    args = (torch.ones(shape), torch.rand(2, 3, 4), torch.rand(2, 4, 5))
    fast = compare(lambda: fn, [lambda: tuple(t.clone() for t in args)] * 2, dynamic=dynamic)
    assert bool(reasons(fast)) == (shape != (3, 5))
    assert "internal error" not in capfd.readouterr().err
