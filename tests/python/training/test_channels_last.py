"""Convolutions that compute with channels innermost: nothing but time may show it."""

import copy
import re

import braze
import pytest
import torch
import torch.nn.functional as F
from comparing import assert_same, assert_same_state
from torch import nn

CLOSE = {"rtol": 1e-4, "atol": 1e-4}


def compiled(call, channels_last=True, **settings):
    return braze.compile(call, options={"channels_last": channels_last}, **settings)


class Residual(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
        self.down, self.bn4 = nn.Conv2d(width, 32, 1, 2, bias=False), nn.BatchNorm2d(32)
        self.conv4, self.bn5 = nn.Conv2d(width, 32, 3, 2, 1, groups=2), nn.BatchNorm2d(32)
        self.head = nn.Linear(32, 5)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = F.relu(x + self.bn3(self.conv3(F.relu(self.bn2(self.conv2(x))))))
        x = F.relu(self.bn4(self.down(x)) + self.bn5(self.conv4(x)))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Squeezed(nn.Module):
    """A block of EfficientNet's, whose gates are maps of one point."""

    def __init__(self, width=16):
        super().__init__()
        self.stem, self.bn1 = nn.Conv2d(3, width, 3, 2, 1, bias=False), nn.BatchNorm2d(width)
        self.depthwise = nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False)
        self.bn2, self.bn3 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.reduce, self.expand = nn.Conv2d(width, 4, 1), nn.Conv2d(4, width, 1)
        self.project, self.head = nn.Conv2d(width, width, 1, bias=False), nn.Linear(width, 5)

    def forward(self, x):
        x = F.silu(self.bn1(self.stem(x)))
        y = F.hardswish(self.bn2(self.depthwise(x)))
        gate = self.expand(F.silu(self.reduce(F.adaptive_avg_pool2d(y, 1))))
        x = x + self.bn3(self.project(y * torch.sigmoid(gate)))
        return self.head(x.mean([2, 3]))


class UNet(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.second = nn.Conv2d(width, 2 * width, 3, padding=1)
        self.middle, self.bn = nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.BatchNorm2d(16)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, 2)
        self.join, self.out = nn.Conv2d(4 * width, width, 3, padding=1), nn.Conv2d(width, 2, 1)

    def forward(self, x):
        a = F.relu(self.first(x))
        b = F.relu(self.second(F.max_pool2d(a, 2)))
        c = F.relu(self.bn(self.middle(F.avg_pool2d(b, 2))))
        c = F.interpolate(c, scale_factor=2, mode="nearest")
        up, wide = self.up(b + c), F.interpolate(c, scale_factor=2, mode="bilinear")
        return self.out(F.leaky_relu(self.join(torch.cat([a, up, wide], 1))))


class Attentive(nn.Module):
    """ConvNeXt's block, group norm, and attention over the points of the image."""

    def __init__(self, width=16):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 4, 4)
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm, self.wide = nn.LayerNorm(width), nn.Linear(width, 2 * width)
        self.narrow, self.scale = nn.Linear(2 * width, width), nn.Parameter(torch.ones(width))
        self.groups, self.qkv = nn.GroupNorm(4, width), nn.Conv2d(width, 3 * width, 1)
        self.last = nn.Conv2d(width, 8, 3)

    def forward(self, x):
        x = self.stem(x)
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.narrow(F.gelu(self.wide(y))) * self.scale
        x = self.groups(x + y.permute(0, 3, 1, 2))
        q, k, v = self.qkv(x).flatten(2).unflatten(1, (3, 2, -1)).transpose(3, 4).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.last(x + y.transpose(2, 3).reshape(x.shape))


class Fn(nn.Module):
    def __init__(self, before, fn, after=None):
        super().__init__()
        self.before, self.fn, self.after = before, fn, after or nn.Identity()

    def forward(self, x):
        return self.after(self.fn(self.before(x)))


def conv(before=3, after=8, size=3, **settings):
    return nn.Conv2d(before, after, size, **settings)


def norm_of_batch(x):
    return F.batch_norm(x, None, None, training=True)


MODELS = {
    "residual": Residual,
    "squeezed": Squeezed,
    "unet": UNet,
    "attentive": Attentive,
    "grouped": lambda: conv(3, 6, groups=3),
    "dilated": lambda: conv(dilation=2, stride=2, padding=1),
    "same": lambda: conv(size=4, padding="same", padding_mode="reflect"),
    "one point": lambda: conv(size=16),
    "of one channel": lambda: nn.Sequential(
        Fn(nn.Identity(), lambda x: x[:, :1]), conv(1), conv(8)
    ),
    "to one channel": lambda: nn.Sequential(conv(), conv(8, 1)),
    "on one point": lambda: nn.Sequential(nn.AdaptiveAvgPool2d(1), conv(size=1), conv(8, 4, 1)),
    "from one point": lambda: Fn(
        nn.AdaptiveAvgPool2d(1), nn.ConvTranspose2d(3, 8, 4), nn.ConvTranspose2d(8, 3, 4, 2, 1)
    ),
    "transposed": lambda: nn.Sequential(conv(), nn.ConvTranspose2d(8, 4, 3, 2, 1, 1, groups=2)),
    "one dimension": lambda: Fn(conv(), lambda x: x.flatten(2), nn.Conv1d(8, 4, 3)),
    "three dimensions": lambda: Fn(
        conv(), lambda x: x.unflatten(1, (2, 4)), nn.Conv3d(2, 4, 3, padding=1)
    ),
    "unbatched": lambda: Fn(nn.Identity(), lambda x: x[0], nn.Sequential(conv(), conv(8))),
    "prelu": lambda: nn.Sequential(conv(), nn.PReLU(8), conv(8), nn.PReLU()),
    "instance norm": lambda: nn.Sequential(conv(), nn.InstanceNorm2d(8, affine=True), conv(8)),
    "norm without state": lambda: Fn(conv(), norm_of_batch, conv(8)),
    "frozen norm": lambda: nn.Sequential(conv(), nn.BatchNorm2d(8).eval(), conv(8)),
    "pools": lambda: nn.Sequential(
        conv(), nn.AdaptiveAvgPool2d(7), nn.AdaptiveMaxPool2d(5), nn.AvgPool2d(2), conv(8, 4, 1)
    ),
    "padded": lambda: Fn(conv(), lambda x: F.pad(x, (0, 1, -1, 2)), conv(8)),
    "like": lambda: Fn(conv(), lambda x: torch.full_like(x, 2) - x + torch.zeros_like(x), conv(8)),
    "bicubic": lambda: nn.Sequential(conv(), nn.Upsample(scale_factor=2, mode="bicubic"), conv(8)),
    "shuffle": lambda: nn.Sequential(conv(), nn.PixelShuffle(2), conv(2), nn.PixelUnshuffle(2)),
    "contiguous": lambda: Fn(conv(), lambda x: x.contiguous().view(x.shape[0], 2, -1).sum(2)),
    "strided": lambda: Fn(conv(), lambda x: x.as_strided((2, 5, 3), (7, 3, 1), 4) * 2),
    "softmax": lambda: Fn(conv(), lambda x: F.log_softmax(x, 1)),
    "parts": lambda: Fn(
        conv(), lambda x: torch.cat([part * 2 for part in x.chunk(2, 1)][::-1], 1), conv(8)
    ),
    "with the image": lambda: Fn(
        nn.Identity(), lambda x: x * 2 + F.conv2d(x, torch.ones(3, 3, 1, 1))
    ),
    "asks": lambda: Fn(conv(), lambda x: x * (2 if x.is_contiguous() else 3) + x.stride(1)),
}
LAST = torch.channels_last


NETWORKS = ("residual", "squeezed", "unet", "attentive")


@pytest.mark.parametrize(
    ("name", "memory_format", "dynamic"),
    [
        (name, memory_format, dynamic)
        for name in MODELS
        for memory_format in (torch.contiguous_format, LAST)
        for dynamic in (False, True)
        if name in NETWORKS or (memory_format == LAST) == dynamic
    ],
)
def test_as_in_eager(name, memory_format, dynamic):
    torch.manual_seed(0)
    module = MODELS[name]()
    if memory_format == LAST and name != "three dimensions":
        module = module.to(memory_format=LAST)
    for training in (True, False):
        if name != "frozen norm":
            module.train(training)
        module.zero_grad()
        twin = copy.deepcopy(module)
        fast = compiled(twin, dynamic=dynamic, fullgraph=True)
        image = torch.randn(2, 3, 16, 16).to(memory_format=memory_format)
        inputs = [image.detach().clone().requires_grad_() for _ in range(2)]
        results = [call(x) for call, x in zip((module, fast), inputs)]
        assert_same(results[1].detach(), results[0].detach(), **CLOSE)
        for result in results:
            (result * result).sum().backward()
        assert_same(inputs[1].grad, inputs[0].grad, rtol=1e-3, atol=1e-3)
        assert_same_state(module, twin, rtol=1e-3, atol=1e-3)
        with torch.no_grad():
            assert_same(compiled(twin, dynamic=dynamic)(image), module(image), **CLOSE)


def last_results(call, x, **options):
    """How many convolutions give channels-last results, and how many there are."""
    details = braze.explain(call, options=options)(x).details
    values = set(re.findall(r"^ *(%\d+)(?:, \S+)* = aten\.convolution\(.*\)$", details, re.M))
    types = dict(re.findall(r"^ *(%\d+): (\S+\[.*\]\S* ?.*) extern$", details, re.M))
    strides = [re.search(r"\{(.*)\}", types[value]) for value in values if value in types]
    assert strides, details
    return sum(bool(s) and s[1].split(", ")[1] == "1" for s in strides), len(strides)


def test_all_convolutions_of_a_network_where_they_are_asked_for():
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert last_results(Residual().eval(), x, channels_last=True) == (5, 5)
        assert last_results(Residual().eval(), x, channels_last=False) == (0, 5)


def test_none_on_a_cpu_otherwise():
    with torch.no_grad():
        assert last_results(Residual().eval(), torch.randn(2, 3, 32, 32)) == (0, 5)


def test_the_option_is_a_switch():
    with pytest.raises(TypeError, match=r"channels_last must be True or False, not 'yes'"):
        compiled(torch.relu, "yes")
    with pytest.raises(ValueError, match="'channels_last'"):
        braze.compile(torch.relu, options={"channel_last": True})


def test_results_share_memory_as_in_eager():
    layer = conv()

    def views(x):
        y = layer(x).relu()
        return y, y.permute(0, 2, 3, 1), y[:, 1:3], y.clone(), y.flatten(2)

    with torch.no_grad():
        x = torch.randn(2, 3, 9, 9)
        wanted, got = views(x), compiled(views, fullgraph=True)(x)
        for a, b in zip(wanted, got, strict=True):
            assert_same(b, a, **CLOSE)
            assert a.storage_offset() == b.storage_offset()
        for results in (wanted, got):
            results[0].mul_(2)
        for a, b in zip(wanted, got, strict=True):
            assert_same(b, a, **CLOSE)


@pytest.mark.parametrize("size", [1, 8])
def test_a_result_of_one_point_or_channel_is_no_view(size):
    layer = conv(after=1 if size > 1 else 8, size=9 - size)
    with torch.no_grad():
        wanted, got = layer(x := torch.randn(2, 3, 8, 8)), compiled(layer)(x)
    assert_same(got, wanted, **CLOSE)
    assert not got._is_view() and got._base is None
    assert got.untyped_storage().nbytes() == wanted.untyped_storage().nbytes()


def test_what_is_written_to_inputs_lies_as_they_do():
    layer = conv(3, 3, padding=1)

    def step(x, total):
        y = layer(x)
        total.add_(y.abs())
        x.copy_(y)
        return y.amax((2, 3))

    with torch.no_grad():
        states = []
        for call in (step, compiled(step, fullgraph=True)):
            torch.manual_seed(0)
            x, total = torch.randn(2, 3, 8, 8), torch.zeros(2, 3, 8, 8)
            states.append((call(x, total), x, total))
    for a, b in zip(*states, strict=True):
        assert_same(b, a, **CLOSE)


def test_draws_what_eager_draws():
    model = nn.Sequential(conv(), nn.Dropout(0.5), conv(8), nn.Dropout2d(0.5), conv(8))
    x, fast = torch.randn(2, 3, 12, 12), compiled(model, fullgraph=True)
    results = []
    for call in (model, fast):
        torch.manual_seed(1)
        results.append(call(x).detach())
    assert_same(results[1], results[0], **CLOSE)


def test_gradients_of_gradients():
    model = nn.Sequential(conv(), nn.Softplus(), nn.AvgPool2d(2), conv(8, 2))
    found = []
    for call in (model, compiled(model, fullgraph=True)):
        torch.manual_seed(0)
        x = torch.randn(2, 3, 12, 12, requires_grad=True)
        (first,) = torch.autograd.grad(call(x).pow(2).sum(), x, create_graph=True)
        second = torch.autograd.grad(first.pow(2).sum(), [x, *model.parameters()])
        found.append((first.detach(), *second))
    for a, b in zip(*found, strict=True):
        assert_same(b, a, rtol=1e-3, atol=1e-3)


def test_a_whole_step():
    def step(model, x):
        loss = model(x).pow(2).mean()
        loss.backward()
        return loss.detach()

    torch.manual_seed(0)
    model, x = Residual(), torch.randn(4, 3, 32, 32)
    twin = copy.deepcopy(model)
    fast = compiled(step)
    for _ in range(2):
        assert_same(fast(twin, x), step(model, x), **CLOSE)
        assert_same_state(model, twin, rtol=1e-3, atol=1e-3)


def test_tangents_in_other_layouts_and_no_tangent():
    layer = conv()

    def both(x):
        y = layer(x)
        return y.relu(), y.sigmoid()

    fast = compiled(both, fullgraph=True)
    for which in ((0,), (1,), (0, 1)):
        for memory_format in (torch.contiguous_format, LAST):
            gradients = []
            for call in (both, fast):
                torch.manual_seed(0)
                x = torch.randn(2, 3, 9, 9, requires_grad=True)
                results = call(x)
                tangents = [torch.randn_like(r).to(memory_format=memory_format) for r in results]
                gradients.append(
                    torch.autograd.grad(
                        [results[i] for i in which],
                        [x, layer.weight],
                        [tangents[i] for i in which],
                    )
                )
            for a, b in zip(*gradients, strict=True):
                assert_same(b, a, **CLOSE)


def test_sizes_that_vary():
    module = Residual().eval()
    fast = compiled(module, dynamic=True, fullgraph=True)
    for batch, side in ((2, 32), (3, 48), (1, 24), (5, 8)):
        x = torch.randn(batch, 3, side, side)
        with torch.no_grad():
            assert_same(fast(x), module(x), **CLOSE)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_other_dtypes(dtype):
    module = nn.Sequential(conv(), nn.ReLU(), conv(8), nn.MaxPool2d(2)).to(dtype)
    x = torch.randn(2, 3, 12, 12, dtype=dtype)
    tolerance = {"rtol": 2e-2, "atol": 2e-2} if dtype == torch.bfloat16 else CLOSE
    fast = compiled(module, fullgraph=True)
    assert_same(fast(x).detach(), module(x).detach(), **tolerance)
    twin = copy.deepcopy(module)
    module(x).float().sum().backward()
    compiled(twin)(x).float().sum().backward()
    if dtype == torch.bfloat16:  # a last bit decides which of two equal values is a maximum
        tolerance["atol"] = 0.1
    assert_same_state(module, twin, **tolerance)


def test_through_pytorchs_operators():
    module, x = Residual(), torch.randn(2, 3, 32, 32)
    twin = copy.deepcopy(module)
    fast = compiled(twin, backend="aten", fullgraph=True)
    for call in (module, fast):
        call(x).sum().backward()
    assert_same_state(module, twin, rtol=1e-3, atol=1e-3)
