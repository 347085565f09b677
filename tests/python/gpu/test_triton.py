"""Kernels in Triton (`options={"gpu_codegen": "triton"}`), against eager on the same device."""

import importlib.util
import subprocess
import sys

import braze
import pytest
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="needs the package triton; installing it (pip install triton) lifts it",
)
HALVES = (torch.float16, torch.bfloat16)
CLOSE = {
    torch.float32: {"rtol": 1e-4, "atol": 1e-4},
    torch.float64: {"rtol": 1e-10, "atol": 1e-10},
    torch.float16: {"rtol": 5e-3, "atol": 5e-3},
    torch.bfloat16: {"rtol": 3e-2, "atol": 3e-2},
}


@pytest.fixture(autouse=True)
def _gradients():
    with torch.enable_grad():
        yield


def triton(fn, **settings):
    return braze.compile(fn, options={"gpu_codegen": "triton"}, **settings)


def check(fn, *calls, close=None, **settings):
    """Each call, with gradients where an argument has one; some of the kernels are Triton's."""
    compiled = triton(fn, fullgraph=True, **settings)
    for args in calls:
        results = []
        for run in (fn, compiled):
            own = [a.detach().clone().requires_grad_(a.requires_grad) for a in args]
            result = run(*own)
            outputs = result if isinstance(result, tuple) else (result,)
            differentiable = [o for o in outputs if o.requires_grad]
            if differentiable:
                torch.autograd.backward(
                    differentiable, [torch.ones_like(o) * 0.5 for o in differentiable]
                )
            results.append([*outputs, *(a.grad for a in own if a.requires_grad)])
        for expected, got in zip(*results, strict=True):
            assert got.dtype == expected.dtype and got.stride() == expected.stride()
            limits = close or CLOSE.get(expected.dtype, {"rtol": 0, "atol": 0})
            torch.testing.assert_close(got, expected, equal_nan=True, **limits)
    assert "@triton.jit" in code_of(fn, *calls[0])
    return compiled


def code_of(fn, *args):
    explained = braze.explain(fn, options={"gpu_codegen": "triton"})(*args)
    return "".join(entry["code"] for entry in explained.entries)


def random(*shape, dtype=torch.float32, grad=False):
    torch.manual_seed(sum(shape))
    return torch.randn(*shape, device="cuda").to(dtype).requires_grad_(grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALVES])
@pytest.mark.parametrize("shape", [(7,), (1000, 1001), (64, 4096)])
def test_points(dtype, shape):
    x, y = random(*shape, dtype=dtype), random(*shape, dtype=dtype) * 2
    check(lambda x, y: F.gelu(x) * y + torch.tanh(y), (x, y))


def test_points_of_integers():
    def fn(x, y):
        return x // y, x % y, torch.fmod(x, y), x << (y & 7), x >> (y & 7), (x > y) & (x != 3)

    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8):
        low = 0 if dtype == torch.uint8 else -100
        x = torch.randint(low, 100, (3001,), device="cuda").to(dtype)
        y = torch.randint(1, 9, (3001,), device="cuda").to(dtype)
        check(fn, (x, y))


def test_special_numbers():
    values = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-40, -1e-40, 1e38, 2.5, -2.5]
    x = torch.tensor(values * 400, device="cuda")
    y = torch.tensor((values[3:] + values[:3]) * 400, device="cuda")

    def fn(x, y):
        return (
            torch.maximum(x, y),
            torch.minimum(x, y),
            x / y,
            torch.sqrt(x),
            torch.round(x),
            torch.log(x),
            torch.exp(x),
            x.isnan() | y.isinf(),
            x * y + 1,
        )

    check(fn, (x, y), close={"rtol": 1e-6, "atol": 0})


def test_broadcasts_strides_and_gathers():
    def fn(x, bias, table, index):
        return (x.transpose(0, 1) + bias, table[index], F.embedding(index, table) * 2, x.flip(1))

    index = torch.randint(0, 500, (37, 11), device="cuda")
    check(fn, (random(300, 500), random(300), random(500, 64), index))


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("columns", [33, 1000, 4096, 20000])
def test_softmax(dtype, columns):
    x = random(2048, columns, dtype=dtype, grad=True)
    check(lambda x: torch.softmax(x * 2, -1), (x,))
    check(lambda x: torch.log_softmax(x, -1), (x,))


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
@pytest.mark.parametrize("columns", [64, 768, 4096])
def test_norms(dtype, columns):
    x = random(4096, columns, dtype=dtype, grad=True)
    weight, bias = (random(columns, dtype=dtype, grad=True) for _ in range(2))
    sums = {"rtol": 5e-2, "atol": 0.3 if dtype in HALVES else 2e-2}
    check(lambda x, w, b: F.layer_norm(x, (columns,), w, b), (x, weight, bias), close=sums)
    check(lambda x, w: F.rms_norm(x, (columns,), w), (x, weight), close=sums)


def test_norm_of_equal_numbers():
    x = torch.full((2048, 768), 1000.1, device="cuda")
    check(lambda x: F.layer_norm(x, (768,)), (x,), close={"rtol": 0, "atol": 1e-3})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_cross_entropy(dtype):
    logits = random(2048, 1000, dtype=dtype, grad=True)
    labels = torch.randint(0, 1000, (2048,), device="cuda")
    check(lambda x, y: F.cross_entropy(x * 1.0, y), (logits, labels))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_reductions(dtype):
    def fn(x):
        return (
            x.float().sum(0),
            x.amax(0),
            x.amin(1),
            x.argmax(1),
            x.argmin(0),
            x.float().var(1),
            (x > 0).any(1),
            (x < 3).all(0),
        )

    check(fn, (random(1000, 768, dtype=dtype),), (random(1000, 768, dtype=dtype) * 3,))
    sums = {"rtol": 1e-4, "atol": 1e-1}
    check(lambda x: (x.float().sum(), x.float().square().mean()), (random(999, 1001),), close=sums)


def test_a_nan_wins():
    x = random(512, 300)
    x[3, 7] = float("nan")
    x[5] = float("-inf")
    check(lambda x: (x.amax(1), x.argmax(1), torch.softmax(x, 1)), (x,))


def test_sizes_that_vary():
    calls = [(random(rows, columns), random(columns)) for rows, columns in [(64, 128), (65, 131)]]
    calls += [(random(1000, 768), random(768)), (random(333, 5000), random(5000))]
    check(lambda x, b: torch.softmax(x + b, -1) * 2, *calls, dynamic=True)
    check(lambda x, b: (x * b).sum(0), *calls, dynamic=True, close={"rtol": 1e-3, "atol": 1e-3})


@pytest.mark.parametrize("by", [1, 3])
def test_addresses_between_packs(by):
    x = random(1 << 20 | 8, dtype=torch.float16)
    plain = x[: 1 << 20].clone()
    check(lambda x: F.silu(x) * 2, (plain,), (x[by : by + (1 << 20)],))


def test_writes_to_inputs():
    def fn(x, y):
        x.mul_(2).add_(y)
        return x.sum()

    runs = []
    for run in (fn, triton(fn)):
        x, y = random(1 << 16), random(1 << 16) * 2
        runs.append((run(x, y), x))
    for expected, got in zip(*runs, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-2)


def test_results_are_the_same_each_time():
    x = random(4096, 1000, grad=False)
    compiled = triton(lambda x: (x.sum(0), torch.softmax(x, 1), x.sum()))
    first = compiled(x)
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(first, compiled(x), strict=True))


def test_an_index_out_of_range_ends_the_program():
    program = (
        "import braze, torch\n"
        "f = braze.compile(lambda x, i: x[i] * 2, options={'gpu_codegen': 'triton'})\n"
        "x = torch.randn(100, 64, device='cuda')\n"
        "f(x, torch.tensor([1, 100], device='cuda'))\n"
        "torch.cuda.synchronize()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode != 0 and "device-side assert" in done.stderr


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_training_of_a_transformer(mode):
    class Block(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm, self.other = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.attention = torch.nn.MultiheadAttention(width, 4, batch_first=True)
            self.up, self.down = torch.nn.Linear(width, 512), torch.nn.Linear(512, width)

        def forward(self, x):
            y = self.norm(x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            return x + self.down(F.gelu(self.up(self.other(x))))

    def losses(wrap):
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Embedding(100, 128), Block(128), Block(128), torch.nn.Linear(128, 100)
        ).cuda()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        forward = wrap(lambda x, y: F.cross_entropy(model(x).flatten(0, 1), y.flatten()))
        tokens = torch.randint(0, 100, (8, 65), device="cuda")
        found = []
        for _ in range(8):
            loss = forward(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.detach())
        return torch.stack(found)

    expected = losses(lambda fn: fn)
    torch.testing.assert_close(
        losses(lambda fn: triton(fn, mode=mode)), expected, rtol=2e-3, atol=2e-3
    )


def test_what_is_not_triton_is_cuda():
    compiled = triton(lambda x: torch.cumsum(x, 1) * 2)
    x = random(64, 100)
    torch.testing.assert_close(compiled(x), torch.cumsum(x, 1) * 2, rtol=1e-4, atol=1e-4)
    assert "// Not Triton: " in code_of(lambda x: torch.cumsum(x, 1) * 2, x)
