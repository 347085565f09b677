"""flex_attention of halves on a GPU: kernels of Braze's own, without the matrix of scores."""

import functools
import math
import warnings

import braze
import pytest
import torch
from support import same
from torch.nn.attention import flex_attention as flex

GPU = "cuda"
TOLERANCES = {torch.float16: 1e-2, torch.bfloat16: 6e-2}


@pytest.fixture(autouse=True)
def enable_grad():
    """PyTorch's compiler keeps few versions of a function, and its flex_attention warns."""
    torch._dynamo.reset()
    with torch.enable_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        warnings.filterwarnings("ignore", "return_lse is deprecated")
        yield
    torch._dynamo.reset()


def made(dtype, queries, keys, depth=64, value_depth=None, heads=4, key_heads=4, batch=2):
    torch.manual_seed(1)
    shapes = (
        (batch, heads, queries, depth),
        (batch, key_heads, keys, depth),
        (batch, key_heads, keys, value_depth or depth),
    )
    return [torch.randn(shape, device=GPU).to(dtype).requires_grad_() for shape in shapes]


@functools.cache
def tables():
    torch.manual_seed(2)
    return {
        "slopes": torch.rand(8, device=GPU),
        "bias": torch.randn(8, 2048, device=GPU),
        "documents": torch.arange(2048, device=GPU) // 150,
        "lengths": torch.tensor([100, 301], device=GPU),
        "half": torch.randn(8, device=GPU).half(),
    }


def scores():
    table = tables()
    return {
        "none": None,
        "alibi": lambda s, b, h, q, k: s + table["slopes"][h] * (k - q),
        "soft_cap": lambda s, b, h, q, k: 5 * torch.tanh(s / 5),
        "relative": lambda s, b, h, q, k: s + table["bias"][h, q - k + 1024],
        "halves": lambda s, b, h, q, k: s * table["half"][h],
        "causal": lambda s, b, h, q, k: torch.where(q >= k, s, -math.inf),
        "square": lambda s, b, h, q, k: s * s / 8 + b,
        "ignored": lambda s, b, h, q, k: (q - k).abs() * -0.1,
    }


def masks():
    table = tables()
    return {
        "none": None,
        "causal": lambda b, h, q, k: q >= k,
        "window": lambda b, h, q, k: (q - k).abs() <= 70,
        "documents": lambda b, h, q, k: table["documents"][q] == table["documents"][k],
        "padding": lambda b, h, q, k: k < table["lengths"][b],
        "late_rows": lambda b, h, q, k: (q > 140) & (k >= 0),
        "heads": lambda b, h, q, k: (h % 2 == 0) | (q >= k),
        "nothing": lambda b, h, q, k: (q < 0) & (k < 0),
    }


def attend(query, key, value, **options):
    return flex.flex_attention(query, key, value, **options)


def attend_with_sums(query, key, value, **options):
    return flex.flex_attention(query, key, value, return_lse=True, **options)


def in_double(query, key, value, score_mod, mask_mod, scale=None):
    """The math of it: the result and the logarithms of sums."""
    groups = query.shape[1] // key.shape[1]
    key, value = (tensor.repeat_interleave(groups, 1) for tensor in (key, value))
    changed = query @ key.mT * (scale or query.shape[-1] ** -0.5)
    places = []
    for dim, size in enumerate(changed.shape):
        place = [1, 1, 1, 1]
        place[dim] = size
        places.append(torch.arange(size, device=GPU).view(place))
    if score_mod is not None:
        changed = score_mod(changed, *places).expand(changed.shape).double()
    if mask_mod is not None:
        changed = torch.where(mask_mod(*places), changed, -math.inf)
    return torch._safe_softmax(changed, -1) @ value, changed.logsumexp(-1)


def run(function, tensors, **options):
    """Results and gradients."""
    for tensor in tensors:
        tensor.grad = None
    out, sums = function(*tensors, **options)
    torch.manual_seed(3)
    weights = torch.randn(out.shape, device=GPU)
    finite = torch.where(sums.isinf(), 0, sums)
    (
        (out * weights.to(out.dtype)).sum() + (finite * weights[..., 0].to(sums.dtype)).sum()
    ).backward()
    # What nothing depends on has none in eager.
    gradients = (torch.zeros_like(x) if x.grad is None else x.grad for x in tensors)
    return [out, sums, *gradients]


def uses_kernels(compiled, *args, **options):
    """Kernels of flex_attention that a call launches."""
    with torch.profiler.profile() as profile:
        compiled(*args, **options)
        torch.cuda.synchronize()
    return {event.name for event in profile.events() if event.name.startswith("flex_")}


def check(dtype, score, mask, queries, keys, lists=None, **sizes):
    score_mod, mask_mod = scores()[score], masks()[mask]
    tensors = made(dtype, queries, keys, **sizes)
    options = {"score_mod": score_mod, "enable_gqa": True}
    if mask_mod is not None:
        options["block_mask"] = flex.create_block_mask(
            mask_mod, 2, tensors[0].shape[1], queries, keys, device=GPU, **(lists or {})
        )
    compiled = braze.compile(attend_with_sums, fullgraph=True)
    given = run(compiled, tensors, **options)
    doubles = [tensor.detach().double().requires_grad_() for tensor in tensors]
    in_doubles = functools.partial(in_double, score_mod=score_mod, mask_mod=mask_mod)
    expected = run(in_doubles, doubles)
    assert given[0].dtype == dtype and given[1].dtype == torch.float32
    for mine, right, name in zip(given, expected, ("out", "sums", "query", "key", "value")):
        limit = TOLERANCES[dtype] * max(1, right.abs().nan_to_num(posinf=0).max().item())
        torch.testing.assert_close(
            mine.double(),
            right,
            rtol=TOLERANCES[dtype],
            atol=limit,
            msg=lambda text, name=name: f"{name}: {text}",
        )
    return compiled, tensors, options


@pytest.mark.parametrize("score", scores() if torch.cuda.is_available() else [])
@pytest.mark.parametrize("mask", ["none", "causal", "documents"])
def test_functions(score, mask):
    check(torch.float16, score, mask, 384, 384)


@pytest.mark.parametrize("mask", masks() if torch.cuda.is_available() else [])
@pytest.mark.parametrize("dtype", TOLERANCES)
def test_masks(mask, dtype):
    check(dtype, "none", mask, 384, 512)


@pytest.mark.parametrize("queries, keys", [(300, 200), (1, 384), (200, 1), (129, 257), (64, 64)])
@pytest.mark.parametrize("mask", ["none", "causal", "padding"])
def test_sizes_that_are_no_whole_tiles(queries, keys, mask):
    check(torch.bfloat16, "alibi", mask, queries, keys)
    check(torch.bfloat16, "none", mask, queries, keys, depth=128)


@pytest.mark.parametrize("depth, value_depth", [(8, 8), (64, 128), (128, 64), (96, 80), (24, 120)])
def test_depths(depth, value_depth):
    check(torch.float16, "alibi", "causal", 256, 256, depth=depth, value_depth=value_depth)


def test_scales():
    """Weights are not those of the largest products where the scale turns them round."""
    for scale in (-0.3, 0.0, 2.0):
        tensors = made(torch.float16, 256, 256)
        mask_mod = masks()["causal"]
        mask = flex.create_block_mask(mask_mod, None, None, 256, 256, device=GPU)
        compiled = braze.compile(attend_with_sums, fullgraph=True)
        given = run(compiled, tensors, block_mask=mask, scale=scale)
        doubles = [tensor.detach().double().requires_grad_() for tensor in tensors]

        def right(query, key, value, scale=scale):
            changed = query @ key.mT * scale
            places = torch.arange(256, device=GPU)
            changed = changed.masked_fill(places[:, None] < places, -math.inf)
            return changed.softmax(-1) @ value, changed.logsumexp(-1)

        for mine, expected in zip(given, run(right, doubles)):
            limit = 1e-2 * max(1, expected.abs().max().item())
            torch.testing.assert_close(mine.double(), expected, rtol=1e-2, atol=limit)


@pytest.mark.parametrize("heads, key_heads", [(8, 2), (6, 1), (3, 3)])
def test_shared_heads(heads, key_heads):
    check(torch.float16, "alibi", "heads", 256, 320, heads=heads, key_heads=key_heads)


@pytest.mark.parametrize("block", [64, 128, 256, (64, 128), (128, 64)])
def test_sizes_of_blocks(block):
    check(torch.float16, "none", "window", 512, 512, lists={"BLOCK_SIZE": block})


def test_it_is_the_kernels_that_run():
    compiled, tensors, options = check(torch.float16, "alibi", "causal", 256, 256)
    assert uses_kernels(compiled, *tensors, **options) == {"flex_forward"}
    names = uses_kernels(lambda: run(compiled, tensors, **options))
    assert names == {"flex_forward", "flex_query_gradient", "flex_key_gradient"}


def test_no_matrix_of_scores():
    tensors = made(torch.float16, 8192, 8192, heads=2, key_heads=2, batch=1)
    mask = flex.create_block_mask(masks()["causal"], None, None, 8192, 8192, device=GPU)
    compiled = braze.compile(attend_with_sums, fullgraph=True)
    run(compiled, tensors, block_mask=mask)
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run(compiled, tensors, block_mask=mask)
    assert torch.cuda.max_memory_allocated() - before < 64 << 20  # a matrix has 256 MiB


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_layouts(dtype):
    """Heads behind rows, parts of one matrix, rows that begin between packs."""
    torch.manual_seed(4)
    packed = torch.randn(2, 256, 3, 4, 64, device=GPU).to(dtype)
    shifted = torch.randn(2, 4, 256, 65, device=GPU).to(dtype)[..., 1:]
    parts = [part.transpose(1, 2) for part in packed.unbind(2)]
    mask = flex.create_block_mask(masks()["causal"], None, None, 256, 256, device=GPU)
    compiled = braze.compile(attend, fullgraph=True)
    for tensors in (parts, [shifted, parts[1], parts[2]], [parts[0], shifted, shifted]):
        leaves = [tensor.detach().requires_grad_() for tensor in tensors]
        mine = compiled(*leaves, block_mask=mask)
        right = attend(*leaves, block_mask=mask)
        assert mine.stride() == right.stride()
        same(mine, right, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype])
        weights = torch.randn_like(mine)
        given = torch.autograd.grad(mine, leaves, weights)
        expected = torch.autograd.grad(right, leaves, weights)
        for gradient, wanted in zip(given, expected):
            limit = TOLERANCES[dtype] * 4
            torch.testing.assert_close(gradient, wanted, rtol=limit, atol=limit)


def test_same_bits_each_time():
    compiled, tensors, options = check(torch.bfloat16, "soft_cap", "causal", 512, 512)
    first = [tensor.clone() for tensor in run(compiled, tensors, **options)]
    for _ in range(5):
        for mine, before in zip(run(compiled, tensors, **options), first):
            assert torch.equal(mine, before)


def test_rows_of_any_batch():
    """A row has the same bits, whatever stands beside it."""
    query, key, value = (tensor.detach() for tensor in made(torch.float16, 256, 256, batch=4))
    compiled = braze.compile(attend, fullgraph=True, dynamic=False)
    together = compiled(query, key, value)
    alone = compiled(query[1:2], key[1:2], value[1:2])
    assert torch.equal(together[1:2], alone)


def test_learned_tables_and_second_gradients_are_right():
    torch.manual_seed(5)
    bias = torch.randn(4, device=GPU, requires_grad=True)
    tensors = made(torch.float16, 128, 128)

    def attend_with_bias(query, key, value):
        return flex.flex_attention(query, key, value, lambda s, b, h, q, k: s * bias[h])

    out = braze.compile(attend_with_bias, fullgraph=True)(*tensors)
    right = attend_with_bias(*tensors)
    given = torch.autograd.grad(out.float().square().sum(), [*tensors, bias])
    expected = torch.autograd.grad(right.float().square().sum(), [*tensors, bias])
    torch.testing.assert_close(given, expected, rtol=2e-2, atol=2e-1)


def test_gradient_of_a_gradient():
    tensors = made(torch.float16, 128, 128)
    score_mod = scores()["soft_cap"]

    def penalty(function, tensors):
        out = function(*tensors)
        (grad,) = torch.autograd.grad(out.double().square().sum(), tensors[0], create_graph=True)
        return torch.autograd.grad(grad.double().square().sum(), tensors)

    compiled = braze.compile(functools.partial(attend, score_mod=score_mod), fullgraph=True)
    given = penalty(compiled, tensors)
    doubles = [tensor.detach().double().requires_grad_() for tensor in tensors]
    expected = penalty(lambda *t: in_double(*t, score_mod, None)[0], doubles)
    for mine, right in zip(given, expected):
        limit = 3e-2 * right.abs().max().item()
        torch.testing.assert_close(mine.double(), right, rtol=3e-2, atol=limit)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_layer_in_training(mode):
    torch.manual_seed(6)

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(256, 768)
            self.out = torch.nn.Linear(256, 256)

        def forward(self, x, mask):
            query, key, value = (
                part.unflatten(-1, (4, 64)).transpose(1, 2)
                for part in self.inner(x).chunk(3, dim=-1)
            )
            made = flex.flex_attention(query, key, value, block_mask=mask)
            return self.out(made.transpose(1, 2).flatten(2))

    eager = Layer().to(GPU, torch.bfloat16)
    layer = Layer().to(GPU, torch.bfloat16)
    layer.load_state_dict(eager.state_dict())
    compiled = braze.compile(layer, mode=mode)
    mask = flex.create_block_mask(masks()["causal"], None, None, 256, 256, device=GPU)
    for step in range(4):
        x = torch.randn(2, 256, 256, device=GPU, dtype=torch.bfloat16)
        losses = []
        for model in (eager, compiled):
            loss = model(x, mask).float().square().mean()
            loss.backward()
            losses.append(loss.item())
        assert losses[0] == pytest.approx(losses[1], rel=2e-2), step
    for mine, right in zip(layer.parameters(), eager.parameters()):
        limit = 5e-2 * right.grad.abs().max().item()
        torch.testing.assert_close(mine.grad, right.grad, rtol=5e-2, atol=limit)


def test_functions_that_are_no_kernels_run():
    """What has no code as elements is computed by PyTorch's operators."""
    query, key, value = (tensor.detach() for tensor in made(torch.float16, 128, 128))
    number = torch.tensor(0.5)  # on the CPU

    def attend_with_number(query, key, value):
        return flex.flex_attention(query, key, value, lambda s, b, h, q, k: s * number)

    mine = braze.compile(attend_with_number)(query, key, value)
    right = in_double(query.double(), key.double(), value.double(), lambda s, *_: s * 0.5, None)[0]
    torch.testing.assert_close(mine.double(), right, rtol=1e-2, atol=1e-2)
