"""The few largest elements of rows (`torch.topk`) as kernels: eager's values, and for each of them a
place of its own that holds it."""

import braze
import pytest
import torch
from support import reasons

DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int16, torch.uint8]
SHAPES = [((50, 8), -1), ((7, 64), 1), ((3, 5, 100), 1), ((1000,), 0), ((4, 1), 1), ((20, 333), -1)]


@pytest.fixture(autouse=True)
def _gradients():
    torch.manual_seed(0)
    with torch.enable_grad():
        yield


def numbers(kind, shape, dtype):
    x = torch.randn(shape, device="cuda") * 3
    if kind == "ties":
        x = x.round()
    if kind == "infinite":
        x = torch.where(torch.rand_like(x) < 0.9, float("-inf"), x)
        x = torch.where(torch.rand_like(x) < 0.02, float("inf"), x)
    if kind == "nan":
        x = torch.where(torch.rand_like(x) < 0.1, float("nan"), x)
    if not dtype.is_floating_point:
        return x.nan_to_num(0).clamp(-100, 100).abs().to(dtype)
    if kind == "least":
        least = torch.full_like(x, torch.finfo(dtype).min).to(dtype)
        return torch.where(torch.rand_like(x) < 0.5, least, least.new_tensor(float("-inf")))
    return x.to(dtype)


def same(a, b):
    return torch.equal(a.double().nan_to_num(123), b.double().nan_to_num(123))


@pytest.mark.parametrize("kind", ["plain", "ties", "infinite", "nan", "least"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape, dim", SHAPES)
def test_largest(shape, dim, dtype, kind):
    x = numbers(kind, shape, dtype)
    for count in (1, 2, 8):
        if count > shape[dim]:
            continue
        compiled = braze.compile(lambda x, k=count: torch.topk(x, k, dim=dim), dynamic=False)
        with torch.no_grad():
            values, places = compiled(x)
        known, known_places = torch.topk(x, count, dim=dim)
        assert (values.dtype, values.stride()) == (known.dtype, known.stride())
        assert (places.dtype, places.stride()) == (known_places.dtype, known_places.stride())
        assert same(values, known) and same(x.gather(dim, places), values)
        assert count == 1 or (places.sort(dim).values.diff(dim=dim) > 0).all()
        assert not reasons(compiled)


def test_as_a_router():
    """As a mixture of experts has it, with gradients."""

    def route(x):
        weights, chosen = torch.topk(x.softmax(-1), 2)
        return weights / weights.sum(-1, keepdim=True), chosen

    x = torch.randn(512, 8, device="cuda", requires_grad=True)
    compiled = braze.compile(route, fullgraph=True)
    for got, known in zip(compiled(x), route(x), strict=True):
        torch.testing.assert_close(got, known)
    gradients = [
        torch.autograd.grad((fn(x)[0] * torch.arange(2, device="cuda")).sum(), x)[0]
        for fn in (compiled, route)
    ]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("largest, count, length", [(False, 2, 64), (True, 9, 64), (True, 2, 5000)])
def test_what_pytorch_does(largest, count, length):
    x = torch.randn(6, length, device="cuda")
    compiled = braze.compile(lambda x: torch.topk(x, count, largest=largest), fullgraph=True)
    for got, known in zip(compiled(x), torch.topk(x, count, largest=largest), strict=True):
        assert torch.equal(got, known)
