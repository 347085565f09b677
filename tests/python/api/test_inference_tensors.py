"""torch.inference_mode() in captured code: what comes out is an inference tensor, and a view, exactly
where eager's is, and may be changed later exactly where eager's may."""

import contextlib

import braze
import pytest
import torch
from torch import nn


def whole(x):
    with torch.inference_mode():
        y = x + 1
    return y


@torch.inference_mode()
def decorated(x):
    return x * 2, x.t(), x


def both_kinds(x):
    y = x + 1
    with torch.inference_mode():
        z = y + 1
        w, u, q = y.t(), z.t(), x.view(-1)
    return y, z, w, u, q, w.t(), u.t()


def switched_off(x):
    with torch.inference_mode(False):
        y = torch.ones(3, 4) + 1
        return y, y.t(), torch.zeros(4).view(2, 2)


@torch.inference_mode()
def changes_its_input(x):
    x.mul_(2)
    y = x.view(-1)
    y.add_(1)
    return y, x.sum(), x


def changes_outside_of_the_mode(x):
    with torch.inference_mode():
        y = x + 1
    y.add_(1)
    return y


def changes_a_view(x):
    y = x.view(-1)
    y.add_(1)
    return y


def asks(x):
    with torch.inference_mode():
        y = x + 1
    return y.is_inference(), x.is_inference(), x.t().is_inference(), y * 2


def breaks(x):
    with torch.inference_mode():
        y = x + 1
        print("", end="")
        z = y * 2
    return y, z, x * 2


def writes_into(x):
    y = torch.empty(4, 5)
    with torch.inference_mode():
        torch.add(x, 1, out=y)
        y.mul_(2)
    return y, y.view(-1)


def views_without_grad(x):
    with torch.no_grad():
        v = x.view(-1)
    return v, v.view(2, -1)


def several_views(x):
    return x.split(2), x.unbind(0)[0], (x + 1).chunk(2)


def transposed_in_place(x):
    y = x + 1
    y.t_()
    return y


def detached(x):
    y = x + 1
    return y.detach(), y, y.t().detach(), x.t()


CASES = {
    f.__name__: f
    for f in (
        whole,
        decorated,
        both_kinds,
        switched_off,
        changes_its_input,
        changes_outside_of_the_mode,
        changes_a_view,
        asks,
        breaks,
        writes_into,
        views_without_grad,
        several_views,
        transposed_in_place,
        detached,
    )
}
MODES = {
    "plain": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
}


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return sum(map(tensors_in, value), []) if isinstance(value, (tuple, list)) else []


def state(tensor):
    return tensor.shape, tensor.is_inference(), tensor._is_view(), tensor.requires_grad


def later(tensor):
    """What an in-place update outside of inference mode does, with autograd looking on."""
    try:
        tensor.add_(torch.ones((), requires_grad=True))
    except RuntimeError as error:
        return str(error)
    return tensor.requires_grad


def outcome(function, given_inference, mode):
    with torch.inference_mode(given_inference):
        x = torch.arange(20.0).reshape(4, 5).clone()
    try:
        with mode():
            result = function(x)
    except RuntimeError as error:
        return str(error)
    found = tensors_in(result)
    with torch.inference_mode():
        values = [tensor.tolist() for tensor in [*found, x]]
    rest = [r for r in result if isinstance(r, bool)] if isinstance(result, tuple) else []
    states = [state(tensor) for tensor in [*found, x]]
    return states, values, rest, [later(tensor) for tensor in found]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("given_inference", [False, True], ids=["normal", "given_inference"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_as_eager(name, mode, given_inference, dynamic):
    function = CASES[name]
    fast = braze.compile(function, dynamic=dynamic)
    expected = outcome(function, given_inference, MODES[mode])
    for _ in range(2):
        assert outcome(fast, given_inference, MODES[mode]) == expected


def test_one_function_in_all_modes():
    """Entries are told apart by the mode and by what they are given."""
    fast = braze.compile(both_kinds)
    for _ in range(2):
        for mode in MODES.values():
            for given in (False, True):
                assert outcome(fast, given, mode) == outcome(both_kinds, given, mode)


class Predictor(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 3)
        self.register_buffer("calls", torch.zeros(1))

    @torch.inference_mode()
    def forward(self, x):
        self.calls.add_(1)
        self.last = self.linear(x)
        return self.last, self.linear.weight.t()


def test_module():
    """Buffers stay as they are; what is stored on the module is what eager stores."""
    torch.manual_seed(0)
    model = Predictor()
    x = torch.randn(4, 5)
    expected = [state(t) for t in (*model(x), model.last, model.calls)]
    fast = braze.compile(model)
    for _ in range(2):
        assert [state(t) for t in (*fast(x), model.last, model.calls)] == expected
    assert model.calls.item() == 3 and model.calls._version == 3
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        model.last.add_(1)


def test_versions_after_the_first_call():
    """The capture's own look at a write does not count."""

    def write(x):
        x.view(-1).mul_(2)
        return x.sum()

    fast = braze.compile(write)
    x, y = torch.zeros(3), torch.zeros(3)
    for _ in range(3):
        write(x)
        fast(y)
        assert x._version == y._version and torch.equal(x, y)
