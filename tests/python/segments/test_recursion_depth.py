"""A RecursionError comes at eager's depth, also where frames are carried out piece by piece."""

import asyncio
import sys

import braze
import pytest
import torch


def recursive():
    """A function that calls itself for long, and what says how deep it came."""
    depth = 0

    def descend(k):
        nonlocal depth
        depth += 1
        return 1 if k < 1 else descend(k - 1) * k

    return descend, lambda: depth


def function(descend, x, n):
    try:
        descend(n)
    except RecursionError as error:
        return x + 1, str(error)


def generator(descend, x, n):
    yield x + 1
    yield function(descend, x, n)


async def coroutine(descend, x, n):
    await asyncio.sleep(0)
    return function(descend, x, n)


async def async_generator(descend, x, n):
    yield x + 1
    yield function(descend, x, n)


def of_function(f, *args):
    return f(*args)


def of_generator(f, *args):
    return list(f(*args))


def of_coroutine(f, *args):
    return asyncio.run(f(*args))


def of_async_generator(f, *args):
    async def collect():
        return [value async for value in f(*args)]

    return asyncio.run(collect())


@pytest.mark.parametrize(
    "f, run",
    [
        (function, of_function),
        (generator, of_generator),
        (coroutine, of_coroutine),
        (async_generator, of_async_generator),
    ],
)
@pytest.mark.parametrize("limit", [400, 1500])
def test_depth_is_eagers(f, run, limit):
    def depth_of(f):
        descend, depth = recursive()
        run(f, descend, torch.ones(2), 5000)
        return depth()

    before = sys.getrecursionlimit()
    compiled = braze.compile(f)
    depth_of(f)
    try:
        sys.setrecursionlimit(limit)
        expected = depth_of(f)
        assert limit / 2 < expected < limit
        for _ in range(3):
            assert depth_of(compiled) == expected
        assert depth_of(f) == expected
    finally:
        sys.setrecursionlimit(before)
