"""`torch.autocast` as a decorator, and in a `with` of one that was made outside, against eager."""

import warnings

import braze
import pytest
import torch
from support import entries, reasons, same

X = torch.linspace(-2, 3, 12).reshape(3, 4)
W = torch.linspace(-1, 1, 16).reshape(4, 4)
BFLOAT = torch.bfloat16


@torch.autocast("cpu", dtype=BFLOAT)
def product(x):
    return x @ W


@torch.autocast("cpu", enabled=False)
def plain(x):
    return x @ W


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    @torch.autocast("cpu", enabled=False)
    def single(self, x):
        return self.linear(x)

    @torch.autocast("cpu", dtype=BFLOAT)
    def forward(self, x, scale=1.0):
        return self.linear(x).sin() * scale, self.single(x)


@torch.autocast("cpu", dtype=BFLOAT)
@torch.autocast("cpu", enabled=False)
def twice_decorated(x):
    return x @ W


OUTSIDE = torch.autocast("cpu", dtype=BFLOAT)


def within(x):
    with OUTSIDE:
        y = x @ W
    return y, x @ W


def raised(x):
    try:
        with OUTSIDE:
            y = x @ W
            raise ValueError("inside")
    except ValueError as error:
        return y, str(error), x @ W


PROGRAMS = {
    "a function": product,
    "switched off": plain,
    "a function in another": lambda x: (product(x), x @ W, plain(x)),
    "off in on": lambda x: torch.autocast("cpu", dtype=BFLOAT)(lambda y: (plain(y), y @ W))(x),
    "decorated twice": twice_decorated,
    "decorated inside": lambda x: torch.autocast("cpu", dtype=BFLOAT)(lambda y: y @ W)(x),
    "with": within,
    "raised": raised,
    "a method": Model(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_captured_as_a_whole(name):
    fn = PROGRAMS[name]
    fast = braze.compile(fn)
    for _ in range(3):
        same(fast(X), fn(X), rtol=2e-2, atol=2e-2)
    assert not reasons(fast)
    assert len(entries(fast)) == 1


def state_of(context):
    return {name: value for name, value in vars(context).items() if name.startswith("prev")}


def test_the_state_around_it_decides():
    fast = braze.compile(within)
    for dtype, enabled in ((BFLOAT, False), (torch.float16, True), (BFLOAT, True), (BFLOAT, False)):
        outcomes, notes = [], []
        for call in (fast, within):
            with torch.autocast("cpu", dtype=dtype, enabled=enabled):
                outcomes.append(call(X))
            notes.append(state_of(OUTSIDE))
        same(*outcomes, rtol=2e-2, atol=2e-2)
        assert notes[0] == notes[1]


def test_what_it_has_noted_is_as_in_eager():
    """Also where the compiled code is not captured again."""
    fast = braze.compile(within)
    fast(X)
    for enabled in (True, False):
        with torch.autocast("cpu", dtype=torch.float16, enabled=enabled):
            within(X)
            noted = state_of(OUTSIDE)
        OUTSIDE.prev = None
        with torch.autocast("cpu", dtype=torch.float16, enabled=enabled):
            fast(X)
        assert state_of(OUTSIDE) == noted
        OUTSIDE.prev = None
        with torch.autocast("cpu", dtype=torch.float16, enabled=enabled):
            fast(X)
        assert state_of(OUTSIDE) == noted


def test_one_that_is_changed():
    context = torch.autocast("cpu", dtype=BFLOAT)

    def fn(x):
        with context:
            return x @ W

    fast = braze.compile(fn)
    for enabled, dtype in ((True, BFLOAT), (False, BFLOAT), (True, torch.float16), (True, BFLOAT)):
        context._enabled, context.fast_dtype = enabled, dtype
        ours, theirs = fast(X), fn(X)
        assert ours.dtype is theirs.dtype
        same(ours, theirs, rtol=2e-2, atol=2e-2)


def test_one_that_the_code_changes():
    context = torch.autocast("cpu", dtype=BFLOAT)

    def fn(x, enabled):
        context._enabled = enabled
        with context:
            return x @ W

    fast = braze.compile(fn)
    for enabled in (True, False, True):
        same(fast(X, enabled), fn(X, enabled), rtol=2e-2, atol=2e-2)


def test_a_break_inside():
    @torch.autocast("cpu", dtype=BFLOAT)
    def broken(x):
        y = x @ W
        braze.graph_break()
        return y, y.float() @ W

    def fn(x):
        return broken(x), product(x), x @ W

    for program in (broken, fn):
        fast = braze.compile(program)
        for _ in range(3):
            same(fast(X), program(X), rtol=2e-2, atol=2e-2)
    assert not torch.is_autocast_enabled("cpu")


def test_entered_by_hand():
    """What its end sets back was noted before the call, or is set back after it."""
    context = torch.autocast("cpu", dtype=BFLOAT)

    def leaves(x):
        context.__exit__(None, None, None)
        return x @ W

    def enters(x):
        context.__enter__()
        return x @ W

    for fn in (leaves, enters):
        fast = braze.compile(fn)
        for _ in range(3):
            outcomes = []
            for call in (fast, fn):
                if fn is leaves:
                    context.__enter__()
                outcomes.append((call(X), torch.is_autocast_enabled("cpu")))
                if fn is enters:
                    context.__exit__(None, None, None)
                assert not torch.is_autocast_enabled("cpu")
            same(*outcomes, rtol=2e-2, atol=2e-2)


@torch.autocast("cpu", dtype=BFLOAT)
def recursive(x, depth):
    y = x @ W
    if depth:
        braze.graph_break()
        y = y + recursive(x, depth - 1)
    return y


def test_one_that_is_entered_twice():
    """Its end sets back what the inner call has noted, so that eager stays under autocast."""

    def outcome(call, depth):
        try:
            return call(X, depth), torch.is_autocast_enabled("cpu")
        finally:
            torch.set_autocast_enabled("cpu", False)
            torch.clear_autocast_cache()

    fast = braze.compile(recursive)
    for depth in (0, 1, 0, 1, 2, 2, 1):
        same(outcome(fast, depth), outcome(recursive, depth), rtol=2e-2, atol=2e-2)


@torch.enable_grad()
def test_gradients():
    model = Model()
    fast = braze.compile(model)
    for scale in (1.0, 2.0, 0.5, 0.25):
        grads = []
        for call in (fast, model):
            x = X.clone().requires_grad_()
            model.zero_grad()
            sum(y.float().sum() for y in call(x, scale)).backward()
            grads.append((x.grad, model.linear.weight.grad))
        same(*grads, rtol=2e-2, atol=2e-2)
    assert len(entries(fast)) == 2
    assert not reasons(fast)


def test_of_an_absent_device():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        decorated = torch.autocast("cuda", enabled=False)(lambda x: x @ W)
        older = torch.cuda.amp.autocast(enabled=False)(lambda x: x @ W)
    for fn in (decorated, older):
        fast = braze.compile(fn)
        same(fast(X), fn(X))
        assert not reasons(fast)
