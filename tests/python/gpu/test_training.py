"""Modules on a GPU, trained compiled and in eager."""

import copy

import braze
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(),
    reason="needs an NVIDIA GPU that PyTorch can use; a machine with one lifts it",
)


@pytest.fixture(autouse=True)
def _gradients():
    torch.manual_seed(0)
    with torch.enable_grad():
        yield


class Block(nn.Module):
    def __init__(self, width=64, heads=4):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.heads = heads

    def forward(self, x):
        b, n, w = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).reshape(b, n, w))
        return x + self.down(F.gelu(self.up(x)))


MODULES = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 10)),
        lambda: torch.randn(16, 32),
    ),
    "block": (Block, lambda: torch.randn(2, 16, 64)),
    "convolution": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        ),
        lambda: torch.randn(4, 3, 12, 12),
    ),
    "embedding": (
        lambda: nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 50)),
        lambda: torch.randint(50, (4, 8)),
    ),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", MODULES)
def test_module(name, dtype, capfd):
    make, batch = MODULES[name]
    module = make().cuda().to(dtype)
    twin = copy.deepcopy(module)
    fast = braze.compile(twin)
    tolerance = (
        {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 0.05, "atol": 0.02}
    )
    for _ in range(3):
        x = batch().cuda()
        x = x.to(dtype) if x.is_floating_point() else x
        for call in (module, fast):
            call(x).float().square().mean().backward()
        for p, q in zip(module.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(q.grad, p.grad, **tolerance)
    assert "internal error" not in capfd.readouterr().err


def test_on_a_stream_of_the_users():
    module = MODULES["mlp"][0]().cuda()
    x = torch.randn(16, 32, device="cuda")
    fast = braze.compile(lambda x: module(x).square().sum())
    fast(x).backward()
    wanted = [p.grad.clone() for p in module.parameters()]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for p in module.parameters():
            p.grad = None
        fast(x).backward()
    stream.synchronize()
    for p, g in zip(module.parameters(), wanted, strict=True):
        torch.testing.assert_close(p.grad, g)


def test_a_gradient_penalty():
    module = nn.Sequential(nn.Linear(8, 16), nn.Softplus(), nn.Linear(16, 1)).cuda()
    twin = copy.deepcopy(module)
    fast = braze.compile(twin)
    x = torch.randn(6, 8, device="cuda")
    for model, call in ((module, module), (twin, fast)):
        given = x.clone().requires_grad_()
        y = call(given)
        (gradient,) = torch.autograd.grad(y.sum(), given, create_graph=True)
        (y.mean() + (gradient.norm(2, dim=1) - 1).square().mean()).backward()
    for p, q in zip(module.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(q.grad, p.grad, rtol=1e-4, atol=1e-5)
