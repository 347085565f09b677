"""The operator that flex_attention of halves is on a GPU, with PyTorch's operators on the CPU in the
place of its kernels (src/trace/flex_attention.h)."""

import functools
import warnings

import braze
import braze._flex_attention
import pytest
import torch
from flex_programs import (
    TOLERANCES,
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

HALVES = (torch.float16, torch.bfloat16)
SCORE_MODS, MASK_MODS = score_mods(tables()), mask_mods(tables())
# Eager has no gradient through scores that do not depend on anything.
DIFFERENTIABLE = [name for name in SCORE_MODS if name != "no_scores"]


@pytest.fixture(autouse=True)
def on_cpu(monkeypatch):
    monkeypatch.setattr(braze._flex_attention, "_KERNEL_DEVICES", ("cpu",))
    monkeypatch.setattr(flex, "_validate_device", lambda query, key, value: None)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        yield
    torch._dynamo.reset()


def is_operator(function, *args, **options):
    return "braze.flex_attention(" in str(braze.explain(function)(*args, **options).details)


def learning(dtype=torch.float16, **options):
    return [tensor.requires_grad_() for tensor in inputs(dtype, **options)]


@pytest.mark.parametrize("score", DIFFERENTIABLE)
@pytest.mark.parametrize("mask", [None, "documents", "late_rows"])
def test_gradients(score, mask):
    options = {"score_mod": SCORE_MODS[score], "enable_gqa": True}
    if mask:
        options["block_mask"] = block_mask(MASK_MODS[mask])
    tensors = learning(key_heads=2)
    # Scores that become halves, or doubles, are left to the matrix.
    assert is_operator(attend_with_sums, *tensors, **options) == (score not in ("halves", "wider"))
    has_same_gradients(tensors, 2e-2, **options)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("mask", MASK_MODS)
def test_masks(dtype, mask):
    options = {"block_mask": block_mask(MASK_MODS[mask])}
    compiled = braze.compile(attend, fullgraph=True)
    args = inputs(dtype)
    assert is_operator(attend, *args, **options)
    same(compiled(*args, **options), attend(*args, **options), rtol=TOLERANCES[dtype], atol=4e-2)
    has_same_gradients(learning(dtype), 4 * TOLERANCES[dtype], **options)


@pytest.mark.parametrize("sizes", [{"key_batch": 1}, {"width": 8}, {"queries": 1}, {"keys": 1}])
def test_sizes(sizes):
    options = {"score_mod": SCORE_MODS["soft_cap"]}
    if "key_batch" in sizes:  # which needs a mask of as many batches
        options["block_mask"] = block_mask(MASK_MODS["causal"])
    tensors = learning(**sizes)
    assert is_operator(attend_with_sums, *tensors, **options)
    has_same_gradients(tensors, 2e-2, **options)


def test_layouts():
    query, key, value = (
        tensor.transpose(1, 2).contiguous().transpose(1, 2) for tensor in inputs(torch.float16)
    )
    mine = braze.compile(attend, fullgraph=True)(query, key, value)
    right = attend(query, key, value)
    same(mine, right, rtol=4e-3, atol=4e-3)


def test_what_is_left_to_the_matrix_of_scores():
    """Single precision, learned tables, sizes that vary, odd depths."""
    assert not is_operator(attend, *inputs(torch.float32))
    assert not is_operator(attend, *(t[..., :13].contiguous() for t in inputs(torch.float16)))
    table = tables()
    table["bias"].requires_grad_()
    relative = score_mods(table)["relative"]
    tensors = [*learning(), table["bias"]]
    assert not is_operator(attend, *tensors[:3], score_mod=relative)
    has_same_gradients(tensors, 5e-2, score_mod=relative)
    with torch.no_grad():
        assert is_operator(attend, *inputs(torch.float16), score_mod=relative)
    compiled = braze.compile(attend, fullgraph=True, dynamic=True)
    for queries in (20, 21, 22):
        args = inputs(torch.float16, queries=queries)
        same(compiled(*args), attend(*args), rtol=4e-3, atol=4e-3)


def test_numbers_that_the_functions_close_over():
    """A number is a part of the program; another one is another program."""
    args = inputs(torch.float16)

    def attend_with(args, bound):
        return flex.flex_attention(*args, lambda s, b, h, q, k: torch.where(q < bound, s, -s))

    compiled = braze.compile(attend_with, fullgraph=True)
    for bound in (3, 5, 9, 3):
        same(compiled(args, bound), attend_with(args, bound), rtol=4e-3, atol=4e-3)


def test_tables_that_change_between_calls():
    table = torch.zeros(24, dtype=torch.int64)
    args = inputs(torch.float16)
    mask = block_mask(lambda b, h, q, k: table[q] == table[k])
    compiled = braze.compile(attend, fullgraph=True)
    for number in range(3):
        table[: 5 * number] = number
        same(
            compiled(*args, block_mask=mask),
            attend(*args, block_mask=mask),
            rtol=4e-3,
            atol=4e-3,
        )


@pytest.mark.parametrize("score", ["soft_cap", "alibi", None])
def test_gradient_of_a_gradient(score):
    score_mod = SCORE_MODS[score] if score else None
    tensors = learning()

    def in_double(query, key, value):
        scores = query @ key.mT * query.shape[-1] ** -0.5
        places = [
            torch.arange(size).view([-1 if dim == place else 1 for place in range(4)])
            for dim, size in enumerate(scores.shape)
        ]
        return (score_mod(scores, *places) if score_mod else scores).softmax(-1) @ value

    def penalty(function, tensors):
        out = function(*tensors)
        (grad,) = torch.autograd.grad(out.double().square().sum(), tensors[0], create_graph=True)
        return torch.autograd.grad(grad.double().square().sum(), tensors)

    compiled = braze.compile(functools.partial(attend, score_mod=score_mod), fullgraph=True)
    given = penalty(compiled, tensors)
    doubles = [tensor.detach().double().requires_grad_() for tensor in tensors]
    for mine, right in zip(given, penalty(in_double, doubles)):
        limit = 2e-2 * right.abs().max().item()
        torch.testing.assert_close(mine.double(), right, rtol=2e-2, atol=limit)


def test_backward_twice_and_saved_tensors():
    tensors = learning()
    out = braze.compile(attend, fullgraph=True)(*tensors)
    out.sum().backward(retain_graph=True)
    first = [tensor.grad.clone() for tensor in tensors]
    out.sum().backward()
    for tensor, before in zip(tensors, first):
        torch.testing.assert_close(tensor.grad, 2 * before)
    with pytest.raises(RuntimeError, match="second time"):
        out.sum().backward()
    out = braze.compile(attend, fullgraph=True)(*tensors)
    with torch.no_grad():
        tensors[0].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_steps_that_are_compiled_whole():
    weights = [torch.randn(64, 192), torch.randn(64, 64)]

    def step(x, inner, outer):
        query, key, value = (
            part.unflatten(-1, (4, 16)).transpose(1, 2) for part in (x @ inner).chunk(3, dim=-1)
        )
        made = flex.flex_attention(query, key, value, SCORE_MODS["alibi"])
        loss = (made.transpose(1, 2).flatten(2) @ outer).float().square().mean()
        loss.backward()
        return loss

    losses = []
    for function in (step, braze.compile(step, fullgraph=True)):
        torch.manual_seed(1)
        inner, outer = (weight.half().requires_grad_() for weight in weights)
        x = torch.randn(2, 20, 64).half()
        losses.append((function(x, inner, outer).detach(), inner.grad, outer.grad))
    same(losses[1], losses[0], rtol=2e-2, atol=2e-2)
