"""Batch norm on a GPU, which is Braze's own kernels there, against double precision and eager."""

import copy

import braze
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]
EPS = {torch.float64: 2e-11, torch.float32: 2e-5, torch.float16: 4e-3, torch.bfloat16: 3e-2}


@pytest.fixture(autouse=True)
def _gradients():
    torch.manual_seed(0)
    with torch.enable_grad():
        yield


def steps(module, call, batches, train=True):
    """Results, gradients and buffers after a step for each batch."""
    module.train(train)
    seen = []
    for x in batches:
        x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
        y = call(x)
        y.float().pow(2).mul(torch.linspace(0, 1, y.shape[-1], device=y.device)).sum().backward()
        seen += [y.detach(), x.grad]
    seen += [parameter.grad for parameter in module.parameters()]
    return seen + [buffer.clone() for buffer in module.buffers()]


def check(make, batches, train=True):
    """As near to double precision as eager, or as the dtype allows; strides as eager's."""
    module = make().cuda()
    dtype = batches[0].dtype
    with torch.no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            if tensor.is_floating_point():
                tensor.uniform_(0.5, 1.5)
    twin, exact = copy.deepcopy(module), copy.deepcopy(module).double()
    fast = braze.compile(twin, fullgraph=True)
    got = steps(twin, fast, batches, train)
    expected = steps(module, module, batches, train)
    right = steps(exact, exact, [x.double() for x in batches], train)
    for a, b, c in zip(got, expected, right, strict=True):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
        error, eager = ((t.double() - c.double()).abs().max() for t in (a, b))
        bound = EPS[dtype] * (1 + c.double().abs().max())
        assert error <= max(3 * eager, bound), (error, eager, bound)


@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "shape", [(8, 5, 9, 7), (64, 3, 40, 40), (2, 300, 3, 3), (4, 2, 160, 160), (32, 64, 28, 28)]
)
def test_images(shape, dtype, train):
    batches = [torch.randn(shape, device="cuda").to(dtype) for _ in range(2)]
    check(lambda: nn.BatchNorm2d(shape[1]).to(dtype), batches, train)


@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("dtype", DTYPES[:3], ids=str)
def test_channels_last(dtype, train):
    batches = [
        torch.randn(16, 24, 30, 20, device="cuda").to(dtype, memory_format=torch.channels_last)
        for _ in range(2)
    ]
    check(lambda: nn.BatchNorm2d(24).to(dtype), batches, train)


@pytest.mark.parametrize("dtype", DTYPES[1:3], ids=str)
@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
def test_halves_beside_single_parameters(dtype, train):
    batches = [torch.randn(8, 16, 12, 12, device="cuda").to(dtype) for _ in range(2)]
    check(lambda: nn.BatchNorm2d(16), batches, train)


@pytest.mark.parametrize(
    "name", ["rows", "signals", "volumes", "no statistics", "not affine", "average", "frozen"]
)
def test_kinds(name):
    make, shape = {
        "rows": (lambda: nn.BatchNorm1d(12), (50, 12)),
        "signals": (lambda: nn.BatchNorm1d(12), (6, 12, 31)),
        "volumes": (lambda: nn.BatchNorm3d(6), (2, 6, 5, 6, 7)),
        "no statistics": (lambda: nn.BatchNorm2d(6, track_running_stats=False), (4, 6, 8, 8)),
        "not affine": (lambda: nn.BatchNorm2d(6, affine=False), (4, 6, 8, 8)),
        "average": (lambda: nn.BatchNorm2d(6, momentum=0.7, eps=0.1), (4, 6, 8, 8)),
        "frozen": (lambda: nn.BatchNorm2d(6).requires_grad_(False), (4, 6, 8, 8)),
    }[name]
    module = make()
    if name == "frozen":
        check_frozen(module, shape)
    else:
        check(make, [torch.randn(shape, device="cuda") for _ in range(3)])
        check(make, [torch.randn(shape, device="cuda") for _ in range(2)], train=False)


def check_frozen(module, shape):
    module = module.cuda()
    x = torch.randn(shape, device="cuda", requires_grad=True)
    y = torch.randn(shape, device="cuda", requires_grad=True)
    with torch.no_grad():
        y.copy_(x)
    twin = copy.deepcopy(module)
    braze.compile(twin, fullgraph=True)(x).pow(3).sum().backward()
    module(y).pow(3).sum().backward()
    torch.testing.assert_close(x.grad, y.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(twin.running_var, module.running_var)


def test_far_from_zero():
    """Variances are of distances from the mean, in parts too."""
    x = torch.randn(64, 4, 64, 64, device="cuda") + 1000
    x[0, 0, 0, 0] = 1e5
    check(lambda: nn.BatchNorm2d(4), [x])


def test_with_what_stands_around_it():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Conv2d(8, 8, 3, padding=1, bias=False)
            self.norm = nn.BatchNorm2d(8)
            self.second = nn.Conv2d(8, 8, 1, bias=False)
            self.last = nn.BatchNorm2d(8)

        def forward(self, x):
            return F.relu(self.last(self.second(F.relu(self.norm(self.first(x))))) + x)

    check(Block, [torch.randn(4, 8, 16, 16, device="cuda") for _ in range(3)])


def test_a_second_backward():
    module = nn.BatchNorm2d(4).cuda()
    twin = copy.deepcopy(module)
    fast = braze.compile(twin)

    def penalty(call):
        x = torch.linspace(-1, 2, 4 * 4 * 25, device="cuda").view(4, 4, 5, 5).requires_grad_()
        (grad,) = torch.autograd.grad(call(x).pow(3).sum(), x, create_graph=True)
        grad.pow(2).sum().backward()
        return x.grad

    torch.testing.assert_close(penalty(fast), penalty(module), rtol=1e-3, atol=1e-3)


def test_sizes_that_vary():
    module = nn.BatchNorm2d(5).cuda()
    twin = copy.deepcopy(module)
    fast = braze.compile(twin, dynamic=True)
    for n in (3, 8, 17):
        x = torch.randn(n, 5, n + 4, 6, device="cuda")
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        fast(a).pow(3).sum().backward()
        module(b).pow(3).sum().backward()
        torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(twin.running_var, module.running_var)
