"""Group norms over a number of channels that varies."""

import braze
import pytest
import torch
import torch.nn.functional as F
from support import entries


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_group_norm(dtype, affine, capfd):
    def function(x, *parameters):
        return F.group_norm(x, 4, *parameters)

    fast = braze.compile(function)
    for channels in (8, 12, 16, 40):
        x = torch.randn(2, channels, 5, 5).to(dtype)
        parameters = [torch.randn(channels).to(dtype) for _ in range(2 if affine else 0)]
        got, wanted = fast(x, *parameters), function(x, *parameters)
        assert (got.dtype, got.stride()) == (wanted.dtype, wanted.stride())
        torch.testing.assert_close(got, wanted)
    assert len(entries(fast)) == 2
    assert "internal error" not in capfd.readouterr().err


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients_of_group_norm(dtype, capfd):
    def function(x, weight, bias):
        return F.group_norm(x, 4, weight, bias)

    fast = braze.compile(function)
    with torch.enable_grad():
        for channels in (8, 12, 16):
            torch.manual_seed(channels)
            given = torch.randn(2, channels, 5, 5), torch.randn(channels), torch.randn(channels)
            told = []
            for call in (function, fast):
                leaves = [tensor.to(dtype, copy=True).requires_grad_() for tensor in given]
                call(*leaves).square().sum().backward()
                told.append([leaf.grad for leaf in leaves])
            tolerance = {"rtol": 2e-2, "atol": 0.2} if dtype == torch.bfloat16 else {}
            torch.testing.assert_close(told[1], told[0], **tolerance)
    assert len(entries(fast)) == 2
    assert "internal error" not in capfd.readouterr().err
