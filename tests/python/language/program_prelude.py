"""What the random programs of `programs.py` use: the text stands in front of each of them."""

# ruff: noqa: F401
import collections
import contextlib
import dataclasses
import functools
import itertools
import math
import operator

import torch

LOG = []
TOTAL = 0
SCALE = 2.0
WEIGHT = torch.linspace(-1, 1, 3)


class Box:
    kind = "box"

    def __init__(self, value):
        self.value = value
        self.items = []
        self.tensor = torch.full((2, 3), float(value))

    @property
    def double(self):
        return self.value * 2

    @double.setter
    def double(self, value):
        self.value = value // 2

    def push(self, item):
        self.items.append(item)
        return len(self.items)

    def scaled(self, x, by=1):
        self.value += 1
        return x * self.value + by

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]

    def __call__(self, x):
        return self.tensor + x


class Child(Box):
    kind = "child"

    def push(self, item):
        LOG.append("push")
        return super().push(item) + 1

    def __getattr__(self, name):
        if name == "missing":
            return 5
        raise AttributeError(name)


class Guard:
    def __init__(self, swallow):
        self.swallow = swallow

    def __enter__(self):
        LOG.append("enter")
        return self

    def __exit__(self, kind, error, trace):
        LOG.append("exit" if kind is None else kind.__name__)
        return self.swallow and kind is not None


@contextlib.contextmanager
def noted(items, value):
    items.append(value)
    try:
        yield len(items)
    finally:
        items.append(-value)


def walk(items, x):
    for i, item in enumerate(items):
        x = x + i
        got = yield item
        if got is not None:
            LOG.append(got)
    return x


def through(items, x):
    last = yield from walk(items, x)
    LOG.append("done")
    yield last.sum().dim() if isinstance(last, torch.Tensor) else 0


def total(*values, start=0, **named):
    for value in values:
        start += value
    return start + sum(named.values())


def counted(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        global TOTAL
        TOTAL += 1
        return function(*args, **kwargs)

    return wrapper


@counted
def shifted(x, by=1, *, scale=1):
    return (x + by) * scale


def stubborn(x, n):
    for i in range(4):
        try:
            with noted(LOG, i):
                got = yield x * i
                if got:
                    n += got
        except ValueError as error:
            LOG.append(str(error))
            if n > 3:
                return n
        finally:
            x = x + 1
    return x.sum().dim() + n


def relay(inner):
    try:
        result = yield from inner
    except KeyError:
        result = -1
        yield result
    finally:
        LOG.append("relayed")
    return result


def tree(n, x):
    if n <= 0:
        return 0
    left = yield from tree(n - 1, x)
    yield x * n
    right = 0
    for item in tree(n - 2, x + 1):
        right += 1
        yield item
    return left + right + 1


def averages(x):
    total, count = x, 0
    while count < 5:
        got = yield total / (count + 1)
        if got is not None:
            total = total + got
        count += 1


@contextlib.contextmanager
def swallowing(kind):
    seen = []
    try:
        yield seen
    except kind as error:
        seen.append(type(error))
        LOG.append(f"swallowed {len(seen)}")
    else:
        LOG.append("nothing to swallow")


class Give:
    """Awaited, it gives its value to whoever drives the coroutine."""

    def __init__(self, value):
        self.value = value

    def __await__(self):
        got = yield self.value
        return self.value if got is None else got


async def slow(x, n):
    y = x * n
    try:
        got = await Give(n)
    except ValueError as error:
        LOG.append(str(error))
        return y - 1
    return y.sum() if got == n else y


async def deep(x, n):
    if n <= 0:
        return await Give(x)
    return await deep(x + 1, n - 1) * 2


async def ticks(x, n):
    try:
        for i in range(n):
            got = yield x * i
            if got is not None:
                LOG.append(got)
            await Give(i)
    except ValueError:
        yield x
    finally:
        LOG.append("no more ticks")


class Entering(Guard):
    async def __aenter__(self):
        await Give("entering")
        return self.__enter__()

    async def __aexit__(self, kind, error, trace):
        await Give("leaving")
        return self.__exit__(kind, error, trace)


@contextlib.asynccontextmanager
async def lasting(kind):
    try:
        yield await Give(kind.__name__)
    except kind as error:
        LOG.append(repr(error))
