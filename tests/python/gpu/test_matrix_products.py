"""Products of matrices on GPUs: orders, sizes, settings, streams and threads."""

import itertools

import braze
import pytest
import torch
from torch import nn

DTYPES = (torch.float32, torch.float16, torch.bfloat16)


@pytest.fixture(autouse=True)
def with_gradients():
    with torch.enable_grad():
        yield


@pytest.fixture
def settings():
    """What the tests change of PyTorch's settings is put back."""
    backend = torch.backends.cuda.matmul
    names = (
        "allow_tf32",
        "allow_fp16_reduced_precision_reduction",
        "allow_bf16_reduced_precision_reduction",
        "allow_fp16_accumulation",
    )
    before = {name: getattr(backend, name) for name in names}
    yield backend
    for name, value in before.items():
        setattr(backend, name, value)


def error_of(result, reference):
    return ((result.double() - reference).norm() / reference.norm()).item()


def assert_as_good(result, eager, reference):
    assert result.dtype == eager.dtype and result.shape == eager.shape
    assert result.stride() == eager.stride()
    assert error_of(result, reference) <= 1.5 * error_of(eager, reference) + 1e-7


def transposed(matrix):
    return matrix.t().contiguous().t()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rows, inner, columns", [(64, 128, 256), (1, 64, 32), (33, 65, 127)])
def test_every_order_of_operands(dtype, rows, inner, columns):
    a = torch.randn(rows, inner, device="cuda", dtype=dtype)
    b = torch.randn(inner, columns, device="cuda", dtype=dtype)
    bias = torch.randn(columns, device="cuda", dtype=dtype)
    for of_a, of_b, added in itertools.product((0, 1), (0, 1), (None, bias)):
        x, y = transposed(a) if of_a else a, transposed(b) if of_b else b

        def function(x, y, added):
            return x @ y if added is None else torch.addmm(added, x, y)

        reference = x.double() @ y.double() + (0 if added is None else added.double())
        result = braze.compile(function, fullgraph=True, dynamic=False)(x, y, added)
        assert_as_good(result, function(x, y, added), reference)


@pytest.mark.parametrize("dtype", DTYPES)
def test_batches(dtype):
    a = torch.randn(6, 40, 72, device="cuda", dtype=dtype)
    b = torch.randn(6, 24, 72, device="cuda", dtype=dtype).transpose(1, 2)
    result = braze.compile(torch.bmm, fullgraph=True)(a, b)
    assert_as_good(result, torch.bmm(a, b), a.double() @ b.double())


def test_rows_that_lie_apart_and_begin_between_packs():
    whole = torch.randn(64, 200, device="cuda", dtype=torch.float16)
    a, b = whole[:, 3:131], torch.randn(128, 96, device="cuda", dtype=torch.float16)
    result = braze.compile(torch.mm, fullgraph=True)(a, b)
    assert_as_good(result, a @ b, a.double() @ b.double())


def test_broadcast_operands_and_empty_ones_are_pytorchs():
    compiled = braze.compile(torch.mm, fullgraph=True, dynamic=False)
    row = torch.randn(1, 32, device="cuda").expand(16, 32)
    b = torch.randn(32, 8, device="cuda")
    torch.testing.assert_close(compiled(row, b), row @ b)
    empty = torch.zeros(0, 32, device="cuda")
    assert compiled(empty, b).shape == (0, 8)
    nothing = compiled(torch.zeros(4, 0, device="cuda"), torch.zeros(0, 8, device="cuda"))
    assert torch.equal(nothing, torch.zeros(4, 8, device="cuda"))


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_large_vocabularies(dtype):
    """Rows of an odd number of halves, forward and backward."""
    torch.manual_seed(0)
    head = nn.Linear(256, 50257, bias=False, device="cuda", dtype=dtype)
    hidden = torch.randn(1024, 256, device="cuda", dtype=dtype, requires_grad=True)
    given = torch.randn(1024, 50257, device="cuda", dtype=dtype)

    def step(function):
        logits = function(hidden)
        return logits, *torch.autograd.grad(logits, [hidden, head.weight], given)

    compiled, eager = step(braze.compile(head, fullgraph=True)), step(head)
    weight, x, dy = head.weight.double(), hidden.double(), given.double()
    for result, plain, reference in zip(
        compiled, eager, (x @ weight.t(), dy @ weight, dy.t() @ x), strict=True
    ):
        assert_as_good(result, plain, reference)


def test_settings_are_those_of_the_call(settings):
    a = torch.randn(512, 512, device="cuda")
    compiled = braze.compile(torch.mm, fullgraph=True)
    reference = a.double() @ a.double()
    errors = []
    for allowed in (False, True, False):
        settings.allow_tf32 = allowed
        errors.append(error_of(compiled(a, a), reference))
    assert errors[0] == errors[2] < errors[1] / 20


@pytest.mark.parametrize("reduced", (False, True))
def test_reduced_precision(settings, reduced):
    settings.allow_fp16_reduced_precision_reduction = reduced
    a = torch.randn(32, 65536, device="cuda", dtype=torch.float16)
    result = braze.compile(torch.mm, fullgraph=True)(a, a.t())
    assert_as_good(result, a @ a.t(), a.double() @ a.double().t())


def test_sums_in_halves_are_pytorchs(settings):
    settings.allow_fp16_accumulation = True
    a = torch.randn(64, 512, device="cuda", dtype=torch.float16)
    assert torch.equal(braze.compile(torch.mm, fullgraph=True)(a, a.t()), a @ a.t())


def test_the_same_bits_each_time_and_from_every_thread():
    import concurrent.futures

    a = torch.randn(300, 4096, device="cuda", dtype=torch.float16)
    bias = torch.randn(300, device="cuda", dtype=torch.float16)
    compiled = braze.compile(lambda x, y: torch.addmm(y, x, x.t()), fullgraph=True)
    first = compiled(a, bias)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        later = list(pool.map(lambda i: compiled(a, bias + i), range(32)))
    torch.cuda.synchronize()
    for i, result in enumerate(later):
        torch.testing.assert_close(result, first + i, atol=0.5, rtol=0.02)
    assert torch.equal(compiled(a, bias), first)


def test_another_stream_and_a_graph():
    a = torch.randn(128, 128, device="cuda", dtype=torch.float16)
    compiled = braze.compile(torch.mm, fullgraph=True)
    expected = compiled(a, a)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        result = compiled(a, a)
    stream.synchronize()
    assert torch.equal(result, expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = compiled(a, a)
    recorded.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(recorded, expected)
