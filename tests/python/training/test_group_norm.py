"""Group norm's gradients, against eager and double precision."""

import braze
import pytest
import torch
import torch.nn as nn


@pytest.fixture(autouse=True)
def enable_grad():
    torch.manual_seed(0)
    with torch.enable_grad():
        yield


SIZES = {"1d": (3, 8, 11), "2d": (3, 8, 5, 7), "3d": (2, 8, 2, 3, 4), "one pixel": (6, 8, 1, 1)}


def gradients(norm, call, x, dy):
    norm.zero_grad()
    given = x.detach().requires_grad_(x.requires_grad)
    call(given).backward(dy)
    return [given.grad] + [None if p.grad is None else p.grad.clone() for p in norm.parameters()]


def check(norm, x, **options):
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    dy = torch.randn_like(x)
    fast = braze.compile(norm, fullgraph=True, **options)
    exact = nn.GroupNorm(norm.num_groups, norm.num_channels, affine=norm.affine).double()
    exact.load_state_dict(norm.state_dict())
    eager, ours = (gradients(norm, call, x, dy) for call in (norm, fast))
    right = gradients(exact, exact, x.detach().double().requires_grad_(), dy.double())
    for a, b, c in zip(eager, ours, right, strict=True):
        assert (a is None) == (b is None)
        if a is None:
            continue
        assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)
        # Groups of two elements cancel: there the formula is as far off in eager.
        bound = {2: 2e-2, 4: 1e-5, 8: 1e-12}[a.element_size()] * max(1, c.abs().max().item())
        assert (b - c).abs().max() <= max(bound, 2 * (a - c).abs().max().item())
    return fast


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
@pytest.mark.parametrize("name", SIZES)
def test_gradients(name, dtype, groups, affine):
    norm = nn.GroupNorm(groups, 8, affine=affine).to(dtype)
    x = torch.randn(SIZES[name]).to(dtype) + 1
    check(norm, x.requires_grad_())
    if x.dim() == 4:
        last = x.detach().to(memory_format=torch.channels_last)
        check(norm, last.requires_grad_())


def test_gradients_of_the_parameters_alone():
    check(nn.GroupNorm(2, 8), torch.randn(3, 8, 5))


def test_batches_and_areas_that_vary():
    norm = nn.GroupNorm(2, 8)
    fast = braze.compile(norm, fullgraph=True, dynamic=True)
    for sizes in ((3, 8, 5, 7), (2, 8, 4, 9), (5, 8, 6, 6)):
        x = torch.randn(sizes, requires_grad=True)
        dy = torch.randn(sizes)
        for a, b in zip(gradients(norm, norm, x, dy), gradients(norm, fast, x, dy), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
