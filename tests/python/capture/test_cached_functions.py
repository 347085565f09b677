"""functools.lru_cache: a cached result stays, whatever becomes of what it was computed from."""

import functools
import logging

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


def test_what_is_said_once_is_said_once(capsys):
    def make():
        @functools.lru_cache(None)
        def say_once(*words):
            print(*words)

        class Speaker:
            once = say_once

            def __repr__(self):
                return "speaker"

        speaker = Speaker()

        def speak(x):
            say_once("first", x.dim())
            speaker.once("second")
            say_once("first", x.dim())
            return x * 2

        return speak

    said = []
    for wrap in (lambda f: f, lambda f: braze.compile(f, fullgraph=True)):
        function = wrap(make())
        for _ in range(3):
            torch.testing.assert_close(function(X), X * 2)
        said.append(capsys.readouterr().out.splitlines())
    assert said[0] == said[1] == ["first 1", "speaker second"]


def test_a_logger_that_warns_once():
    records = []

    def make():
        logger = logging.Logger("once")

        @functools.lru_cache(None)
        def warn_once(text):
            logger.warning(text)

        handler = logging.Handler()
        handler.emit = records.append
        logger.addHandler(handler)

        class Warns:
            @property
            def factor(self):
                warn_once(f"of {type(self).__name__}")
                return 2

        warns = Warns()
        return lambda x: x * warns.factor

    counts = []
    for wrap in (lambda f: f, lambda f: braze.compile(f, fullgraph=True)):
        function = wrap(make())
        for _ in range(3):
            torch.testing.assert_close(function(X), X * 2)
        counts.append([r.getMessage() for r in records])
        records.clear()
    assert counts == [["of Warns"], ["of Warns"]]
