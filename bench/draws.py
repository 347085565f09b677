"""Cases of the `draws` suite: functions that draw random numbers, each in some sizes, in eager and
compiled with either source of random numbers."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch.nn import functional as F


@dataclass(frozen=True)
class Case:
    """function(x, y) of matrices of each size."""

    name: str
    function: Callable
    requires_grad: bool = False


SIZES = ((64, 64), (512, 768), (4096, 768))  # rows, columns
SOURCES = ("eager", "counter")


def _gradient(function):
    """The function's gradient for ones, by the forward and the backward of each call."""

    def gradient(x, y):
        x.grad = None
        with torch.enable_grad():
            function(x, y).sum().backward()
        return x.grad

    return gradient


def _dropout_add(x, y):
    return F.dropout(x, 0.1) + y


def _gelu_dropout_add(x, y):
    return F.dropout(F.gelu(x), 0.1) + y


def arguments(case: Case, size: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(size, requires_grad=case.requires_grad), torch.randn(size)


def with_gradient(case: Case, function: Callable) -> Callable:
    return _gradient(function) if case.requires_grad else function


CASES: dict[str, Case] = {
    case.name: case
    for case in (
        Case("dropout, add", _dropout_add),
        Case("gelu, dropout, add", _gelu_dropout_add),
        Case("gelu, dropout, add and its gradient", _gelu_dropout_add, requires_grad=True),
        Case("noise added", lambda x, y: x + torch.randn_like(x) * y),
    )
}
