"""Operators over lists of tensors (torch._foreach_*)."""

import braze
import pytest
import torch
from support import compare, entries, reasons, same


def add_number(a, b):
    torch._foreach_add_([a, b], 1)
    return a * b


def multiply_intermediates(a, b):
    c, d = a + 1, b * 2
    torch._foreach_mul_([c, d], [a, b])
    return c, d


def copy(a, b):
    c, d = a + 1, b * 2
    torch._foreach_copy_([c, d], [b, a])
    torch._foreach_copy_([a], [d])
    return c + 1, d


def views(a, b):
    c = torch.cat([a, b])
    torch._foreach_zero_([c[:1], c[2:3]])
    return c


def same_tensor_twice(a, b):
    torch._foreach_add_([a, a], [b, b])
    return a


def with_numbers(a, b):
    torch._foreach_addcmul_([a, b], [b, a], [b, a], [0.5, 2.0])
    torch._foreach_sqrt_([b])
    return torch._foreach_norm([a, b]), torch._foreach_maximum([a, b], 1.0)


def step(a, b):
    moments = torch._foreach_mul([a, b], 0.9)
    torch._foreach_lerp_(moments, [b, a], 0.1)
    torch._foreach_addcdiv_([a, b], moments, torch._foreach_add(moments, 4.0), value=-0.1)
    return moments


def unequal_lists(a, b):
    torch._foreach_add_([a, b], [a])
    return a


EACH = [
    add_number,
    multiply_intermediates,
    copy,
    views,
    same_tensor_twice,
    with_numbers,
    step,
    unequal_lists,
]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("fn", EACH)
def test_in_place_over_lists(fn, dynamic, capfd):
    calls = [lambda n=n: (torch.arange(n) + 1.0, torch.full((n,), 2.0)) for n in (4, 4, 6)]
    compare(lambda: fn, calls, dynamic=dynamic)
    assert "internal error" not in capfd.readouterr().err


def test_lists_become_kernels():
    fast = braze.compile(step)
    fast(torch.ones(4), torch.ones(4))
    assert reasons(fast) == []
    assert len(entries(fast)) == 1


def test_parameters_under_no_grad():
    weight = torch.nn.Parameter(torch.ones(3))

    @braze.compile
    def update(gradient):
        with torch.no_grad():
            torch._foreach_add_([weight], [gradient], alpha=-0.5)
        return weight.sum()

    assert update(torch.full((3,), 2.0)).item() == 0
    assert update(torch.full((3,), 2.0)).item() == -3
    assert weight.tolist() == [-1, -1, -1]


@pytest.mark.parametrize("dim", [-3, -1, 0, 1, 4])
def test_joined_tensors_of_size_0(dim):
    """They join along any dimension, whether they have it or not."""

    def join(a, b, c):
        return torch.cat([a, b], dim=dim), torch.cat([c], dim=dim), torch.cat([a * 2, a], dim) + 1

    def gradient(a, b, c):
        a = a.clone().requires_grad_()
        joined = torch.cat([a * 2, b], dim=dim)
        return joined, torch.autograd.grad(joined.sum(), a)

    args = torch.empty(0), torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.int64)
    for function in (join, gradient):
        for dynamic in (None, True):
            fast = braze.compile(function, dynamic=dynamic)
            with torch.enable_grad():
                same(fast(*args), function(*args))
            assert not reasons(fast)
            assert len(entries(fast)) == 1


def test_joined_tensors_of_size_0_and_others():
    def join(a, b):
        return torch.cat([a, b, a], dim=1)

    fast = braze.compile(join)
    for count in (2, 3, 5):
        args = torch.empty(0), torch.randn(2, count)
        same(fast(*args), join(*args))
    assert not reasons(fast)
    with pytest.raises(IndexError, match="Dimension out of range"):
        fast(torch.empty(0), torch.randn(2))
