"""Functions that torch.jit.script or torch.jit.trace made, called in compiled code."""

import warnings

import braze
import pytest
import torch
from support import entries, same

warnings.filterwarnings("ignore", category=DeprecationWarning)


def scale_by_length(x: torch.Tensor, factor: int):
    if x.size(0) > 100:
        return x
    return x / torch.sqrt(torch.tensor(x.size(-1), dtype=torch.float) * factor)


def branch_on_data(x: torch.Tensor):
    if bool(x.sum() > 0):
        return x + 1
    return x - 1


def test_a_scripted_function_is_captured_as_python():
    scripted = torch.jit.script(scale_by_length)
    fast = braze.compile(lambda x: torch.relu(scripted(x, 3)) + 1, fullgraph=True)
    for size in ((2, 4), (3, 6), (5, 7), (9, 3)):
        x = torch.randn(size)
        same(fast(x), torch.relu(scripted(x, 3)) + 1)
    assert len(entries(fast)) == 2


@pytest.mark.parametrize("data", ([1.0, 2.0], [-1.0, -2.0]))
def test_what_a_trace_decided_stays_decided(data):
    traced = torch.jit.trace(branch_on_data, torch.ones(2), check_trace=False)
    fast, x = braze.compile(lambda x: traced(x) * 2), torch.tensor(data)
    for _ in range(3):
        same(fast(x), traced(x) * 2)
        same(fast(x), x * 2 + 2)


def test_scripted_and_traced_from_one_function():
    scripted = torch.jit.script(branch_on_data)
    traced = torch.jit.trace(branch_on_data, torch.ones(2), check_trace=False)

    def f(x):
        return scripted(x), traced(x)

    fast = braze.compile(f)
    for x in (torch.ones(2), -torch.ones(2), torch.ones(3)):
        same(fast(x), f(x))
