"""flex_attention in compiled code, without a break, is PyTorch's: values, gradients, errors."""

import functools
import os
import pathlib
import subprocess
import sys
import warnings

import braze
import pytest
import torch
from flex_programs import (
    BATCH,
    HEADS,
    KEYS,
    QUERIES,
    TOLERANCES,
    WIDTH,
    attend,
    attend_with_sums,
    block_mask,
    has_same_gradients,
    inputs,
    mask_mods,
    score_mods,
    tables,
)
from support import same
from torch.nn.attention import flex_attention as flex


@pytest.fixture(autouse=True)
def eager_anew():
    """PyTorch's flex_attention goes through its compiler, which keeps few versions of a function,
    and warns."""
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        warnings.filterwarnings("ignore", "return_lse is deprecated")
        yield
    torch._dynamo.reset()


@pytest.fixture
def gradients_on_cpu(monkeypatch):
    """PyTorch has the gradients of its math form on each device, but refuses them on the CPU."""
    monkeypatch.setattr(flex, "_validate_device", lambda query, key, value: None)


def is_same(function, *args, dtype=torch.float32, compiled=None, **options):
    compiled = compiled or braze.compile(function, fullgraph=True)
    expected = function(*args, **options)
    tolerance = TOLERANCES[dtype]
    same(compiled(*args, **options), expected, rtol=tolerance, atol=tolerance)
    return compiled


ROW, SIGNS = torch.randn(KEYS), torch.randn(HEADS, 3)
SCORE_MODS, MASK_MODS = score_mods(tables()), mask_mods(tables())


@pytest.mark.parametrize("name", SCORE_MODS)
def test_score_mods(name):
    is_same(attend_with_sums, *inputs(), dtype=torch.float16, score_mod=SCORE_MODS[name])


@pytest.mark.parametrize("name", MASK_MODS)
def test_masks(name):
    is_same(attend_with_sums, *inputs(), block_mask=block_mask(MASK_MODS[name]))


@pytest.mark.parametrize("mask", ["causal", "padding", "late_rows"])
@pytest.mark.parametrize("score", ["alibi", "relative", "soft_cap"])
def test_both(score, mask):
    options = {"score_mod": SCORE_MODS[score], "block_mask": block_mask(MASK_MODS[mask])}
    is_same(attend_with_sums, *inputs(), **options)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_dtypes(dtype):
    options = {"score_mod": SCORE_MODS["alibi"], "block_mask": block_mask(MASK_MODS["window"])}
    is_same(attend_with_sums, *inputs(dtype), dtype=dtype, **options)
    is_same(attend, *inputs(dtype), dtype=dtype, scale=0.3)


def test_fully_masked_rows_are_zero():
    options = {"block_mask": block_mask(MASK_MODS["late_rows"])}
    out, sums = braze.compile(attend_with_sums, fullgraph=True)(*inputs(), **options)
    assert not out[:, :, :3].any() and out[:, :, 3:].all()
    assert torch.equal(sums.isneginf(), (torch.arange(QUERIES) < 3).expand(BATCH, HEADS, QUERIES))


@pytest.mark.parametrize("key_heads", [1, 2])
def test_grouped_heads(key_heads):
    options = {"enable_gqa": True, "score_mod": SCORE_MODS["alibi"]}
    is_same(attend_with_sums, *inputs(key_heads=key_heads), **options)


def test_one_key_for_a_batch_of_queries():
    is_same(attend, *inputs(key_batch=1), block_mask=block_mask(MASK_MODS["causal"]))


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (0, 1, 3, 2), (3, 2, 1, 0)])
@pytest.mark.parametrize("width", [WIDTH, 8])
def test_results_lie_as_the_query_does(order, width):
    query, key, value = inputs(width=width)
    back = [order.index(dim) for dim in range(4)]
    query = query.permute(order).contiguous().permute(back)
    compiled = is_same(attend, query, key, value)
    assert compiled(query, key, value).stride() == attend(query, key, value).stride()


def test_results_besides():
    query, key, value = inputs()
    is_same(attend, query, key, value, return_lse=True)
    for request in (flex.AuxRequest(), flex.AuxRequest(lse=True)):
        is_same(attend, query, key, value, return_aux=request)


def test_highest_scores(monkeypatch):
    """Which PyTorch gives on GPUs only."""
    real = flex._apply_kernel_options
    monkeypatch.setattr(flex, "_apply_kernel_options", lambda *args: real(*args[:5]))
    options = {"score_mod": SCORE_MODS["alibi"], "block_mask": block_mask(MASK_MODS["late_rows"])}
    request = flex.AuxRequest(lse=True, max_scores=True)
    is_same(attend, *inputs(), return_aux=request, **options)


@pytest.mark.parametrize("name", ["alibi", "soft_cap", "causal", "both", "filled", "some_rows"])
def test_gradients_through_scores(gradients_on_cpu, name):
    tensors = [tensor.requires_grad_() for tensor in inputs()]
    has_same_gradients(tensors, 1e-4, score_mod=SCORE_MODS[name])


@pytest.mark.parametrize("name", MASK_MODS)
def test_gradients_through_masks(gradients_on_cpu, name):
    tensors = [tensor.requires_grad_() for tensor in inputs()]
    has_same_gradients(tensors, 1e-4, block_mask=block_mask(MASK_MODS[name]))


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_gradients_of_dtypes(gradients_on_cpu, dtype):
    tensors = [tensor.requires_grad_() for tensor in inputs(dtype, key_heads=2)]
    mask = block_mask(MASK_MODS["causal"])
    has_same_gradients(tensors, 3 * TOLERANCES[dtype] + 1e-5, block_mask=mask, enable_gqa=True)


@pytest.mark.parametrize("scores_too", [False, True])
def test_gradients_of_what_is_closed_over(gradients_on_cpu, scores_too):
    table = tables()
    for name in ("bias", "scores", "slopes"):
        table[name].requires_grad_()
    query, key, value = inputs()
    for tensor in (query, key, value):
        tensor.requires_grad_(scores_too)
    for mod, name in {"relative": "bias", "own_bias": "scores", "alibi": "slopes"}.items():
        learned = [query, key, value, table[name]]
        has_same_gradients(learned, 1e-4, score_mod=score_mods(table)[mod])


def test_closed_over_tables_learn_without_a_patch():
    table = tables()
    table["bias"].requires_grad_()
    has_same_gradients([*inputs(), table["bias"]], 1e-4, score_mod=score_mods(table)["relative"])


class Attention(torch.nn.Module):
    """With a learned bias, by head and distance."""

    def __init__(self):
        super().__init__()
        self.projection = torch.nn.Linear(HEADS * WIDTH, 3 * HEADS * WIDTH)
        self.bias = torch.nn.Parameter(torch.randn(HEADS, 2 * QUERIES))

    def forward(self, x):
        parts = self.projection(x).unflatten(-1, (3, HEADS, WIDTH)).unbind(-3)
        query, key, value = (part.transpose(1, 2) for part in parts)

        def score_mod(score, b, h, q_idx, kv_idx):
            return score + self.bias[h, q_idx - kv_idx + QUERIES]

        mask = flex.create_block_mask(
            lambda b, h, q_idx, kv_idx: q_idx >= kv_idx, None, None, x.shape[1], x.shape[1], "cpu"
        )
        out = flex.flex_attention(query, key, value, score_mod=score_mod, block_mask=mask)
        return out.transpose(1, 2).flatten(-2)


def test_a_module(gradients_on_cpu):
    model, x = Attention(), torch.randn(BATCH, QUERIES, HEADS * WIDTH)
    compiled = braze.compile(model, fullgraph=True)

    def step(function):
        model.zero_grad()
        out = function(x)
        out.square().sum().backward()
        return [out, *(parameter.grad for parameter in model.parameters())]

    expected = step(model)
    same(step(compiled), expected, rtol=1e-4, atol=1e-4)


def test_another_function_is_another_program():
    compiled = braze.compile(attend, fullgraph=True)
    for name in ("alibi", "soft_cap", "alibi"):
        is_same(attend, *inputs(), compiled=compiled, score_mod=SCORE_MODS[name])
    for name in ("causal", "window", "causal"):
        is_same(attend, *inputs(), compiled=compiled, block_mask=block_mask(MASK_MODS[name]))


def test_tables_may_change_between_calls():
    table = tables()
    options = {
        "score_mod": score_mods(table)["alibi"],
        "block_mask": block_mask(mask_mods(table)["documents"]),
    }
    compiled = is_same(attend, *inputs(), **options)
    before = compiled(*inputs(), **options)
    table["slopes"].mul_(-0.5)
    table["documents"].fill_(0)
    is_same(attend, *inputs(), compiled=compiled, **options)
    assert not torch.equal(before, compiled(*inputs(), **options))


def test_autocast():
    options = {"score_mod": SCORE_MODS["alibi"], "block_mask": block_mask(MASK_MODS["causal"])}
    compiled = braze.compile(attend_with_sums, fullgraph=True)
    with torch.autocast("cpu", torch.bfloat16):
        is_same(attend_with_sums, *inputs(), dtype=torch.bfloat16, compiled=compiled, **options)
    is_same(attend_with_sums, *inputs(), compiled=compiled, **options)


def test_lengths_that_vary():
    def attend_causally(query, key, value):
        def score_mod(score, b, h, q_idx, kv_idx):
            return torch.where(q_idx >= kv_idx, score + 0.1 * (kv_idx - q_idx), float("-inf"))

        return flex.flex_attention(query, key, value, score_mod=score_mod)

    compiled = braze.compile(attend_causally, fullgraph=True, dynamic=True)
    for length in (17, 32, 45):
        is_same(attend_causally, *inputs(queries=length, keys=length), compiled=compiled)
    assert len(compiled._entries()) == 1


def test_lengths_that_vary_with_masks_made_for_them():
    def attend_in_windows(query, key, value):
        length = query.shape[2]
        mask = flex.create_block_mask(MASK_MODS["window"], None, None, length, length, "cpu")
        return flex.flex_attention(query, key, value, block_mask=mask)

    compiled = braze.compile(attend_in_windows, fullgraph=True, dynamic=True)
    for length in (140, 200, 257):
        is_same(attend_in_windows, *inputs(queries=length, keys=length), compiled=compiled)
    assert len(compiled._entries()) == 1


class OfModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(HEADS))

    def forward(self, score, b, h, q_idx, kv_idx):
        return score * self.weight[h]


def scaled(score, b, h, q_idx, kv_idx, *, by):
    return score * by


def slopes_by_formula(score, b, h, q_idx, kv_idx):
    return score + 2.0 ** (-8.0 * (h + 1) / HEADS) * (kv_idx - q_idx)


def in_chunks(score, b, h, q_idx, kv_idx):
    return torch.where(q_idx // 4 == kv_idx // 4, score, torch.finfo(score.dtype).min)


def of_many_operators(score, b, h, q_idx, kv_idx):
    score = torch.nn.functional.silu(score) + torch.special.expit(score).log()
    return torch.maximum(score, -score).clamp(min=0.1) + torch.minimum(q_idx, kv_idx).float().sqrt()


def of_views_of_a_table(score, b, h, q_idx, kv_idx):
    return score + SIGNS.T[1:, 1:][kv_idx % 2, h % 3] + SIGNS[h, -1] + SIGNS[0, 0] * q_idx


@pytest.mark.parametrize(
    "score_mod",
    [
        OfModule(),
        functools.partial(scaled, by=2.0),
        slopes_by_formula,
        in_chunks,
        of_many_operators,
        of_views_of_a_table,
    ],
)
def test_other_ways_to_write_them(score_mod):
    with torch.no_grad():
        is_same(attend_with_sums, *inputs(), score_mod=score_mod)


def test_numbers_that_vary():
    def attend_scaled(query, key, value, number):
        def score_mod(score, b, h, q_idx, kv_idx):
            return score * number - number * (q_idx - kv_idx).abs()

        return flex.flex_attention(query, key, value, score_mod=score_mod, scale=number)

    compiled = braze.compile(attend_scaled, fullgraph=True)
    for number in (0.1, 0.2, 0.3, 0.4):
        torch._dynamo.reset()
        is_same(attend_scaled, *inputs(), number, compiled=compiled)
    assert len(compiled._entries()) == 2


def test_the_matrix_of_scores_is_there_once_or_twice():
    """Where eager has it several times."""
    query, key, value = (torch.randn(1, 4, 512, 16) for _ in range(3))
    compiled = braze.compile(attend, fullgraph=True)
    options = {"score_mod": slopes_by_formula}
    is_same(attend, query, key, value, compiled=compiled, **options)
    _, peak, _ = braze._C.measure_memory(lambda: compiled(query, key, value, **options))
    assert peak < 2.2 * 4 * 512 * 512 * 4


def test_a_mask_made_in_the_function():
    def attend_in_documents(query, key, value, documents):
        def mask_mod(b, h, q_idx, kv_idx):
            return documents[b, q_idx] == documents[b, kv_idx]

        length = query.shape[2]
        mask = flex.create_block_mask(mask_mod, BATCH, None, length, length, "cpu", BLOCK_SIZE=16)
        return flex.flex_attention(query, key, value, block_mask=mask), mask.kv_indices

    compiled = braze.compile(attend_in_documents, fullgraph=True)
    for step in (3, 11):
        documents = (torch.arange(2 * KEYS) // step).view(BATCH, KEYS)
        is_same(attend_in_documents, *inputs(queries=KEYS), documents, compiled=compiled)


@pytest.mark.parametrize("name", ["causal", "pages", "padding", "noop"])
def test_block_masks(name):
    def make():
        mask = block_mask(MASK_MODS[name], 70, KEYS, BLOCK_SIZE=(16, 8))
        return [part for part in mask.as_tuple() if isinstance(part, torch.Tensor)]

    is_same(make)


MASKED = [*(MASK_MODS[name] for name in ("causal", "pages", "padding")), SCORE_MODS["causal"]]


@pytest.mark.parametrize("function", MASKED)
def test_masks_as_tensors(function):
    is_same(lambda: flex.create_mask(function, BATCH, HEADS, QUERIES, KEYS, "cpu"))


WIDE = torch.tensor(0.1, dtype=torch.float64)


def sums(score, b, h, q_idx, kv_idx):
    return score + q_idx.sum() * 0.1


def takes_the_highest(score, b, h, q_idx, kv_idx):
    return torch.stack([score, score * 2]).amax(0)


def sums_a_row(score, b, h, q_idx, kv_idx):
    return score * SIGNS[h].sum()


def looks_up_twice(score, b, h, q_idx, kv_idx):
    return score + SIGNS[h][q_idx % 3] * kv_idx


def looks_at_sizes(score, b, h, q_idx, kv_idx):
    return score * (1 + score.dim()) + len(score.shape) * kv_idx


def adds_a_wide_number(score, b, h, q_idx, kv_idx):
    return score + WIDE


def writes_in_place(score, b, h, q_idx, kv_idx):
    return score.clone().mul_(2.0)


UNLIKE = {
    sums: "aten.sum does not compute each number by itself",
    takes_the_highest: "does not compute each number by itself",
    sums_a_row: "looks up more than a number in a table",
    looks_up_twice: "it raises RuntimeError",
    looks_at_sizes: "asks for Tensor.dim",
    adds_a_wide_number: "a wider dtype than its numbers",
    writes_in_place: "writes in place",
}


@pytest.mark.parametrize("function", UNLIKE)
def test_functions_of_more_than_numbers_run_in_eager(function):
    with pytest.raises(braze.GraphBreakError, match=UNLIKE[function]):
        braze.compile(attend, fullgraph=True)(*inputs(), score_mod=function)
    is_same(
        attend_with_sums, *inputs(), compiled=braze.compile(attend_with_sums), score_mod=function
    )


def error_of(function, args, options):
    try:
        function(*args, **options)
    except Exception as error:
        return type(error), str(error).splitlines()[0]
    return None


def adds_a_row(score, b, h, q_idx, kv_idx):
    return score + ROW


def draws(score, b, h, q_idx, kv_idx):
    return score + torch.rand_like(score)


def gives_a_number(score, b, h, q_idx, kv_idx):
    return 1.0


def asks_which_head(score, b, h, q_idx, kv_idx):
    return score * 2 if h == 0 else score


def looks_up_by_a_mask(score, b, h, q_idx, kv_idx):
    return score + SIGNS[h > 2, 0]


def counts(b, h, q_idx, kv_idx):
    return q_idx - kv_idx


def bad_calls():
    query, key, value = inputs()
    causal = block_mask(MASK_MODS["causal"])
    calls = {
        "a key of other width": ((query, key[..., :8], value), {}),
        "another dtype": ((query, key.double(), value), {}),
        "three dimensions": ((query[0], key[0], value[0]), {}),
        "other heads": ((query, key[:, :2], value[:, :2]), {}),
        "heads that do not divide": ((query, key[:, :3], value[:, :3]), {"enable_gqa": True}),
        "another batch": ((query, key[:1], value[:1]), {}),
        "a mask of other lengths": ((query[:, :, :9], key, value), {"block_mask": causal}),
        "a sliced mask": ((query, key, value), {"block_mask": causal[:, :, :1]}),
        "another device": ((query, key.to("meta"), value), {}),
        "both results": (
            (query, key, value),
            {"return_lse": True, "return_aux": flex.AuxRequest(lse=True)},
        ),
        "highest scores": ((query, key, value), {"return_aux": flex.AuxRequest(max_scores=True)}),
        "options": ((query, key, value), {"kernel_options": {"BACKEND": "NONE"}}),
        "no mask": ((query, key, value), {"block_mask": block_mask_of_counts()}),
        "gradients": ((query.requires_grad_(), key, value), {}),
    }
    for function in (adds_a_row, draws, gives_a_number, looks_up_by_a_mask):
        calls[function.__name__] = (inputs(), {"score_mod": function})
    # The only one, which a capture could know.
    one = tuple(tensor[:1, :1] for tensor in inputs())
    calls["asks which head"] = (one, {"score_mod": asks_which_head})
    return calls


def block_mask_of_counts():
    mask = block_mask(MASK_MODS["causal"])
    mask.mask_mod = counts
    return mask


def compare_errors():
    for name, (args, options) in bad_calls().items():
        expected = error_of(attend, args, options)
        assert expected is not None, name
        torch._dynamo.reset()
        given = error_of(braze.compile(attend), args, options)
        assert given == expected, f"{name}: {given} is not {expected}"
        print(name)


def test_errors():
    """In a process of its own: an error in PyTorch's compiler leaves traces in its process."""
    here = pathlib.Path(__file__).parent
    done = subprocess.run(
        [sys.executable, "-c", "import test_flex_attention as t; t.compare_errors()"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(here), str(here.parent)])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == list(bad_calls())
