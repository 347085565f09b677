"""mark_unbacked: one compile for every size, 0 and 1 among them, and no decision on it."""

import braze
import pytest
import torch
from support import entries, reasons, same

SIZES = (7, 0, 1, 2, 9)

FUNCTIONS = {
    "pointwise": lambda x: (x.sin() * 2 + 1).relu(),
    "broadcast": lambda x: x + x.new_ones(3) - x.exp(),
    "sum of all": lambda x: x.sum() + 1,
    "sum of rows": lambda x: (x.sum(0), x.sum(1), x.mean(-1)),
    "softmax": lambda x: x.softmax(-1) + x.new_zeros(3),
    "matmul": lambda x: x @ torch.full((3, 5), 0.5),
    "transposed": lambda x: (x.t() * 2, x.t() + 1),
    "views": lambda x: (x.view(-1) * 2, x.unsqueeze(0) + 1, x.reshape(x.shape[0], 3, 1).flip(1)),
    "sizes": lambda x: x * x.shape[0] + x.numel(),
    "made alike": lambda x: torch.zeros_like(x) + torch.ones(x.shape[0], 3),
    "joined": lambda x: torch.cat([x, x * 2]),
    "layer norm": lambda x: torch.nn.functional.layer_norm(x, (3,)),
    "linear": lambda x: torch.nn.functional.linear(x, torch.ones(4, 3), torch.ones(4)),
}


def marked(size, dim=0, first=3):
    x = torch.randn(size, 3) if dim == 0 else torch.randn(3, size)
    braze.mark_unbacked(x, dim)
    return x


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("order", [SIZES, SIZES[1:], SIZES[::-1], (1, 0, 4)])
def test_all_sizes_by_one_compile(name, order):
    fn = FUNCTIONS[name]
    fast = braze.compile(fn, fullgraph=True)
    for size in order:
        x = marked(size)
        same(fast(x), fn(x))
    assert len(entries(fast)) == 1


@pytest.mark.parametrize("order", [SIZES, (1, 5, 2, 8)])
def test_the_last_dimension(order):
    def fn(x):
        return x.sum(1), x * 2, x.t() + 1

    fast = braze.compile(fn, fullgraph=True)
    for size in order:
        x = marked(size, dim=1)
        same(fast(x), fn(x))
    assert len(entries(fast)) == 1


def test_a_decision_is_a_break():
    def fn(x):
        y = x + 1
        return y * 2 if x.shape[0] > 4 else y * 3

    fast = braze.compile(fn)
    for size in SIZES:
        x = marked(size)
        same(fast(x), fn(x))
    assert reasons(fast)
    with pytest.raises(braze.GraphBreakError):
        braze.compile(fn, fullgraph=True)(marked(7))


def test_what_has_been_checked_is_known():
    def fn(x):
        torch._check(x.shape[0] >= 2)
        return x * 2 if x.shape[0] > 1 else x * 3

    fast = braze.compile(fn, fullgraph=True)
    for size in (7, 2, 9):
        x = marked(size)
        same(fast(x), x * 2)
    assert len(entries(fast)) == 1
    for call in (fast, braze.compile(fn)):
        with pytest.raises(RuntimeError):
            call(marked(1))


def test_torch_marks_count_too():
    fast = braze.compile(lambda x: x.sin() + 1, fullgraph=True)
    for size in SIZES:
        x = torch.randn(size, 3)
        torch._dynamo.decorators.mark_unbacked(x, 0)
        same(fast(x), x.sin() + 1)
    assert len(entries(fast)) == 1
