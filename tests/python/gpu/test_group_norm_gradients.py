"""Group norm's gradients on a GPU, in two passes over what is large."""

import braze
import pytest
import torch
import torch.nn as nn


@pytest.fixture(autouse=True)
def enable_grad():
    torch.manual_seed(0)
    with torch.enable_grad():
        yield


SIZES = {"2d": (4, 32, 14, 14), "1d": (4, 32, 50), "3d": (2, 32, 3, 4, 5), "one pixel": (8, 32)}


def gradients(norm, call, x, dy):
    norm.zero_grad()
    given = x.detach().requires_grad_()
    call(given).backward(dy)
    return [given.grad] + [p.grad.clone() for p in norm.parameters()]


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("groups", [1, 8, 16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", SIZES)
def test_gradients(name, dtype, groups, affine):
    norm = nn.GroupNorm(groups, 32, affine=affine).cuda().to(dtype)
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(SIZES[name], device="cuda").to(dtype) + 1
    dy = torch.randn_like(x)
    layouts = [x]
    if x.dim() == 4:
        layouts.append(x.to(memory_format=torch.channels_last))
    for given in layouts:
        fast = braze.compile(norm, fullgraph=True)
        eager, ours = (gradients(norm, call, given, dy) for call in (norm, fast))
        exact = nn.GroupNorm(groups, 32, affine=affine).cuda().double()
        exact.load_state_dict(norm.state_dict())
        wanted = gradients(exact, exact, given.double(), dy.double())
        for a, b, right in zip(eager, ours, wanted, strict=True):
            assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)
            scale = right.abs().max().item()
            bound = (1e-4 if dtype == torch.float32 else 2e-2) * scale
            # As right as eager, or within a few roundings.
            error = (b.double() - right).abs().max().item()
            assert error <= max(bound, 2 * (a.double() - right).abs().max().item())
