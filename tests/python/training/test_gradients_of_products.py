"""Gradients for which PyTorch looks at the data first: products with zeros, the greatest of equals."""

import braze
import pytest
import torch

FUNCTIONS = {
    "cumprod": lambda x: x.cumprod(0),
    "cumprod of the last dim": lambda x: x.cumprod(-1),
    "cumprod in double": lambda x: x.cumprod(1, dtype=torch.double),
    "prod": lambda x: x.prod(),
    "prod of a dim": lambda x: x.prod(1),
    "prod of a dim that stays": lambda x: x.prod(-1, keepdim=True),
    "prod in double": lambda x: x.prod(0, dtype=torch.double),
    "max": lambda x: x.max(),
    "min": lambda x: x.min(),
    "median": lambda x: x.median(),
    "nanmedian": lambda x: x.nanmedian(),
    "of a number": lambda x: x[0, 0, 0].cumprod(0) * x[0, 0, 0].prod(0),
}


def none(x):
    return x


def few(x):
    x.view(-1)[::17] = 0
    return x


def many(x):
    x.view(-1)[::3] = 0
    return x


def rows(x):
    x[:, 1] = 0
    x[-1] = 1
    return x


def all_of_them(x):
    return x.zero_()


def a_nan(x):
    x.view(-1)[7] = torch.nan
    return x


def gradient(f, x):
    x = x.clone().requires_grad_()
    result = f(x)
    weights = torch.arange(1.0, result.numel() + 1).reshape(result.shape)
    return torch.autograd.grad((result * weights).sum(), x)[0]


def eager_gradient(name, x):
    if name == "cumprod in double":  # with zeros, PyTorch 2.11 mixes the dtypes in its formula
        return gradient(lambda x: x.double().cumprod(1), x)
    return gradient(FUNCTIONS[name], x)


@pytest.mark.parametrize("dynamic", [None, True], ids=["auto", "dynamic"])
@pytest.mark.parametrize("zeros", [none, few, many, rows, all_of_them, a_nan])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient(name, zeros, dynamic):
    f = FUNCTIONS[name]
    compiled = braze.compile(f, dynamic=dynamic, fullgraph=True)
    with torch.enable_grad():
        for size in (3, 3, 4, 7):
            x = zeros(torch.randn(size, 4, 5))
            found, expected = gradient(compiled, x), eager_gradient(name, x)
            torch.testing.assert_close(found, expected, equal_nan=True)
            assert found.stride() == expected.stride()


def test_rays_of_a_volume():
    """Weights of the samples along a ray are the light that comes so far times what they take."""

    def render(density, color, distance):
        alpha = 1 - (-density.relu() * distance).exp()
        through = torch.cat([torch.ones_like(alpha[:, :1]), 1 - alpha + 1e-10], -1).cumprod(-1)
        return ((alpha * through[:, :-1])[..., None] * color).sum(-2)

    compiled = braze.compile(render, fullgraph=True)
    with torch.enable_grad():
        leaves = [torch.randn(64, 32), torch.rand(64, 32, 3), torch.rand(64, 32)]
        leaves[2][5] = 1e4  # opaque: nothing comes through
        found, expected = [], []
        for f, gradients in ((compiled, found), (render, expected)):
            inputs = [leaf.clone().requires_grad_() for leaf in leaves]
            gradients += torch.autograd.grad(f(*inputs).square().mean(), inputs)
        torch.testing.assert_close(found, expected)


def test_double_backward():
    def f(x):
        return (x.cumprod(-1) * x.prod(0, keepdim=True)).sin().sum() + x.max()

    def second(f, x):
        x = x.clone().requires_grad_()
        first = torch.autograd.grad(f(x), x, create_graph=True)[0]
        return torch.autograd.grad(first.square().sum(), x)[0]

    with torch.enable_grad():
        x = torch.rand(3, 5) + 0.5
        torch.testing.assert_close(second(braze.compile(f), x), second(f, x))


def second_order(f, x):
    x = x.clone().requires_grad_()
    result = f(x)
    weights = torch.arange(1.0, result.numel() + 1).reshape(result.shape) / result.numel()
    loss = (result * weights).sum()
    (slope,) = torch.autograd.grad(loss * loss + loss, x, create_graph=True)
    slope.square().sum().backward()
    return slope.detach(), x.grad


@pytest.mark.parametrize("place", [none, few, many, rows], ids=lambda place: place.__name__)
@pytest.mark.parametrize("name", ["cumprod", "prod", "prod of a dim", "prod of a dim that stays"])
@pytest.mark.parametrize("whole", [False, True], ids=["call", "step"])
def test_second_order(name, place, whole):
    f = FUNCTIONS[name]
    torch.manual_seed(0)
    x = place(torch.rand(3, 2, 3) + 0.5)
    wanted = second_order(f, x)
    fast = braze.compile(second_order) if whole else None
    compiled_f = braze.compile(f)
    for _ in range(2):
        got = fast(f, x) if whole else second_order(compiled_f, x)
        for found, gradient in zip(got, wanted, strict=True):
            torch.testing.assert_close(found, gradient, rtol=1e-4, atol=1e-4)


def test_third_order():
    x = torch.tensor([2.0, 0.0, 3.0, 0.5], requires_grad=True)

    def third(f):
        (slope,) = torch.autograd.grad(f(x).square(), x, create_graph=True)
        (again,) = torch.autograd.grad(slope.square().sum(), x, create_graph=True)
        return torch.autograd.grad(again.sum(), x)[0]

    torch.testing.assert_close(third(braze.compile(torch.prod)), third(torch.prod))


LAYOUTS = {
    "transposed": lambda: torch.rand(3, 4).t(),
    "channels last": lambda: torch.rand(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "every other": lambda: torch.rand(6, 8)[::2, ::3],
    "expanded": lambda: torch.rand(3, 1).expand(3, 4),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["prod", "prod of a dim", "cumprod"])
@pytest.mark.parametrize("create_graph", [False, True])
def test_strides(layout, name, create_graph):
    torch.manual_seed(0)
    given, found = LAYOUTS[layout](), []
    for call in (FUNCTIONS[name], braze.compile(FUNCTIONS[name])):
        x = given.detach().requires_grad_()
        found += torch.autograd.grad(call(x).sum(), x, create_graph=create_graph)
    torch.testing.assert_close(found[1], found[0])
    assert found[1].stride() == found[0].stride()
