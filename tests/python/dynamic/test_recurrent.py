"""nn.LSTM, nn.GRU and nn.RNN: one compile for the first sizes, one for all others."""

import warnings

import braze
import pytest
import torch
from support import entries, reasons
from torch import nn

SIZES = ((5, 4), (7, 6), (9, 3), (2, 8), (33, 20))
LAYOUTS = {
    "plain": {},
    "batch_first": {"batch_first": True},
    "no_bias": {"bias": False, "num_layers": 2},
    "deep": {"batch_first": True, "num_layers": 2, "bidirectional": True},
}
KINDS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


def flat(result):
    outputs, state = result
    return [outputs, *(state if isinstance(state, tuple) else [state])]


def assert_same(expected, actual):
    for a, b in zip(flat(expected), flat(actual), strict=True):
        torch.testing.assert_close(b, a)
        assert (b.dtype, b.shape, b.stride()) == (a.dtype, a.shape, a.stride())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["f32", "f64"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("kind", KINDS)
def test_two_compiles(kind, layout, dtype):
    torch.manual_seed(0)
    model = KINDS[kind](6, 8, **LAYOUTS[layout]).eval().to(dtype)
    fast = braze.compile(model)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")  # those of PyTorch's tracing would be ours
        for size in SIZES:
            x = torch.randn(*size, 6, dtype=dtype)
            assert_same(model(x), fast(x))
    assert len(entries(fast)) == 2 and not reasons(fast)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_projection():
    model = nn.LSTM(6, 8, num_layers=2, bidirectional=True, proj_size=3).eval()
    fast = braze.compile(model, dynamic=True)
    with torch.no_grad():
        for size in SIZES:
            x = torch.randn(*size, 6)
            assert_same(model(x), fast(x))
    assert len(entries(fast)) == 1 and not reasons(fast)


@pytest.mark.parametrize("kind", KINDS)
def test_given_state(kind):
    model = KINDS[kind](6, 8).eval()
    fast = braze.compile(model, dynamic=True)
    with torch.no_grad():
        for length, batch in SIZES:
            x, state = torch.randn(length, batch, 6), torch.randn(1, batch, 8)
            state = (state, torch.randn(1, batch, 8)) if kind == "lstm" else state
            assert_same(model(x, state), fast(x, state))
    assert len(entries(fast)) == 1 and not reasons(fast)


def test_one_sequence():
    model = nn.GRU(6, 8).eval()
    fast = braze.compile(model, dynamic=True)
    with torch.no_grad():
        for length in (4, 9, 17):
            x = torch.randn(length, 6)
            assert_same(model(x), fast(x))
    assert len(entries(fast)) == 1 and not reasons(fast)


@pytest.mark.parametrize("kind", KINDS)
def test_output_is_used(kind):
    """What follows is fused over the same symbols."""
    layer = KINDS[kind](6, 8, batch_first=True).eval()

    def model(x):
        outputs, _ = layer(x * 2)
        return torch.relu(outputs).mean(1), outputs[:, -1] + 1

    fast = braze.compile(model, dynamic=True)
    with torch.no_grad():
        for size in SIZES:
            x = torch.randn(*size, 6)
            torch.testing.assert_close(fast(x), model(x))
    assert len(entries(fast)) == 1 and not reasons(fast)


def test_weights_that_do_not_fit():
    """PyTorch's own error."""
    shapes = ((32, 5), (32, 8), (32,), (32,))
    weights = [torch.randn(shape, dtype=torch.float64) for shape in shapes]

    def model(x):
        state = x.new_zeros(1, x.shape[1], 8)
        return torch.lstm(x, (state, state), weights, True, 1, 0.0, False, False, False)

    fast = braze.compile(model, dynamic=True)
    for size in SIZES[:2]:
        x = torch.randn(*size, 6, dtype=torch.float64)
        with pytest.raises(RuntimeError) as expected:
            model(x)
        with pytest.raises(RuntimeError) as actual:
            fast(x)
        assert str(actual.value) == str(expected.value)
