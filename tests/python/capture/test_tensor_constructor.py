"""`torch.Tensor(...)`: of sizes, of numbers and of a tensor."""

import braze
import pytest
import torch

from tests.python.support import compare, reasons

CALLS = [lambda n=n: (torch.ones(n, 2),) for n in (8, 5, 6)]
CAPTURED = {
    "numbers": lambda x: x + torch.Tensor([1.0, 2.0]),
    "rows": lambda x: torch.Tensor([[1, 2], [3, 4]]) @ x.T,
    "sizes": lambda x: torch.Tensor(x.size(0), 3).fill_(1),
    "a shape": lambda x: torch.Tensor(x.shape).zero_(),
    "a size among numbers": lambda x: torch.Tensor([x.size(0), 2]) + 1,
    "nothing": lambda x: torch.Tensor(),
    "a tensor": lambda x: torch.Tensor(x) * 2,
    "a tensor that is written to": lambda x: torch.Tensor(x[0]).add_(1),
    "booleans": lambda x: torch.Tensor([True, False]).dtype,
}


@pytest.mark.parametrize("name", CAPTURED)
def test_it_is_captured(name):
    assert not reasons(compare(lambda: CAPTURED[name], CALLS))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.Tensor("a"),
        lambda x: torch.Tensor(3.5),
        lambda x: torch.Tensor([x.sum(), 1]),
        lambda x: torch.nn.Parameter(torch.Tensor(3, 2).zero_()) * x[0],
    ],
)
def test_the_rest_is_as_in_eager(function):
    compare(lambda: function, CALLS)


def test_the_default_dtype():
    fast = braze.compile(CAPTURED["numbers"])
    before = torch.get_default_dtype()
    try:
        for dtype in (torch.float32, torch.float64):
            torch.set_default_dtype(dtype)
            assert fast(torch.ones(2, dtype=torch.float32)).dtype == dtype
    finally:
        torch.set_default_dtype(before)
