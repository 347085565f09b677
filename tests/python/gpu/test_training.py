"""Modules on a GPU, trained compiled and in eager."""

import copy

import braze
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F


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


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("kernel", ["EFFICIENT_ATTENTION", "FLASH_ATTENTION", "MATH"])
def test_kernels_of_attention(kernel, dropout, capfd):
    """Seeds that a kernel's forward has left on the CPU reach its backward."""

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True).sin()

    # The flash kernel's seed is of a dtype that graphs do not have: a break.
    fast = braze.compile(attend, fullgraph=kernel != "FLASH_ATTENTION")
    given = [torch.randn(2, 4, 64, 32, device="cuda", dtype=torch.float16) for _ in range(3)]
    with torch.nn.attention.sdpa_kernel(getattr(torch.nn.attention.SDPBackend, kernel)):
        for number in range(3):
            results = []
            for call in (attend, fast):
                leaves = [x.clone().requires_grad_() for x in given]
                torch.manual_seed(number)
                y = call(*leaves)
                y.float().square().mean().backward()
                results.append([y, *(x.grad for x in leaves), torch.cuda.get_rng_state()])
            for a, e in zip(*results, strict=True):
                torch.testing.assert_close(a, e, rtol=0.02, atol=2e-3)
    assert "internal error" not in capfd.readouterr().err


def test_a_mask_that_hides_nothing():
    """Such a mask keeps PyTorch from a kernel that never holds the scores."""

    def attend(x, offset):
        n = x.shape[1]
        q = x.view(*x.shape[:2], 4, -1).transpose(1, 2)
        hidden_below = torch.arange(n, device=x.device)[:, None] + offset
        mask = (hidden_below >= 0).expand(x.shape[0], 1, n, n)
        return F.scaled_dot_product_attention(q, q, q, attn_mask=mask)

    def known(x):
        return attend(x, 3)

    def hides_some(x):
        return attend(x, -5)

    def run_by(function, *args):
        return str(braze.explain(function)(*args))

    x = torch.randn(2, 24, 64, device="cuda")
    for function, args in [(known, ()), (hides_some, ()), (attend, (0,)), (attend, (-7,))]:
        fast = braze.compile(function, fullgraph=True)
        for more in (args, (args[0] - 2,) if args else ()):
            torch.testing.assert_close(
                fast(x, *more), function(x, *more), rtol=1e-3, atol=1e-3, equal_nan=True
            )
    assert "efficient_attention" in run_by(known, x)
    assert "efficient_attention" not in run_by(hides_some, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_sums_into_places(dtype):
    """Rows that repeat are added up on a GPU as eager adds them up."""
    index = torch.randint(5, (40,), device="cuda")
    rows = torch.randn(8, 16, device="cuda").to(dtype)

    def f(rows):
        picked = rows[index] * 2
        return picked.new_zeros(8, 16).index_add(0, index, picked.sin())

    results = []
    for call in (f, braze.compile(f, fullgraph=True)):
        leaf = rows.clone().requires_grad_()
        y = call(leaf)
        y.float().square().sum().backward()
        results.append((y, leaf.grad))
    tolerance = 1e-4 if dtype == torch.float32 else 0.05
    for a, e in zip(*results, strict=True):
        torch.testing.assert_close(a, e, rtol=tolerance, atol=tolerance * 10)


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
