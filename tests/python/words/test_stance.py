"""`braze.set_stance`: as a call, as a block, as a decorator, in threads."""

import threading

import braze
import pytest
import torch
from support import entries, same

X = torch.ones(3)


@pytest.fixture(autouse=True)
def _default():
    yield
    braze.set_stance("default")


def calls_of(compiled):
    return sum(entry["calls"] for entry in entries(compiled))


@pytest.fixture
def fast():
    compiled = braze.compile(lambda x: x * 2, dynamic=False)
    compiled(X)
    return compiled


def test_force_eager(fast):
    before = calls_of(fast)
    with braze.set_stance("force_eager"):
        same(fast(X), X * 2)
    assert calls_of(fast) == before
    fast(X)
    assert calls_of(fast) == before + 1


def test_eager_on_recompile(fast):
    with braze.set_stance("eager_on_recompile"):
        before = calls_of(fast)
        same(fast(X), X * 2)
        assert calls_of(fast) == before + 1
        same(fast(torch.ones(5)), torch.ones(5) * 2)
    assert len(entries(fast)) == 1


def test_fail_on_recompile(fast):
    with braze.set_stance("fail_on_recompile"):
        same(fast(X), X * 2)
        with pytest.raises(RuntimeError, match=r"x\.size\(0\): 3 -> 5 \[E111\]"):
            fast(torch.ones(5))
        with pytest.raises(RuntimeError, match="has not been compiled yet"):
            braze.compile(lambda x: x + 1)(X)


def test_call_is_for_the_process(fast):
    braze.set_stance("force_eager")
    before = calls_of(fast)
    thread = threading.Thread(target=fast, args=(X,))
    thread.start()
    thread.join()
    assert calls_of(fast) == before
    braze.set_stance("default")
    fast(X)
    assert calls_of(fast) == before + 1


def test_block_is_for_its_thread(fast):
    entered, leave = threading.Event(), threading.Event()

    def other():
        with braze.set_stance("force_eager"):
            entered.set()
            leave.wait()

    thread = threading.Thread(target=other)
    thread.start()
    entered.wait()
    before = calls_of(fast)
    fast(X)
    assert calls_of(fast) == before + 1
    leave.set()
    thread.join()


def test_blocks_nest_and_end_with_an_exception(fast):
    before = calls_of(fast)
    with braze.set_stance("force_eager"):
        with braze.set_stance("default"):
            fast(X)
        assert calls_of(fast) == before + 1
        fast(X)
        assert calls_of(fast) == before + 1
        with pytest.raises(ZeroDivisionError), braze.set_stance("default"):
            1 / 0
        fast(X)
    assert calls_of(fast) == before + 1
    block = braze.set_stance("force_eager")
    with block, block:
        fast(X)
    fast(X)
    assert calls_of(fast) == before + 2


def test_decorator(fast):
    @braze.set_stance("force_eager")
    def f(n):
        """Doc."""
        return f(n - 1) if n else fast(X)

    before = calls_of(fast)
    same(f(2), X * 2)
    assert calls_of(fast) == before and f.__doc__ == "Doc."
    fast(X)
    assert calls_of(fast) == before + 1


def test_inside_compiled_code():
    """A stance that is set in the middle of a compiled function holds from there on."""
    inner = braze.compile(lambda x: x + 1)
    inner(X)

    def f(x):
        y = x * 2
        with braze.set_stance("force_eager"):
            y = inner(y)
        return y

    same(braze.compile(f)(X), X * 2 + 1)
    before = calls_of(inner)
    inner(X)
    assert calls_of(inner) == before + 1


def test_unknown_stance():
    with pytest.raises(ValueError, match=r"unknown stance 'fast': use one of 'default'.*E110"):
        braze.set_stance("fast")
