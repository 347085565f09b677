"""Code that asks whether it is compiled, and operators that PyTorch can only run compiled."""

import braze
import pytest
import torch
import torch.nn.functional as F
from support import entries


def test_compiled_code_knows_that_it_is():
    def f(x):
        return (x + 1, True) if torch.compiler.is_compiling() else (x - 1, False)

    x = torch.randn(3)
    assert f(x)[1] is False
    out, said = braze.compile(f, fullgraph=True)(x)
    assert said is True and torch.equal(out, x + 1)
    assert not torch.compiler.is_compiling()


def test_what_runs_in_eager_knows_that_it_is_not():
    def f(x):
        if x.sum() > 1e9:
            x = x + 1
        return x, torch.compiler.is_compiling()

    x = torch.randn(3)
    assert braze.compile(f)(x)[1] is False


def test_asked_from_torch_functions():
    def f(x):
        return x * 2, torch._utils.is_compiling()

    assert braze.compile(f, fullgraph=True)(torch.randn(3))[1] is True


def test_hooks_that_run_always():
    """nn.Module keeps its handling of exceptions, whatever it is told."""
    calls = []

    class Bad(torch.nn.Module):
        def forward(self, x):
            raise ValueError("no")

    model = Bad()
    model.register_forward_hook(lambda *_: calls.append(1), always_call=True)
    fast = braze.compile(model)
    for number in (1, 2):
        with pytest.raises(ValueError, match="no"):
            fast(torch.randn(2))
        assert len(calls) == number


@pytest.mark.parametrize("size", [0, 1, 2, 5, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan(size, reverse):
    from torch._higher_order_ops.associative_scan import associative_scan

    def combine(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1]

    def f(a, b):
        return associative_scan(combine, (a, b), 1, reverse=reverse, combine_mode="generic")

    a, b = torch.rand(2, size, 3), torch.randn(2, size, 3)
    products, sums = braze.compile(f, fullgraph=True)(a, b)
    expected, state = [], (torch.ones(2, 3), torch.zeros(2, 3))
    for i in reversed(range(size)) if reverse else range(size):
        state = combine(state, (a[:, i], b[:, i]))
        expected.append(state)
    if reverse:
        expected.reverse()
    assert products.shape == a.shape and sums.shape == b.shape
    for i, (product, total) in enumerate(expected):
        torch.testing.assert_close(products[:, i], product)
        torch.testing.assert_close(sums[:, i], total)


@torch.library.custom_op("braze_test::row_norms", mutates_args=())
def row_norms(x: torch.Tensor) -> torch.Tensor:
    row_norms.calls.append(x.tolist())
    return torch.tensor([float(row.norm()) for row in x])


row_norms.calls = []


@row_norms.register_fake
def _(x):
    return x.new_empty(x.shape[0])


def test_custom_operator_runs_once_a_call():
    """Its Python code runs when the compiled function does, never while it is compiled."""

    def f(x):
        return row_norms(x * 2) + 1

    fast = braze.compile(f, fullgraph=True)
    row_norms.calls.clear()
    for number in (1, 2, 3):
        x = torch.randn(4, 5)
        torch.testing.assert_close(fast(x), (x * 2).norm(dim=1) + 1)
        assert len(row_norms.calls) == number
    assert len(entries(fast)) == 1


def test_grouped_products():
    offsets = torch.tensor([3, 5, 10], dtype=torch.int32)
    x, weight = torch.randn(10, 8), torch.randn(3, 8, 12)

    def f(x, weight, offsets):
        return F.grouped_mm(x.relu(), weight, offs=offsets) * 2

    if not hasattr(F, "grouped_mm"):
        pytest.skip("this PyTorch has no F.grouped_mm; a newer one does")
    out, expected = braze.compile(f, fullgraph=True)(x, weight, offsets), f(x, weight, offsets)
    assert out.stride() == expected.stride()
    torch.testing.assert_close(out, expected)


def test_seeds_set_within_torch():
    """torch's own Python code that seeds a generator is not carried out while tracing."""
    from torch.utils.checkpoint import checkpoint

    def seeded(x):
        with torch.random.fork_rng():
            torch.manual_seed(42)
            return x + torch.rand(3)

    def f(x):
        return checkpoint(seeded, x, use_reentrant=False) + torch.rand(3)

    x = torch.randn(3)
    torch.manual_seed(0)
    expected = f(x)
    for _ in range(2):
        torch.manual_seed(0)
        assert torch.equal(braze.compile(f)(x), expected)
