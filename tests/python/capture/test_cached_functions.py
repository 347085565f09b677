"""functools.lru_cache: a cached result stays, whatever becomes of what it was computed from."""

import functools

import braze
import pytest
import torch

X = torch.ones(3)
TABLE = [5]
NUMBER = 5


class Holder:
    number = 5


HOLDER = Holder()


def make():
    @functools.lru_cache(None)
    def by_item(k):
        return k + TABLE[0]

    @functools.lru_cache(None)
    def by_global(k):
        return k + NUMBER

    @functools.lru_cache(None)
    def by_attribute(holder):
        return holder.number

    @functools.lru_cache(None)
    def pure(k):
        return k * 2

    def changes_between(x):
        y = by_item(2)
        TABLE[0] += 1
        return x * y * by_item(2)

    def changes_before(x):
        HOLDER.number += 1
        return x * by_attribute(HOLDER)

    def changes_behind(x):
        y = by_attribute(HOLDER)
        HOLDER.number += 1
        return x * y

    return {
        "item": (lambda x: x * by_item(2), by_item),
        "global": (lambda x: x * by_global(2), by_global),
        "attribute": (lambda x: x * by_attribute(HOLDER), by_attribute),
        "pure": (lambda x: x * pure(2) * pure(3), pure),
        "between": (changes_between, by_item),
        "before": (changes_before, by_attribute),
        "behind": (changes_behind, by_attribute),
    }


def seen(name, compiled):
    global NUMBER
    function, cached = make()[name]
    function = braze.compile(function) if compiled else function
    told = []
    for number in (5, 5, 9, 5, 9):
        TABLE[0] = NUMBER = HOLDER.number = number
        told.append((float(function(X)[0]), TABLE[0], HOLDER.number, cached.cache_info()))
    return told


@pytest.mark.parametrize("name", make())
def test_results_and_the_cache(name):
    assert seen(name, True) == seen(name, False)
