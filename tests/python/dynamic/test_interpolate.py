"""F.interpolate with factors: sizes stay symbols."""

import braze
import pytest
import torch
import torch.nn.functional as F
from support import entries, reasons, same

MODES = {"nearest": 2, "nearest-exact": 2, "bilinear": 2, "bicubic": 2, "linear": 1, "trilinear": 3}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("factor", [2, 3.0, 0.5, 1, 1.5, 0.75])
def test_factors(mode, factor):
    def fn(x):
        return F.interpolate(x, scale_factor=factor, mode=mode) + 1

    fast = braze.compile(fn)
    for size in (6, 8, 11, 5):
        x = torch.randn(2, 3, *(size + i for i in range(MODES[mode])))
        same(fast(x), fn(x), atol=1e-5)
    assert not reasons(fast)
    assert len(entries(fast)) == 2


@pytest.mark.parametrize("align", [None, False, True])
def test_corners_and_one_factor_a_dimension(align):
    def fn(x):
        return F.interpolate(x, scale_factor=(2.0, 4), mode="bilinear", align_corners=align)

    fast = braze.compile(fn)
    for size in (6, 8, 11):
        x = torch.randn(1, 2, size, size + 1)
        same(fast(x), fn(x), atol=1e-5)
    assert len(entries(fast)) == 2


def test_everything_else_is_as_before():
    x = torch.randn(1, 2, 6, 7)
    calls = [
        lambda: F.interpolate(x, scale_factor=1.7),
        lambda: F.interpolate(x, scale_factor=2, recompute_scale_factor=True),
        lambda: F.interpolate(x, size=(3, 9), mode="bilinear"),
        lambda: F.interpolate(x, scale_factor=2, mode="area"),
        lambda: F.interpolate(x, scale_factor=2.0, mode="bilinear", antialias=True),
        lambda: torch.nn.Upsample(scale_factor=2)(x),
    ]
    for call in calls:
        same(braze.compile(call)(), call(), atol=1e-5)
    mistakes = [
        lambda: F.interpolate(x, scale_factor=2, mode="nearest", align_corners=True),
        lambda: F.interpolate(x, scale_factor=2, mode="linear"),
        lambda: F.interpolate(x, scale_factor=(2, 2, 2)),
        lambda: F.interpolate(x),
    ]
    for call in mistakes:
        with pytest.raises((ValueError, NotImplementedError)):
            braze.compile(call)()
