"""Nothing is left of generators, however they end."""

import gc
import pathlib
import subprocess
import sys

import braze
import pytest
import torch

X = torch.tensor([0.5, -1.0, 2.0])


def steps(x, n):
    try:
        for k in range(n):
            yield x * k + 1
            x = x + 1
    except ValueError:
        yield x * 3
    finally:
        y = x * 2
    return y


def outer(x, n):
    yield (yield from steps(x, n))


async def later(x):
    return x * 2 + 1


def ends(make, k):
    made = make(X, 2)
    way = k % 5
    if way == 0:
        list(made)
    elif way == 1:
        next(made)
    elif way == 2:
        next(made)
        made.close()
    elif way == 3:
        next(made)
        made.throw(ValueError())
    else:
        next(made)
        try:
            made.throw(KeyError())
        except KeyError:
            pass


def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1])


def hundred_thousand_generators():
    fast, whole, coroutine = braze.compile(steps), braze.compile(outer), braze.compile(later)

    def rounds(count):
        for k in range(count):
            ends(fast, k)
            if k % 10 == 0:
                ends(whole, k // 10)
                with pytest.raises(StopIteration):
                    coroutine(X).send(None)

    def counts():
        gc.collect()
        watched = (X, steps, steps.__code__, outer.__code__, later.__code__, fast, whole)
        return [sys.getrefcount(o) for o in watched]

    rounds(3000)
    before, objects, pages = counts(), len(gc.get_objects()), resident()
    rounds(100_000)
    assert counts() == before
    assert abs(len(gc.get_objects()) - objects) < 100
    assert resident() - pages < 2000  # pages of 4 KiB


def test_hundred_thousand_generators():
    """In a process of their own: what other tests leave behind moves the memory of this one."""
    subprocess.run(
        [sys.executable, "-c", "import test_generator_leaks as t; t.hundred_thousand_generators()"],
        cwd=pathlib.Path(__file__).parent,
        check=True,
    )
