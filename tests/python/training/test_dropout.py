"""Dropout of tensors in any layout: eager's masks, and nothing of it left to eager."""

import braze
import pytest
import torch
import torch.nn.functional as F

LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.transpose(0, 1),
    "permuted": lambda x: x.permute(2, 3, 0, 1),
    "channels last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "ones": lambda x: x[:, :1].permute(3, 1, 0, 2),
    "sliced": lambda x: x[:, ::2, 1:],
    "expanded": lambda x: x[:, :1].expand(-1, 6, -1, -1),
}
FUNCTIONS = {
    "dropout": lambda x: F.dropout(x, 0.3),
    "of a result": lambda x: F.dropout(x.sin(), 0.3) * x,
    "two": lambda x: F.dropout(F.dropout(x, 0.3).exp(), 0.6),
    "by channel": lambda x: F.dropout2d(x, 0.5),
    "alpha": lambda x: F.alpha_dropout(x, 0.3),
    "alpha by channel": lambda x: F.feature_alpha_dropout(x, 0.4),
    "noise": lambda x: torch.empty_like(x).bernoulli_(0.4) * x,
    "into a view": lambda x: torch.zeros_like(x).mT.bernoulli_(0.4).mT * x,
    "own generator": lambda x: (
        torch.empty_like(x).bernoulli_(0.4, generator=torch.Generator().manual_seed(3)) * x
    ),
}


def drawn(function, x):
    x = x.detach().requires_grad_()
    torch.manual_seed(5)
    result = function(x)
    result.square().sum().backward()
    return result.detach(), x.grad, torch.get_rng_state()


@pytest.mark.parametrize("dynamic", [None, True], ids=["auto", "dynamic"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_masks_and_gradients(function, layout, dynamic):
    def f(x):
        return FUNCTIONS[function](LAYOUTS[layout](x))

    compiled = braze.compile(f, dynamic=dynamic, fullgraph=function != "own generator")
    with torch.enable_grad():
        for size in (4, 4, 6, 8):
            x = torch.randn(size, 3, 5, 7)
            expected, found = drawn(f, x), drawn(compiled, x)
            torch.testing.assert_close(found, expected)
            assert [t.stride() for t in found] == [t.stride() for t in expected]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_numbers_by_counter(layout):
    """Each place of the tensor has its own bit, whatever the layout is."""
    compiled = braze.compile(
        lambda x: F.dropout(LAYOUTS[layout](x), 0.3), options={"rng": "counter"}, fullgraph=True
    )
    with torch.enable_grad():
        x = torch.ones(40, 30, 5, 7, requires_grad=True)
        result = compiled(x)
        assert set(result.unique().tolist()) == {0.0, result.max().item()}
        assert abs((result == 0).float().mean() - 0.3) < 0.02
        result.sum().backward()
        y = torch.ones_like(x, requires_grad=True)
        (LAYOUTS[layout](y) * result.detach()).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
