"""Gradients lie in memory as in eager, and finding out how runs no kernel."""

import copy

import braze
import pytest
import torch
import torch.nn.functional as F
from comparing import assert_same, assert_same_state
from torch import nn

from bench import hooks


class Block(nn.Module):
    """A residual block of ResNet's, with what follows the last."""

    def __init__(self, width=8):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
        self.down = nn.Conv2d(width, 2 * width, 1, 2)
        self.conv3 = nn.Conv2d(width, 2 * width, 3, 2, 1, groups=2)
        self.head = nn.Linear(2 * width, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = x + F.relu(self.bn2(self.conv2(x)))
        x = F.relu(self.down(x) + self.conv3(x))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Fn(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x):
        return self.fn(x)


def attention(x):
    q = x.flatten(2).unflatten(2, (-1, 4))
    return F.scaled_dot_product_attention(q, q * 2, q)


IMAGES = {
    "block": lambda: Block(),
    "conv": lambda: nn.Conv2d(3, 6, 3, groups=3),
    "depthwise": lambda: nn.Conv2d(3, 3, 7, padding=3, groups=3),
    "dilated": lambda: nn.Conv2d(3, 4, 3, dilation=2, bias=False),
    "transposed": lambda: nn.ConvTranspose2d(3, 4, 2, 2),
    "batch_norm": lambda: nn.BatchNorm2d(3),
    "instance_norm": lambda: nn.InstanceNorm2d(3, affine=True),
    "group_norm": lambda: nn.GroupNorm(3, 3),
    "layer_norm": lambda: nn.LayerNorm([8]),
    "prelu": lambda: nn.PReLU(3),
    "hardswish": lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.Hardswish(), nn.ReLU6()),
    "adaptive_pool": lambda: nn.AdaptiveAvgPool2d(3),
    "reflect": lambda: Fn(lambda x: F.pad(x, (1, 2, 1, 0), mode="reflect")),
    "replicate": lambda: Fn(lambda x: F.pad(x, (1, 2, 1, 0), mode="replicate")),
    "unfold": lambda: nn.Unfold(3),
    "glu": lambda: Fn(lambda x: F.glu(x, -1)),
    "log_sigmoid": lambda: nn.LogSigmoid(),
    "mse": lambda: Fn(lambda x: F.mse_loss(x, x.detach() + 1)),
    "huber": lambda: Fn(lambda x: F.huber_loss(x, x.detach() + 1)),
    "smooth_l1": lambda: Fn(lambda x: F.smooth_l1_loss(x, x.detach() + 1)),
    "nll": lambda: Fn(lambda x: F.cross_entropy(x.contiguous(), x.detach().argmax(1))),
    "repeat": lambda: Fn(lambda x: x.repeat(1, 2, 1, 1)),
    "attention": lambda: Fn(attention),
}


def layouts(x):
    return {
        "contiguous": x,
        "channels_last": x.to(memory_format=torch.channels_last),
        "transposed": x.transpose(2, 3).contiguous().transpose(2, 3),
        "sliced": F.pad(x, (0, 1))[..., :-1],
    }


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "transposed", "sliced"])
@pytest.mark.parametrize("name", IMAGES)
def test_gradients_lie_as_in_eager(name, layout, dynamic):
    torch.manual_seed(0)
    module = IMAGES[name]()
    if layout == "channels_last":
        module = module.to(memory_format=torch.channels_last)
    for training in (True, False):
        module.train(training).zero_grad()
        twin = copy.deepcopy(module)
        fast = braze.compile(twin, dynamic=dynamic)
        image = layouts(torch.randn(2, 3, 8, 8))[layout]
        inputs = [image.detach().clone().requires_grad_() for _ in range(2)]
        results = [call(x) for call, x in zip((module, fast), inputs)]
        assert_same(results[1].detach(), results[0].detach(), rtol=1e-4, atol=1e-5)
        for result in results:
            (result * result).sum().backward()
        assert_same(inputs[1].grad, inputs[0].grad, rtol=1e-4, atol=1e-5)
        assert_same_state(module, twin, rtol=1e-4, atol=1e-4)


def probes_of(module, *args, dynamic=False):
    captured = hooks.capture(nn.Module.__call__.__get__(module), args, {}, dynamic=dynamic)
    assert captured["exit"] == "return", captured["reason"]
    return captured["probes"]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_no_kernel_runs_for_a_training_capture(layout, dtype, training):
    module = Block().to(dtype).train(training)
    if layout == "channels_last":
        module = module.to(memory_format=torch.channels_last)
    x = layouts(torch.randn(2, 3, 32, 32, dtype=dtype))[layout]
    assert probes_of(module, x) == 0


def test_no_kernel_runs_for_sizes_that_vary():
    assert probes_of(Block(), torch.randn(4, 3, 32, 32), dynamic=True) == 0
    depthwise = nn.Conv2d(6, 6, 7, padding=3, groups=6).to(memory_format=torch.channels_last)
    x = torch.randn(4, 6, 9, 8)
    for x in (x, x.to(memory_format=torch.channels_last)):
        assert probes_of(depthwise, x, dynamic=True) == 0


def test_no_kernel_runs_for_a_transformer():
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    model = nn.Sequential(nn.Embedding(10, 16), layer, nn.Linear(16, 10))
    tokens = torch.randint(0, 10, (2, 6))
    for dynamic in (False, True):
        assert probes_of(model, tokens, dynamic=dynamic) == 0


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "fn",
    [
        lambda y, z: y + z.t(),
        lambda y, z: (y.short() + z.t()) * 1,
        lambda y, z: (y.repeat(2)[: z.shape[0]] + z.t()).t(),
    ],
    ids=["broadcast", "promoted", "turned"],
)
def test_sizes_that_turn_out_to_be_equal(fn, dynamic):
    """A size that another one fixes leaves the layout of the result, and of its tangent, known."""
    outcomes = []
    for f in (fn, braze.compile(fn, dynamic=dynamic)):
        y, z = torch.arange(6.0), torch.ones(6, 4).requires_grad_()
        result = f(y, z)
        (gradient,) = torch.autograd.grad(result, z, torch.full_like(result, 0.5))
        outcomes.append((result.detach(), result.stride(), gradient, gradient.stride()))
    wanted, got = outcomes
    torch.testing.assert_close(got[0], wanted[0])
    torch.testing.assert_close(got[2], wanted[2])
    assert got[1] == wanted[1] and got[3] == wanted[3]
