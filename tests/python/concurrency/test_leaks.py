"""Reference counts and memory over many calls. BRAZE_LEAK_CALLS: how many of each kind."""

import gc
import os
import sys

import braze
import pytest
import torch

CALLS = int(os.environ.get("BRAZE_LEAK_CALLS", 20_000))


class Holder:
    def __init__(self):
        self.count = 0


def whole(x, h):
    return torch.relu(x + 1) * 2


def breaks(x, h):
    y = x + 1
    if y.sum() > 1e9:
        return y
    return y * 2


def raises(x, h):
    y = x + 1
    h.count = 1
    raise ValueError("always")


def raises_after_a_break(x, h):
    y = x + 1
    if y.sum() < 1e9:
        raise KeyError("data")
    return y


def writes(x, h):
    h.count += 1
    h.last = x * 2
    return h.last


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def call(function, x, h):
    try:
        function(x, h)
    except (ValueError, KeyError):
        pass


@pytest.mark.parametrize("function", [whole, breaks, raises, raises_after_a_break, writes])
def test_calls(function):
    fast = braze.compile(function, dynamic=False)
    x, h = torch.randn(8), Holder()
    for _ in range(200):
        call(fast, x, h)
        h.count = 0  # a counter in a guard would compile again and again
    gc.collect()
    counts = [sys.getrefcount(o) for o in (x, h, function, fast, None.__class__, ValueError)]
    objects, memory = len(gc.get_objects()), resident()
    for _ in range(CALLS):
        call(fast, x, h)
        h.count = 0
    gc.collect()
    assert [
        sys.getrefcount(o) for o in (x, h, function, fast, None.__class__, ValueError)
    ] == counts
    assert abs(len(gc.get_objects()) - objects) < 100
    assert resident() - memory < 8 << 20


def test_calls_between_recompiles():
    def f(x):
        y = x * 2
        return y + 1 if y.sum() > 0 else y - 1

    fast = braze.compile(f, dynamic=False)
    xs = [torch.ones(n) for n in range(2, 6)]

    def rounds(count):
        for _ in range(count):
            fast.reset()
            for x in xs:
                for _ in range(CALLS // 200):
                    fast(x)
        gc.collect()

    rounds(4)
    counts = [sys.getrefcount(o) for o in (f, fast, *xs)]
    objects, memory = len(gc.get_objects()), resident()
    rounds(50)
    assert [sys.getrefcount(o) for o in (f, fast, *xs)] == counts
    assert abs(len(gc.get_objects()) - objects) < 100
    assert resident() - memory < 16 << 20


def test_recompiles_and_resets():
    def f(x):
        y = x * 2
        return y + 1 if y.sum() > 0 else y - 1

    def rounds(count):
        for _ in range(count):
            fast = braze.compile(f, dynamic=False, recompile_limit=3)
            for n in range(2, 6):
                fast(torch.ones(n))
            fast.reset()
            fast(torch.ones(3))
        gc.collect()

    rounds(5)
    count, objects, memory = sys.getrefcount(f), len(gc.get_objects()), resident()
    rounds(40)
    assert sys.getrefcount(f) == count
    assert abs(len(gc.get_objects()) - objects) < 100
    assert resident() - memory < 32 << 20


def test_a_compiled_function_goes_with_what_it_holds():
    import weakref

    class Model(torch.nn.Module):
        def forward(self, x):
            return x * 2

    model = Model()
    fast = braze.compile(model)
    fast(torch.ones(3))
    gone = weakref.ref(model)
    del model, fast
    gc.collect()
    assert gone() is None
