"""`_fused_rms_norm_backward`, which PyTorch has for GPUs alone, as kernels on any device."""

import braze
import pytest
import torch
import torch.nn.functional as F

aten = torch.ops.aten


@pytest.mark.parametrize("with_weight", [True, False])
@pytest.mark.parametrize("wanted", [[True, True], [True, False], [False, True]])
@pytest.mark.parametrize("sizes", [(6, 8), (2, 3, 7), (5,)])
def test_as_autograd_of_the_formula(sizes, wanted, with_weight):
    torch.manual_seed(0)
    wanted = [wanted[0], wanted[1] and with_weight]
    x, dy = torch.randn(sizes), torch.randn(sizes)
    w = torch.randn(sizes[-1]) if with_weight else None
    eps = 1e-6
    rstd = torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)

    def gradients(dy, x, rstd, w):
        results = aten._fused_rms_norm_backward(dy, x, sizes[-1:], rstd, w, wanted)
        return [r for r, is_wanted in zip(results, wanted, strict=True) if is_wanted]

    leaves = [x.double().requires_grad_()] + ([w.double().requires_grad_()] if with_weight else [])
    with torch.enable_grad():
        y = F.rms_norm(leaves[0], sizes[-1:], leaves[1] if with_weight else None, eps)
        exact = torch.autograd.grad(y, leaves, dy.double())
    exact = [e for e, is_wanted in zip(exact, wanted, strict=False) if is_wanted]
    with torch.no_grad():
        got = braze.compile(gradients)(dy, x, rstd, w)
    assert len(got) == len(exact)
    for mine, truth in zip(got, exact, strict=True):
        torch.testing.assert_close(mine.double(), truth, rtol=1e-5, atol=1e-5)
