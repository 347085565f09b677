"""Others that watch or evaluate frames: sys.settrace, sys.setprofile, debuggers, torch.compile."""

import bdb
import subprocess
import sys

import braze
import pytest
import torch
from support import entries, same

X = torch.randn(4, 3)


def helper(x):
    y = x + 1
    return y * 2


def f(x):
    z = helper(x)
    if z.sum() > 1e9:
        return z
    return torch.relu(z)


@pytest.mark.parametrize("first", ["compiled", "traced"])
def test_settrace(first):
    fast = braze.compile(f)
    if first == "compiled":
        same(fast(X), f(X))
    lines = []

    def trace(frame, event, arg):
        if frame.f_code.co_filename == __file__:
            lines.append((frame.f_code.co_name, event))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        result = fast(X)
    finally:
        sys.settrace(before)
    same(result, f(X))
    same(fast(X), f(X))


def test_setprofile():
    fast = braze.compile(f)
    events = []

    def profile(frame, event, arg):
        events.append(event)

    for _ in range(2):
        before = sys.getprofile()
        sys.setprofile(profile)
        try:
            result = fast(X)
        finally:
            sys.setprofile(before)
        same(result, f(X))
    assert events


def test_debugger_steps_through_what_runs_in_eager():
    class Steps(bdb.Bdb):
        def __init__(self):
            super().__init__()
            self.lines = []

        def user_line(self, frame):
            self.lines.append(frame.f_code.co_name)
            self.set_step()

    for compiled_before in (False, True):
        fast = braze.compile(f)
        if compiled_before:
            fast(X)
        steps = Steps()
        result = steps.runcall(fast, X)
        same(result, f(X))
        same(fast(X), f(X))


def test_tracer_that_raises():
    fast = braze.compile(f)

    def trace(frame, event, arg):
        if frame.f_code is f.__code__ or frame.f_code is helper.__code__:
            raise RuntimeError("from the tracer")
        return None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        fast(X)
    except RuntimeError as error:
        assert "from the tracer" in str(error)
    finally:
        sys.settrace(before)
    same(fast(X), f(X))


TORCH_COMPILE = """
import torch, braze
torch.set_grad_enabled(False)
x = torch.randn(4, 3)

def f(x):
    return torch.relu(x + 1) * 2

def g(x):
    y = x - 1
    return y * fast(x)

fast = braze.compile(f)
theirs = torch.compile(g, backend="eager")
for _ in range(3):  # Braze's function inside a function that Dynamo compiles
    torch.testing.assert_close(theirs(x), (x - 1) * f(x))
assert len(fast._entries()) >= 1

inner = torch.compile(f, backend="eager")
ours = braze.compile(lambda x: inner(x) + 1)
for _ in range(3):  # Dynamo's inside ours
    torch.testing.assert_close(ours(x), f(x) + 1)

for n in range(2, 6):  # side by side, each compiling
    y = torch.randn(n)
    torch.testing.assert_close(fast(y), f(y))
    torch.testing.assert_close(inner(y), f(y))
    torch.testing.assert_close(torch.compile(braze.compile(f), backend="eager")(y), f(y))
print("ok")
"""


def test_beside_and_inside_and_around_torch_compile():
    done = subprocess.run(
        [sys.executable, "-c", TORCH_COMPILE], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.strip() == "ok", done.stdout + done.stderr


def test_coverage_measures_eager_code(tmp_path):
    coverage = pytest.importorskip("coverage", reason="the other evaluator is coverage's")
    cover = coverage.Coverage(data_file=str(tmp_path / "data"))
    cover.start()
    try:
        fast = braze.compile(f)
        same(fast(X), f(X))
        same(fast(X), f(X))
    finally:
        cover.stop()
    assert entries(fast)
