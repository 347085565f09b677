"""Exceptions, context managers, classes and threads over breaks."""

import sys

import braze
import pytest
import torch
from segmenting import check, four, print, segments, x4
from showing import outcome, same


def test_exception_state_over_segments():
    def f(x):
        try:
            raise ValueError("a")
        except ValueError as error:
            print(repr(sys.exc_info()[1]))
            y = x * 2
            print(error, repr(sys.exc_info()[1]))
            try:
                raise KeyError("b")
            except KeyError:
                y = y + 1
                print(repr(sys.exc_info()[1]))
            print(repr(sys.exc_info()[1]))
        print(sys.exc_info())
        return y * 3

    check(f, four)


def test_bare_raise_in_a_handler():
    def f(x):
        y = x * 2
        try:
            print("t")
            raise ValueError("a")
        except ValueError:
            y = y + 1
            print("h", y.shape)
            raise

    check(f, four)


def test_chained_exceptions():
    def f(x):
        y = x * 2
        try:
            print("t")
            {}["missing"]
        except KeyError as error:
            print("h")
            y = y + 1
            raise RuntimeError("wrapped") from error

    check(f, four)


def test_early_return_out_of_with_and_for():
    class Manager:
        def __enter__(self):
            print("enter")
            return self

        def __exit__(self, *error):
            print("exit", error)

    def f(x, n):
        for i in range(5):
            with Manager():
                try:
                    y = x * 2
                    print("in", i)
                    if i == n:
                        return y + 1
                finally:
                    print("finally")
        return x

    check(f, lambda: (x4.clone(), 0), lambda: (x4.clone(), 3), lambda: (x4.clone(), 9))


def test_a_context_manager_that_swallows():
    class Swallow:
        def __enter__(self):
            print("enter")

        def __exit__(self, kind, error, trace):
            print("exit", kind)
            return True

    def f(x):
        y = x * 2
        with Swallow():
            print("in")
            y = y + 1
            raise ValueError(1)
        return y * 3

    check(f, four)


def test_super_and_properties():
    class Base:
        def scaled(self, x):
            print("base")
            return x * self.scale

        @property
        def scale(self):
            print("scale")
            return 3

    class Derived(Base):
        def scaled(self, x):
            y = x + 1
            print("derived")
            return super().scaled(y) - 1

    thing = Derived()

    def f(x):
        return thing.scaled(x) * 2

    check(f, four)


def test_star_arguments_and_defaults():
    def g(a, /, b=2, *rest, c, d=4, **more):
        y = a * b
        print(rest, c, d, more)
        return y + c

    def f(x):
        y = g(x, c=1)
        y = g(y, 3, 4, 5, c=2, d=6, e=7)
        try:
            g(x)
        except TypeError as error:
            print(error)
        return y.relu()

    check(f, four)


def test_in_place_operations_over_breaks():
    def f(x):
        y = x
        y += 1
        print("a")
        y.mul_(2)
        print(x is y)
        x[0] = 7
        return x, y

    check(f, four)


def test_attributes_over_breaks():
    class Store:
        pass

    def f(x, store):
        store.a = x + 1
        print(sorted(vars(store)))
        store.b = store.a * 2
        del store.a
        print(sorted(vars(store)))
        store.c = [store.b]
        return store.b + store.c[0]

    check(f, lambda: (x4.clone(), Store()))


def test_globals_over_breaks():
    def f(x):
        global counter
        counter = 1
        y = x * counter
        print(counter)
        counter += 1
        y = y + counter
        print(counter)
        return y

    check(f, four)


def test_weak_references_are_not_frozen():
    import weakref

    class Box:
        pass

    kept = []

    def f(x, keep):
        box = Box()
        if keep:
            kept.append(box)
        reference = weakref.ref(box)
        del box
        print("x")
        return reference() is None, x + 1

    check(f, lambda: (x4.clone(), False), lambda: (x4.clone(), True))


def test_first_call_raises_later_ones_are_compiled():
    def f(x, good):
        if not good:
            raise ValueError("bad input")
        return (x * 2 + 1).relu()

    fast = braze.compile(f)
    for good in (False, True, True, False, True):
        assert same(outcome(f, x4, good), outcome(fast, x4, good))
    assert any(e["kind"] != "eager" for e in fast._entries())


def test_grad_mode_changed_between_segments():
    def f(x):
        y = x * 2
        print("a")
        with torch.enable_grad():
            print(torch.is_grad_enabled())
            z = y + 1
            print("b")
        return z * 2, torch.is_grad_enabled()

    check(f, four)


def test_threads_share_segments():
    import threading

    def f(x):
        for i in range(20):
            x = x + 1
            len(str(i).encode())
            time.time()
        return x

    import time

    fast = braze.compile(f)
    wrong = []

    def work():
        with torch.no_grad():
            for _ in range(30):
                if not torch.equal(fast(x4), x4 + 20):
                    wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_interrupt_of_an_endless_loop():
    import _thread
    import threading

    def f(x):
        n = 0
        while x.sum() < 1e9:
            x = x * 1
            n += 1
        return n

    fast = braze.compile(f)
    timer = threading.Timer(1.0, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        fast(x4)


def test_cached_functions_that_call_each_other():
    import functools

    @functools.lru_cache
    def inner(n):
        return n + 1

    @functools.lru_cache
    def outer(n):
        return inner(n) * 2

    def f(x):
        return x * outer(3)

    fast = check(f, four)
    assert segments(fast) == ["f+0: 1 operators, return"]


def test_variables_of_functions_with_the_same_value(capfd):
    def f(x, n):
        for i in range(3):
            x = x + sum(j > i for j in (1, 2))
        n = int(x.sum().item() * 0) + n

        def add():
            nonlocal n
            n += 1
            return n

        return x * add(), n, i

    check(f, lambda: (torch.ones(4), 2))
    assert "Please report" not in capfd.readouterr().err


@pytest.mark.parametrize("grad", (False, True))
def test_a_break_in_inference_mode(grad):
    def inside(x):
        with torch.inference_mode():
            y = x * 2
            total = float(y.sum())
            z = y + total
        return z, torch.is_inference_mode_enabled()

    @torch.inference_mode()
    def around(x):
        y = x * 2
        print("text")
        return y * 3, torch.is_inference_mode_enabled()

    for f in (inside, around):
        fast = braze.compile(f)
        for _ in range(3):
            with torch.set_grad_enabled(grad):
                expected, got = outcome(f, *four()), outcome(fast, *four())
            assert expected[1] == got[1] and same(expected[0][1], got[0][1])
        assert not torch.is_inference_mode_enabled() and not torch.ones(2).is_inference()
