"""Networks of convolutions on a GPU, which compute with channels innermost."""

import copy
import re

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


def conv_norm(before, after, size, stride=1, groups=1):
    conv = nn.Conv2d(before, after, size, stride, size // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(after))


class ResNet(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.stem = conv_norm(3, width, 7, 2)
        self.blocks = nn.ModuleList(
            nn.Sequential(conv_norm(width, width, 3), nn.ReLU(), conv_norm(width, width, 3))
            for _ in range(3)
        )
        self.down, self.head = conv_norm(width, 2 * width, 1, 2), nn.Linear(2 * width, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.stem(x)), 3, 2, 1)
        for block in self.blocks:
            x = F.relu(x + block(x))
        return self.head(F.adaptive_avg_pool2d(F.relu(self.down(x)), 1).flatten(1))


class EfficientNet(nn.Module):
    def __init__(self, width=32, depth=3):
        super().__init__()
        self.stem = conv_norm(3, width, 3, 2)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "expand": conv_norm(width, 4 * width, 1),
                    "depthwise": conv_norm(4 * width, 4 * width, 5, groups=4 * width),
                    "reduce": nn.Conv2d(4 * width, 8, 1),
                    "restore": nn.Conv2d(8, 4 * width, 1),
                    "project": conv_norm(4 * width, width, 1),
                }
            )
            for _ in range(depth)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = F.silu(self.stem(x))
        for block in self.blocks:
            y = F.silu(block["depthwise"](F.silu(block["expand"](x))))
            gate = block["restore"](F.silu(block["reduce"](y.mean((2, 3), keepdim=True))))
            x = x + block["project"](y * torch.sigmoid(gate))
        return self.head(x.mean((2, 3)))


class UNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.first, self.second = conv_norm(3, width, 3), conv_norm(width, 2 * width, 3)
        self.middle, self.norm = nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.GroupNorm(4, 64)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.join, self.out = conv_norm(4 * width, width, 3), nn.Conv2d(width, 4, 1)

    def forward(self, x):
        a = F.relu(self.first(x))
        b = F.relu(self.second(F.max_pool2d(a, 2)))
        c = F.silu(self.norm(self.middle(b)))
        wide = F.interpolate(c, scale_factor=2, mode="bilinear")
        return self.out(F.relu(self.join(torch.cat([a, self.up(c), wide], 1))))


NETWORKS = {"resnet": ResNet, "efficientnet": EfficientNet, "unet": UNet}


def convolutions(call, x):
    """By convolution of a call: whether its result has channels innermost; maps of one point,
    which lie the same either way, are left out."""
    details = braze.explain(call)(x).details
    values = set(re.findall(r"^ *(%\d+)(?:, \S+)* = aten\.convolution\(.*\)$", details, re.M))
    types = dict(re.findall(r"^ *(%\d+): (\S+\[.*\]\S* ?.*) extern$", details, re.M))
    found = [types[value] for value in values if value in types and "1, 1]" not in types[value]]
    assert found, details
    return [bool(re.search(r"\{\d+, 1, ", each)) for each in found]


def close(got, wanted, exact):
    """`exact`: the same in float64. Two ways to compute in halves differ by their rounding."""
    assert (got.dtype, got.shape, got.stride()) == (wanted.dtype, wanted.shape, wanted.stride())
    error = (got.double() - exact).norm() / exact.norm().clamp_min(1e-6)
    of_eager = (wanted.double() - exact).norm() / exact.norm().clamp_min(1e-6)
    assert error <= 3 * of_eager + 1e-2, (error.item(), of_eager.item())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", NETWORKS)
def test_inference(name, dtype):
    exact = NETWORKS[name]().cuda().eval().double()
    model = copy.deepcopy(exact).to(dtype)
    x = torch.randn(16, 3, 64, 64, device="cuda", dtype=dtype)
    with torch.no_grad():
        assert all(convolutions(model, x))
        fast = braze.compile(model, fullgraph=True)
        for _ in range(2):
            close(fast(x), model(x), exact(x.double()))


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("name", NETWORKS)
def test_training(name, autocast):
    exact = NETWORKS[name]().cuda().double()
    model = copy.deepcopy(exact).to(torch.float32 if autocast else torch.float16)
    twin = copy.deepcopy(model)
    fast = braze.compile(twin, fullgraph=True)
    x = torch.randn(16, 3, 64, 64, device="cuda")
    x = x if autocast else x.half()
    found = []
    for call, own in ((exact, exact), (model, model), (fast, twin)):
        given = x.double() if own is exact else x.clone()
        given.requires_grad_()
        with torch.autocast("cuda", torch.float16, enabled=autocast and own is not exact):
            y = call(given)
        (y.double() if own is exact else y.float()).pow(2).mean().backward()
        found.append(
            {
                "result": y.detach(),
                "image": given.grad,
                **{name: p.grad for name, p in own.named_parameters()},
                **{name: b for name, b in own.named_buffers() if b.is_floating_point()},
            }
        )
    right, wanted, got = found
    for key in wanted:
        close(got[key], wanted[key], right[key])


def test_float32_stays_in_rows():
    """With channels innermost cuDNN takes TF32 for it, for rows it does not."""
    model = ResNet().cuda().eval()
    x = torch.randn(16, 3, 64, 64, device="cuda")
    with torch.no_grad():
        assert not any(convolutions(model, x))
        torch.testing.assert_close(braze.compile(model)(x), model(x), rtol=1e-4, atol=1e-4)


def test_one_convolution_alone_stays_in_rows():
    layer = nn.Conv2d(64, 64, 3, padding=1).cuda().half()
    x = torch.randn(8, 64, 28, 28, device="cuda", dtype=torch.float16)
    with torch.no_grad():
        assert not any(convolutions(layer, x))


def test_under_cuda_graphs():
    exact = EfficientNet().cuda().eval().double()
    model = copy.deepcopy(exact).half()
    fast = braze.compile(model, mode="reduce-overhead")
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(16, 3, 64, 64, device="cuda", dtype=torch.float16)
            close(fast(x), model(x), exact(x.double()))
