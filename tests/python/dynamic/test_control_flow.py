"""torch.cond, map and scan inside compiled code."""

import braze
import pytest
import torch
from support import entries, reasons, same
from torch._higher_order_ops import map as torch_map
from torch._higher_order_ops import scan as torch_scan


def test_cond_on_sizes_is_decided():
    def fn(x):
        return torch.cond(x.shape[0] > 4, lambda y: y.sin(), lambda y: y.cos(), (x,))

    def eager(x):
        return x.sin() if x.shape[0] > 4 else x.cos()

    fast = braze.compile(fn)
    for size in (3, 5, 6, 9, 4):
        x = torch.randn(size)
        same(fast(x), eager(x))
    assert not reasons(fast)
    assert len(entries(fast)) <= 3


def test_map_of_one_tensor():
    fast = braze.compile(lambda x: torch_map(lambda row: row.cumsum(0), x))
    x = torch.randn(3, 4)
    same(fast(x), x.cumsum(1))
    assert not reasons(fast)


def test_map():
    def fn(x, y, w):
        out = torch_map(lambda row, w: {"s": row[0] @ w + row[1], "n": row[0].sum()}, (x, y), w)
        return out["s"] * 2, out["n"]

    def eager(x, y, w):
        rows = [(a @ w + b, a.sum()) for a, b in zip(x, y, strict=True)]
        return torch.stack([a for a, _ in rows]) * 2, torch.stack([b for _, b in rows])

    fast = braze.compile(fn)
    for size in (3, 1):
        args = torch.randn(size, 4), torch.randn(size, 5), torch.randn(4, 5)
        same(fast(*args), eager(*args))
    assert not reasons(fast)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
def test_scan(dim, reverse):
    def step(carry, x):
        carry = carry * 0.5 + x
        return carry, carry.clone()

    def fn(init, xs):
        return torch_scan(step, init, xs, dim=dim, reverse=reverse)

    def eager(init, xs):
        rows = list(xs.unbind(dim))
        carry, out = init, []
        for x in reversed(rows) if reverse else rows:
            carry, y = step(carry, x)
            out.append(y)
        return carry, torch.stack(out[::-1] if reverse else out, dim)

    fast = braze.compile(fn)
    for size in (4, 6):
        shape = (size, 3) if dim == 0 else (3, size)
        init, xs = torch.randn(3), torch.randn(shape)
        ours, theirs = fast(init, xs), eager(init, xs)
        for a, b in zip(ours, theirs, strict=True):
            torch.testing.assert_close(a, b)
    assert not reasons(fast)


def test_loops_over_a_number_that_varies():
    """Unrolled for that number, under a guard."""

    def fn(x, n):
        for i in range(n):
            x = x + i
        return x, [i for i in range(1, n, 2)], len(range(n))

    fast = braze.compile(fn, recompile_limit=16)
    for n in (3, 5, 4, 0, 1, 7, 3, 5):
        x = torch.randn(2)
        same(fast(x, n), fn(x, n))
    assert not reasons(fast)


def test_marked_as_unbacked():
    def fn(x):
        return x.relu().sum(0) / x.shape[0]

    fast = braze.compile(fn)
    for size in (4, 7, 9):
        x = torch.randn(size, 3)
        braze.mark_unbacked(x, 0)
        same(fast(x), fn(x))
    assert len(entries(fast)) == 1


def test_scans_for_a_backend_of_the_user():
    """What takes trees apart and puts them together is no node of the graph."""
    from torch.utils import _pytree

    def fn(x):
        leaves, spec = _pytree.tree_flatten({"a": x + 1, "b": (x * 2,)})
        tree = _pytree.tree_unflatten([leaf.sin() for leaf in leaves], spec)
        return tree["a"] - tree["b"][0], _pytree.tree_leaves(tree)

    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm

    fast = braze.compile(fn, backend=backend, fullgraph=True)
    x = torch.randn(3, 4)
    same(fast(x), fn(x))
    assert not any("tree" in str(node.target) for node in graphs[0].graph.nodes)
