"""Compiled functions of CUDA tensors against eager: values, dtype, strides, device, streams."""

import braze
import pytest
import torch
import torch.nn.functional as F
from half_numbers import DTYPES as HALVES
from half_numbers import OPERATORS as WITH_NUMBERS
from half_numbers import halves, over_all
from support import entries, reasons, same

DTYPES = [torch.float32, torch.float16, torch.bfloat16]
SHAPES = [
    (1, 1),
    (1, 100_000),
    (3, 7),
    (33, 1000),
    (1000, 33),
    (64, 768),
    (257, 4097),
    (100_000, 5),
]


def pointwise(x):
    return torch.relu(x + 1) * 2


def softmax(x):
    return torch.softmax(x, -1)


def layer_norm(x):
    return F.layer_norm(x, x.shape[-1:])


def affine_layer_norm(x, weight, bias):
    return F.layer_norm(x, x.shape[-1:], weight, bias)


FUNCTIONS = [pointwise, softmax, layer_norm]


def check(compiled, function, *args, bitwise=False):
    expected, got = function(*args), compiled(*args)
    assert got.dtype == expected.dtype and got.device == expected.device
    assert got.shape == expected.shape and got.stride() == expected.stride()
    tolerance = {"rtol": 0, "atol": 0} if bitwise else {}
    torch.testing.assert_close(got, expected, equal_nan=True, **tolerance)
    return got


def plan_of(function, *args, **settings):
    text = braze.explain(function, **settings)(*args)
    assert not text.breaks, text
    return text.entries[0]["plan"]


def test_runs_as_kernels():
    x = torch.randn(64, 768, device="cuda")
    for function in FUNCTIONS:
        plan = plan_of(function, x)
        assert plan.count("kernel ") == 1 and "blocks (" in plan and "aten." not in plan, plan
        assert "on cuda:0" in plan


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_shapes_and_dtypes(function, shape, dtype):
    x = torch.randn(shape, device="cuda").to(dtype)
    compiled = braze.compile(function)
    check(compiled, function, x, bitwise=function is pointwise)
    assert entries(compiled)[0]["kind"] == "plan" and not reasons(compiled)


@pytest.mark.parametrize("dtype", DTYPES)
def test_weights(dtype):
    x, weight, bias = (
        torch.randn(*size, device="cuda").to(dtype) for size in ((128, 768), (768,), (768,))
    )
    check(braze.compile(affine_layer_norm), affine_layer_norm, x, weight, bias)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_layouts(function):
    base = torch.randn(96, 130, device="cuda")
    layouts = [
        base.t(),
        base[:, 1:],
        base[::2, 3:],
        base.t()[5:, ::3],
        base.expand(3, 96, 130),
        base.flatten()[1:12001].view(100, 120),
        torch.randn(2, 8, 5, 7, device="cuda").to(memory_format=torch.channels_last),
    ]
    for x in layouts:
        check(braze.compile(function), function, x, bitwise=function is pointwise)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_special_values(function):
    x = torch.randn(32, 64, device="cuda")
    x[0, 0], x[1, 1], x[2, 2], x[3] = float("nan"), float("inf"), -float("inf"), 0.0
    check(braze.compile(function), function, x, bitwise=function is pointwise)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_empty(function):
    for shape in ((0, 5), (5, 0), (0,)):
        x = torch.randn(shape, device="cuda")
        check(braze.compile(function), function, x)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_sizes_that_vary(function):
    compiled = braze.compile(function, dynamic=True)
    for rows, columns in ((64, 768), (65, 769), (2, 3), (5000, 40), (3, 50_000)):
        x = torch.randn(rows, columns, device="cuda")
        check(compiled, function, x, bitwise=function is pointwise)
    assert len(entries(compiled)) == 1


def test_device_is_guarded():
    compiled = braze.compile(pointwise)
    on_gpu, on_cpu = torch.randn(8, 8, device="cuda"), torch.randn(8, 8)
    for x in (on_gpu, on_cpu, on_gpu, on_cpu):
        check(compiled, pointwise, x)
    assert len(entries(compiled)) == 2
    guards = [" ".join(entry["guards"]) for entry in entries(compiled)]
    assert sorted("cuda:0" in text for text in guards) == [False, True]


def test_side_stream():
    compiled = braze.compile(softmax)
    x = torch.randn(4096, 1024, device="cuda")
    compiled(x)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        y = x
        for _ in range(20):
            y = torch.sin(y) * 3  # work that is still under way when the kernel is launched
        got = compiled(y)
        expected = softmax(y)
    stream.synchronize()
    torch.testing.assert_close(got, expected)


def chain(x, weight):
    return torch.softmax(F.layer_norm(torch.mm(x, weight), (256,)) + 1, -1)


def test_intermediates_and_library_calls_on_streams():
    x, weight = torch.randn(512, 256, device="cuda"), torch.randn(256, 256, device="cuda")
    compiled = braze.compile(chain)
    check(compiled, chain, x, weight)
    streams = [torch.cuda.Stream() for _ in range(4)]
    results = []
    for stream in streams:
        stream.wait_stream(torch.cuda.current_stream())
    for round in range(20):
        with torch.cuda.stream(streams[round % 4]):
            y = x * (round + 1)
            results.append((compiled(y, weight), chain(y, weight)))
    torch.cuda.synchronize()
    for got, expected in results:
        torch.testing.assert_close(got, expected)


def test_cuda_graph():
    compiled = braze.compile(chain)
    x, weight = torch.randn(512, 256, device="cuda"), torch.randn(256, 256, device="cuda")
    compiled(x, weight)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = compiled(x, weight)
    for scale in (1, 2, 3):
        x.mul_(scale)
        graph.replay()
        torch.testing.assert_close(y, chain(x, weight))


def test_first_call_inside_a_cuda_graph():
    x = torch.randn(128, 128, device="cuda")
    expected = layer_norm(x)
    torch.cuda.synchronize()
    compiled = braze.compile(layer_norm)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = compiled(x)
    graph.replay()
    torch.testing.assert_close(y, expected)


def test_library_call_falls_on_the_gpu():
    def f(x, w):
        return torch.relu(x @ w) + 1

    x, w = torch.randn(64, 64, device="cuda"), torch.randn(64, 64, device="cuda")
    compiled = braze.compile(f)
    check(compiled, f, x, w)
    plan = plan_of(f, x, w)
    assert "aten.mm" in plan and "blocks (" in plan, plan


def test_writes_to_inputs():
    def f(x, y):
        x.add_(y).relu_()
        return x * 2

    a, y = torch.randn(33, 44, device="cuda"), torch.randn(33, 44, device="cuda")
    b = a.clone()
    torch.testing.assert_close(braze.compile(f)(a, y), f(b, y))
    torch.testing.assert_close(a, b, rtol=0, atol=0)


def test_new_tensors_and_numbers_from_the_cpu():
    def f(x, scale):
        ones = torch.ones(x.shape[-1], device=x.device)
        return x * scale + ones - torch.arange(x.shape[0], device="cuda").unsqueeze(1)

    x, scale = torch.randn(17, 19, device="cuda"), torch.tensor(0.5)
    check(braze.compile(f), f, x, scale)


def test_copies_between_devices():
    def f(x):
        return (x + 1).cpu() * 2

    x = torch.randn(17, 19, device="cuda")
    check(braze.compile(f), f, x)


def test_what_has_no_code_runs_through_aten():
    table, index = torch.randn(50, 8, device="cuda"), torch.randperm(40, device="cuda")[:7]

    def f(x, table, index):
        return torch.index_add(x, 0, index, x[:7]) + F.embedding(index, table).sum()

    x = torch.randn(40, 3, device="cuda")
    check(braze.compile(f), f, x, table, index)


REDUCTIONS = {
    "sum of all": lambda x: x.sum(),
    "rows": lambda x: x.sum(1),
    "columns": lambda x: x.sum(0),
    "mean and variance": lambda x: torch.stack((x.mean(0), x.var(0))),
    "argmax": lambda x: x.argmax(1),
    "largest": lambda x: x.amax((0, 1)),
    "any": lambda x: (x > 3).any(1),
    "log softmax": lambda x: F.log_softmax(x, 0),
    "norm": lambda x: x / x.norm(dim=-1, keepdim=True),
}


@pytest.mark.parametrize("shape", [(300, 500), (20_000, 12), (4, 70_001)])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name, shape):
    x = torch.randn(shape, device="cuda")
    function = REDUCTIONS[name]
    got, expected = braze.compile(function)(x), function(x)
    assert got.dtype == expected.dtype and got.stride() == expected.stride()
    exact = function(x.double())
    if name != "argmax":
        bound = 1e-5 * x.numel() ** 0.5
        torch.testing.assert_close(got.double(), exact.double(), rtol=1e-4, atol=bound)
    else:
        assert torch.equal(got, exact)


ELEMENTWISE = [
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "sin", "cos", "tan",
    "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf", "sigmoid", "floor", "ceil", "trunc",
    "round", "abs", "neg", "reciprocal", "square", "sign",
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise(name, dtype):
    function = getattr(torch, name)
    x = torch.linspace(-4, 4, 2049, device="cuda").to(dtype)
    got, expected = braze.compile(lambda x: function(x))(x), function(x)
    eps = {torch.float32: 2e-7, torch.float16: 1e-3, torch.bfloat16: 8e-3}[dtype]
    torch.testing.assert_close(got, expected, rtol=2 * eps, atol=eps / 8, equal_nan=True)


def test_gelu_is_eagers():
    for dtype in DTYPES:
        x = torch.randn(4097, device="cuda").to(dtype)
        for approximate in ("none", "tanh"):
            torch.testing.assert_close(
                braze.compile(lambda x: F.gelu(x, approximate=approximate))(x),
                F.gelu(x, approximate=approximate),
            )


def test_threads_call_at_once():
    import threading

    compiled = braze.compile(chain)
    x, weight = torch.randn(512, 256, device="cuda"), torch.randn(256, 256, device="cuda")
    expected = chain(x, weight)
    errors = []

    def work():
        try:
            with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
                for _ in range(50):
                    torch.testing.assert_close(compiled(x, weight), expected)
        except BaseException as error:
            errors.append(error)

    torch.cuda.synchronize()
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors[0]


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("operator", WITH_NUMBERS)
def test_halves_and_numbers_that_they_cannot_hold(operator, dtype):
    tensors = halves(dtype, "cuda")
    assert "aten." not in plan_of(over_all, operator, tensors)
    same(braze.compile(over_all)(operator, tensors), over_all(operator, tensors), rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_division_by_a_number_has_eagers_bits(dtype):
    def divided(x):
        return [x / n for n in (0.001, 1 / 3, 7, 2049, -1e-8)]

    x = torch.linspace(-1000, 1000, 100_001, dtype=dtype, device="cuda")
    same(braze.compile(divided)(x), divided(x), rtol=0, atol=0)


def test_numbers_of_the_call_are_divided_as_in_python():
    def scaled(x, rate):
        return x * (rate / 3) + x * (rate / 0.7)

    x = torch.linspace(-3, 3, 1001, dtype=torch.float64, device="cuda")
    fast = braze.compile(scaled)
    for i in range(40):
        rate = 0.1 + i * 0.0137
        same(fast(x, rate), scaled(x, rate), rtol=0, atol=0)
    assert len(entries(fast)) <= 2
