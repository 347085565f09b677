"""Sizes and ints that vary behind a break."""

import torch
from segmenting import check, four, print, segments


def test_sizes_that_vary_behind_a_break():
    def f(x):
        y = x * 2
        print("a")
        z = (y + x.shape[0]).relu().sum(0)
        print(z.shape)
        return z - y.mean(0)

    calls = [lambda n=n: (torch.arange(n * 4.0).reshape(n, 4),) for n in (5, 7, 9, 12, 3, 30)]
    fast = check(f, *calls)
    assert len(segments(fast)) <= 7


def test_the_number_of_an_iteration_is_a_symbol():
    def f(x):
        for i in range(12):
            x = x + i
            print(end=".")
            x = x * 2
        return x

    fast = check(f, four)
    assert len(segments(fast)) <= 7
    assert not any("CPython" in line for line in segments(fast)[1:4])


def test_a_cache_that_grows():
    def f(x, steps):
        cache = x
        for step in range(steps):
            new = cache.mean(0, keepdim=True) + step
            print(new.shape)
            cache = torch.cat([cache, new])
        return cache

    fast = check(f, lambda: (torch.ones(3, 4), 10), lambda: (torch.ones(5, 4), 4))
    assert len(segments(fast)) <= 14
