"""einops, whose functions work out what a pattern says through caches."""

import braze
import pytest
import torch
import torch.nn as nn
from einops import einsum, pack, parse_shape, rearrange, reduce, repeat, unpack
from einops.layers.torch import EinMix, Rearrange, Reduce

FUNCTIONS = {
    "split": lambda x: rearrange(x, "b n (h d) -> b h n d", h=2),
    "join": lambda x: rearrange(x, "b n d -> (b n) d") + 1,
    "new axes": lambda x: rearrange(x, "b n d -> b 1 n d ()"),
    "ellipsis": lambda x: rearrange(x, "b ... -> (...) b"),
    "list": lambda x: rearrange([x, x * 2], "r b n d -> b (r n) d"),
    "mean": lambda x: reduce(x, "b n d -> b d", "mean"),
    "blocks": lambda x: reduce(x, "b n (d two) -> b n d", "max", two=2),
    "repeat": lambda x: repeat(x, "b n d -> b (n r) d", r=3),
    "einsum": lambda x: einsum(x, x, "b n d, b m d -> b n m"),
    "shape": lambda x: x * parse_shape(x, "b n _")["n"],
    "pack": lambda x: unpack(*pack([x, x.sum(2)], "b n *"), "b n *")[0],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_as_eager(name):
    function = FUNCTIONS[name]
    fast = braze.compile(function, fullgraph=True)
    for batch in (2, 3, 4, 7):
        x = torch.randn(batch, 3, 4)
        expected, got = function(x), fast(x)
        torch.testing.assert_close(got, expected)
        assert got.stride() == expected.stride()
    # One for the first size, one for all others.
    assert len(braze._api.compiled_function_of(fast)._entries()) == 2


def test_layers():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        Reduce("b c (h h2) (w w2) -> b c h w", "max", h2=2, w2=2),
        Rearrange("b c h w -> b (h w) c"),
        EinMix("b n c -> b n d", weight_shape="c d", bias_shape="d", c=8, d=4),
    )
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        torch.testing.assert_close(braze.compile(net, fullgraph=True)(x), net(x))


def test_packs():
    def f(x, y):
        packed, shapes = pack([x, y], "* d")
        return [part * 2 for part in unpack(packed + 1, shapes, "* d")], shapes

    fast = braze.compile(f)
    for n in (2, 2, 3, 4):
        x, y = torch.randn(n, 4), torch.randn(2, n, 4)
        (got, shapes), (wanted, theirs) = fast(x, y), f(x, y)
        torch.testing.assert_close(got, wanted)
        assert [tuple(shape) for shape in shapes] == [tuple(shape) for shape in theirs]
    assert not braze.explain(f)(x, y).breaks


def test_what_packs_refuse():
    fast = braze.compile(lambda x: pack([x], "a a")[0])
    for call in (fast, lambda x: pack([x], "a a")[0]):
        with pytest.raises(Exception, match="Duplicates in axes names"):
            call(torch.randn(2, 3))


def test_what_einops_refuses():
    def split(x):
        return rearrange(x, "b n (h d) -> b h n d", h=3)

    x = torch.randn(2, 3, 4)
    with pytest.raises(Exception) as expected:
        split(x)
    with pytest.raises(type(expected.value)) as got:
        braze.compile(split)(x)
    assert str(got.value) == str(expected.value)
