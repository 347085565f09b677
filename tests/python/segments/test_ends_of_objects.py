"""Objects whose end the program notices: finalisers that break, weak references to tensors."""

import functools
import os
import weakref

import braze
import pytest
import torch

LOG = []
X = torch.arange(6.0).reshape(2, 3)


class Reads:
    def __init__(self, x):
        self.x = x

    def __del__(self):
        LOG.append("end")
        LOG.append(float(self.x.sum()))


def deleted(x):
    held = Reads(x + 1)
    y = x * 2
    del held
    LOG.append("after")
    return y


def replaced(x):
    held = Reads(x + 1)
    held = Reads(x + 2)
    LOG.append("after")
    held = None
    return x - 1, held


def left_to_the_return(x):
    held = Reads(x + 1)
    y = held.x * 2
    LOG.append("before")
    return y


def dropped_by_a_callee(x):
    y = left_to_the_return(x)
    LOG.append("behind")
    return y + 1


def reference_with_callback(x):
    y = x + 1
    reference = weakref.ref(y, lambda r: LOG.append("dead"))
    LOG.append(reference() is y)
    z = y * 2
    del y
    LOG.append(reference() is None)
    return z


def plain_reference(x):
    y = x + 1
    reference = weakref.ref(y)
    z = y * 2
    del y
    LOG.append(reference() is None)
    return z


class Keeps:
    pass


def callback_that_breaks(x):
    kept = Keeps()
    reference = weakref.ref(kept, lambda r: LOG.append(float((x * 3).sum())))
    y = x + 1
    del kept
    LOG.append(reference() is None)
    return y


def observed(f, x):
    LOG.clear()
    result = f(x)
    return result, list(LOG)


@pytest.mark.parametrize(
    "f",
    [
        deleted,
        replaced,
        left_to_the_return,
        dropped_by_a_callee,
        reference_with_callback,
        plain_reference,
        callback_that_breaks,
    ],
    ids=lambda f: f.__name__,
)
@pytest.mark.parametrize("backend", ["braze", "aten"])
def test_ends_come_where_they_come_in_eager(f, backend, capfd):
    fast = braze.compile(f, backend=backend)
    for shift in (0, 0, 1):
        (expected, log), (actual, seen) = observed(f, X + shift), observed(fast, X + shift)
        torch.testing.assert_close(actual, expected)
        assert seen == log
    assert "ignored in" not in capfd.readouterr().err


@pytest.mark.parametrize(
    "f",
    [lambda x: x.cumsum(0), lambda x: torch.sort(x)[0], lambda x: torch.topk(x, 2)[1]],
    ids=["cumsum", "sort", "topk"],
)
@pytest.mark.parametrize("backend", ["braze", "aten"])
def test_results_belong_to_the_caller_alone(f, backend):
    fast = braze.compile(f, backend=backend)
    fast(X)
    result = fast(X)
    reference = weakref.ref(result)
    del result
    assert reference() is None


def test_a_cache_that_is_made_anew_at_each_call_holds_nothing_of_the_last_one():
    def f(x):
        @functools.lru_cache(maxsize=None)
        def cached(k):
            LOG.append(k)
            return x * k

        first = cached(2)
        LOG.append(float(x.sum()))
        return first + cached(2) + cached(3)

    fast = braze.compile(f, backend="aten")
    for shift in range(4):
        (expected, log), (actual, seen) = observed(f, X + shift), observed(fast, X + shift)
        torch.testing.assert_close(actual, expected)
        assert seen == log


class Counting:
    """An iterator whose end is noticed."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if not self.n:
            raise StopIteration
        self.n -= 1
        return self.n

    def __del__(self):
        LOG.append("iterator")


def noted(name):
    try:
        yield 1
        yield 2
    finally:
        LOG.append(name)


def by_an_exception(x):
    try:
        for i in noted("generator"):
            LOG.append(i)
            os.getpid()
            x = x @ x
    except RuntimeError:
        LOG.append("handled")
    return x + 1


def by_exhaustion(x):
    for i in Counting(2):
        os.getpid()
        x = x + i
    LOG.append("behind the loop")
    return x


def by_return(x):
    first = noted("first")
    next(first)
    os.getpid()
    second = noted("second")
    next(second)
    return x + 1


@pytest.mark.parametrize("function", (by_an_exception, by_exhaustion, by_return))
def test_objects_end_where_the_frame_lets_go_of_them(function):
    fast = braze.compile(function)
    LOG.clear()
    expected = function(X)
    log = list(LOG)
    for _ in range(3):
        LOG.clear()
        assert torch.equal(fast(X), expected)
        assert log == LOG
