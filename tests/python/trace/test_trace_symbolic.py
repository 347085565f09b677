"""Symbolic sizes: native torch.SymInts, guards where a decision needs one."""

import re

import pytest
import torch
import torch.nn.functional as F
from tracing import layout, trace


def symbolic(fn, *args, names=("arg0",)):
    return trace(fn, *args, symbolic=list(names))


class Block(torch.nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.project, self.norm, self.width = (
            torch.nn.Linear(width, width),
            torch.nn.LayerNorm(width),
            width,
        )

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            self.project(x).view(batch, length, 2, width // 2).transpose(1, 2) for _ in range(3)
        )
        weights = torch.softmax(q @ k.transpose(-1, -2) * 0.3, -1)
        y = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        return self.norm(x + self.project(F.gelu(y)))


def test_block_without_specialising():
    block, x = Block(), torch.randn(4, 5, 16)
    result = symbolic(block, x)
    assert torch.equal(result["replay"]()[0], block(x))
    assert "s0" in result["types"][0] and "s1" in result["types"][0]
    assert "s0 == 4" not in result["guards"] and "s1 == 5" not in result["guards"]


PRODUCTS = [
    ((4,), (4,)),
    ((3, 4), (4,)),
    ((4,), (4, 3)),
    ((3, 4), (4, 5)),
    ((2, 3, 4), (4,)),
    ((2, 3, 4), (4, 5)),
    ((4,), (2, 4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((1, 3, 4), (2, 4, 5)),
    ((2, 3, 4), (1, 4, 5)),
    ((2, 2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (3, 4, 5)),
    ((2, 2, 3, 4), (2, 2, 4, 5)),
]


@pytest.mark.parametrize("left, right", PRODUCTS)
@pytest.mark.parametrize("transposed", [False, True])
def test_products_keep_symbols(left, right, transposed):
    a, b = torch.randn(left), torch.randn(right)
    if transposed and a.dim() > 2:
        a = torch.randn(left[1], left[0], *left[2:]).transpose(0, 1)
    result = symbolic(torch.matmul, a, b, names=("arg0", "arg1"))
    assert not [g for g in result["guards"] if re.search(r"== \d", g)]
    actual, expected = result["replay"]()[0], trace(torch.matmul, a, b)["replay"]()[0]
    assert layout(actual) == layout(expected)
    # Which of BLAS's routines is called, and so how it rounds, may differ.
    torch.testing.assert_close(actual, expected)


def test_sizes_are_symbolic_ints():
    seen = []

    def fn(x):
        seen.append((type(x.shape[0]), type(x.shape[0] * 3 + 1), len(x.shape)))
        return x.view(x.shape[0] * x.shape[1])

    result = symbolic(fn, torch.randn(4, 5))
    assert seen[0] == (torch.SymInt, torch.SymInt, 2)
    assert "s0" in result["types"][0]


def test_the_text_of_a_size_is_guarded():
    seen = []

    def fn(x):
        seen.append(str(x.shape[0] * 3 + 1))
        return x + 1

    result = symbolic(fn, torch.randn(4, 5))
    assert seen[0] == "13" and "3*s0 + 1 == 13" in result["guards"]


def test_a_branch_on_a_size_is_guarded():
    result = symbolic(lambda x: x + 1 if x.shape[0] > 3 else x, torch.randn(4, 5))
    assert "s0 > 3" in result["guards"]
    assert "s0 == 4" not in result["guards"]


def test_one_is_specialised():
    result = symbolic(lambda x: x + 1, torch.randn(1, 5))
    assert result["types"] == ["f32[1, s0]"]


def test_what_needs_numbers_specialises_with_a_guard():
    x = torch.randn(4, 5)
    result = symbolic(lambda x: x.renorm(2, 0, 1.0), x)
    assert torch.equal(result["replay"]()[0], x.renorm(2, 0, 1.0))
    assert "s0 == 4" in result["guards"] and "s1 == 5" in result["guards"]


def test_int_of_a_size_specialises():
    result = symbolic(lambda x: x * int(x.shape[0]), torch.randn(4, 5))
    assert "s0 == 4" in result["guards"]


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x + x.t().t(),
        lambda x: x[None].expand(3, -1, -1) + x,
        lambda x: x.unsqueeze(1) * 2,
        lambda x: x.permute(1, 0) * 2,
        lambda x: torch.where(x > 0, x, 0.0),
        lambda x: x.sum(0) + x.mean(1, keepdim=True),
        lambda x: x.select(0, 1) + x,
        lambda x: torch.zeros_like(x) + x.clone() + torch.relu(x).tanh(),
        lambda x: x.add_(1) * 2,
        lambda x: torch.cat([x, x]),
        lambda x: x[:, 1:3] * 2,
        lambda x: x.cumsum(0),
        lambda x: x.index_select(0, torch.tensor([0, 1])),
    ],
)
def test_small_functions(fn):
    x = torch.randn(4, 5)
    result = symbolic(fn, x.clone())
    assert torch.equal(result["replay"]()[0], fn(x.clone()))
