"""A function goes on in compiled code behind a graph break."""

import builtins
import gc
import sys
import warnings

import braze
import pytest
import torch
from segmenting import check, outcome, same, segments


@braze.disable
def print(*values, **options):
    """A break, which the builtin, put off to the end of a segment, is not."""
    builtins.print(*values, **options)


x4 = torch.tensor([0.5, -1.0, 2.0, 3.0])


def four():
    return (x4.clone(),)


# --- Where a break stands --------------------------------------------------------------------


def test_straight_line():
    def f(x):
        y = x * 2 + 1
        print("a", float(y.sum()))
        z = y.relu() - 3
        print("b", z.shape)
        return z + y

    assert segments(check(f, four)) == [
        "f+0: 3 operators, break at +2",
        "f+2: CPython, break at +2",
        "f+2: 2 operators, break at +4",
        "f+4: 1 operators, return",
    ]


def test_in_for():
    def f(x):
        for i in range(5):
            x = x + 1
            print(i)
            x = x * 2
        return x - 1

    assert segments(check(f, four)) == [
        "f+0: 1 operators, break at +3",
        "f+1: 1 operators, break at +3",
        "f+3: 1 operators, break at +1",
        "f+5: 1 operators, return",
    ]


def test_one_entry_serves_all_iterations():
    def f(x):
        for i in range(40):
            x = x + 1
            print(i, end=" ")
        return x

    fast = check(f, four)
    assert len(fast._entries()) <= 5
    assert max(e["calls"] for e in fast._entries()) >= 3 * 38


def test_in_while_on_a_tensor():
    def f(x):
        n = 0
        while x.sum() < 40:
            x = x * 2
            n += 1
        return x, n > 2

    fast = check(f, four, lambda: (x4 * 3,), lambda: (x4 + 100,), limit=20)
    assert segments(fast)[0] == "f+0: 2 operators, break at +2"


def test_branch_on_a_tensor():
    def f(x):
        y = x * 2
        if y.sum() > 0:
            z = y + 1
        elif y.max() > 100:
            z = y - 7
        else:
            z = y - 1
        return z.relu()

    fast = check(f, four, lambda: (-x4,), lambda: (torch.tensor([200.0, -900.0, 1, 1]),))
    assert "f+2: 2 operators, return" in segments(fast) or len(segments(fast)) >= 4


def test_in_with():
    class Manager:
        def __enter__(self):
            print("enter")
            return 3

        def __exit__(self, *error):
            print("exit", error[0])

    manager = Manager()

    def f(x):
        y = x + 1
        with manager as n:
            y = y * n
            print("inside")
            y = y.relu()
        return y - 1

    fast = check(f, four)
    lines = [line for line in segments(fast) if line.startswith("f+")]
    assert sum("operators" in line for line in lines) >= 3


def test_in_with_no_grad():
    def f(x):
        with torch.no_grad():
            y = x * 2
            print("inside")
            y = y + 1
        return y * 3

    check(f, four)


def test_in_try():
    def f(x, fails):
        y = x * 2
        try:
            print("try")
            if fails:
                raise ValueError("no")
            y = y + 1
        except ValueError as error:
            print("caught", error)
            y = y - 1
        finally:
            print("finally")
            y = y * 3
        return y.relu()

    fast = check(f, lambda: (*four(), False), lambda: (*four(), True))
    assert sum("operators" in line for line in segments(fast)) >= 4


def test_exception_of_a_call_is_caught_and_the_handler_is_compiled():
    def risky(x):
        print("risky")
        raise KeyError("k")

    def f(x):
        y = x * 2
        try:
            y = risky(y)
        except KeyError:
            y = y * 3 + 1
        return y - 1

    fast = check(f, four)
    assert sum("operators" in line for line in segments(fast)) >= 2


def test_traceback_lines():
    def inner(x):
        y = x * 2
        print("inner")
        return y.undefined_attribute

    def f(x):
        y = x + 1
        print("f")
        y = y + inner(y)
        return y

    check(f, four)


def test_in_comprehension():
    def f(x):
        def g(i):
            print(i)
            return x * i

        parts = [g(i) + 1 for i in (1, 2, 3)]
        return torch.stack(parts).sum(0)

    check(f, four)


def test_in_generator_that_a_loop_consumes():
    def numbers(x):
        for i in range(3):
            print("yield", i)
            yield x * i + 1

    def f(x):
        total = x * 0
        for y in numbers(x):
            total = total + y * 2
            print("got")
        return total * 2

    check(f, four)


def test_fifty_breaks():
    lines = ["def f(x):"]
    for i in range(50):
        lines += [f"    x = x * 1.01 + {i}", f"    print({i})"]
    lines.append("    return x")
    namespace = {"print": print}
    exec("\n".join(lines), namespace)
    fast = check(namespace["f"], four)
    assert len(segments(fast)) == 51
    assert all("2 operators, break" in line for line in segments(fast)[:-1])


def test_in_a_nested_module():
    class Inner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a = torch.nn.Linear(4, 4)
            self.b = torch.nn.Linear(4, 4)

        def forward(self, x):
            y = self.a(x).relu()
            print("inner", self.training)
            return self.b(y).sigmoid()

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()
            self.head = torch.nn.Linear(4, 2)

        def forward(self, x, scale=2.0):
            x = x * scale + 1
            return self.head(self.inner(x)).tanh()

    module = Outer().eval()
    fast = check(module, four, compiled=braze.compile(module))
    lines = [line for line in segments(fast) if "forward" in line]
    assert lines == [
        "Outer.forward+0: 2 operators, break at +2",
        "Outer.forward+2: 5 operators, return",
        "Inner.forward+0: 5 operators, break at +2",
        "Inner.forward+2: 5 operators, return",
    ]


def test_callee_is_captured():
    def helper(x, *rest, scale=2, **more):
        y = x * scale
        print("helper", rest, more)
        return y.relu() + 1

    def f(x):
        a = helper(x)
        b = helper(a, 1, 2, scale=3, other=4)
        c = helper(*(b, 5), **{"scale": 4})
        return a + b + c

    fast = check(f, four)
    assert sum(line.startswith("helper") and "operators" in line for line in segments(fast)) >= 2


# --- State -----------------------------------------------------------------------------------


def test_cells_and_nonlocal():
    def f(x):
        count = 0
        seen = []

        def note(v):
            nonlocal count
            count += 1
            print(count)
            seen.append(v + count)

        note(x * 2)
        y = x + count
        note(y)
        return y * count, seen

    check(f, four)


def test_lists_and_dicts_over_breaks():
    def f(x, store):
        store.append(x + 1)
        print(len(store))
        store.append(store[-1] * 2)
        d = {"a": store[0]}
        print(list(d))
        d["b"] = d["a"] + 1
        return d, store[1:]

    check(f, lambda: (x4.clone(), [x4 * 3]))


def test_unset_and_deleted_locals():
    def f(x, flag):
        if flag:
            y = x + 1
        print("a")
        z = x * 2
        del x
        print("b")
        if flag:
            return y + z
        return y

    check(f, lambda: (x4.clone(), True), lambda: (x4.clone(), False))


def test_objects_are_released_as_in_eager():
    def f(x):
        y = x * 2
        held = Held()
        print(alive[0])
        del held
        print(alive[0])
        return y + 1

    alive = [0]

    class Held:
        def __init__(self):
            alive[0] += 1

        def __del__(self):
            alive[0] -= 1

    check(f, four)
    gc.collect()
    assert alive == [0]


def test_frame_is_the_real_one():
    def look():
        frame = sys._getframe(1)
        print(frame.f_code.co_name, frame.f_lineno - frame.f_code.co_firstlineno)
        print(sorted(frame.f_locals), frame.f_back.f_code.co_name)
        return frame.f_code

    def f(x):
        y = x * 2
        code = look()
        z = y + 1
        return z, code is function.__code__

    function = f
    check(f, four)


def test_warnings_name_the_caller():
    def f(x):
        y = x + 1
        warnings.warn("mind", stacklevel=1)
        return y * 2

    fast = braze.compile(f)
    for call in (f, fast, fast):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call(x4)
        assert [w.lineno for w in caught] == [f.__code__.co_firstlineno + 2]


def test_recursion_through_the_compiled_function():
    def f(x, n):
        y = x * 2
        print(n)
        if n:
            y = y + fast(x, n - 1)
        return y - 1

    fast = braze.compile(f)
    fast_of = fast
    for _ in range(3):
        expected = outcome(lambda x: f_eager(x, 3), four())
        assert same(expected, outcome(lambda x: fast_of(x, 3), four()))


def f_eager(x, n):
    y = x * 2
    print(n)
    if n:
        y = y + f_eager(x, n - 1)
    return y - 1


def test_endless_recursion_raises():
    def f(x):
        print(end="")
        return f(x) + 1

    fast = braze.compile(f)
    for _ in range(2):
        with pytest.raises(RecursionError):
            fast(x4)


def test_reset_amid_a_call():
    def f(x):
        y = x * 2
        print("a")
        reset()
        z = y + 1
        print("b")
        return z * 2

    reset = braze.reset
    check(f, four)


def test_other_inputs_are_other_segments():
    def f(x, k):
        y = x * 2
        print("a")
        return y + k

    fast = check(
        f,
        lambda: (x4.clone(), 1),
        lambda: (x4.clone(), 2.5),
        lambda: (torch.ones(2, 3), x4[:3]),
        lambda: (x4.double(), None) and (x4.double(), 1),
    )
    assert any(e["calls"] >= 2 for e in fast._entries())


def test_limit_of_recompiles():
    def f(x, k):
        y = x * 2
        print("a")
        z = y * k
        print("b")
        return z.relu()

    fast = braze.compile(f, recompile_limit=2)
    for k in range(6):
        assert same(outcome(f, (x4, k)), outcome(fast, (x4, k)))


def test_a_function_without_tensors_is_left_to_cpython():
    lines = ["def talk(n):"] + [f"    print(n, {i})" for i in range(30)] + ["    return n"]
    namespace = {"print": print}
    exec("\n".join(lines), namespace)
    talk = namespace["talk"]

    def f(x):
        y = x + 1
        talk(3)
        return y * 2

    fast = check(f, four)
    of_talk = [e for e in fast._entries() if e["function"] == "talk"]
    assert len(of_talk) == 16
    assert "none has a tensor operation" in of_talk[-1]["reason"]
    assert segments(fast)[:2] == ["f+0: 1 operators, break at +2", "f+2: 1 operators, return"]


def test_trace_functions_see_every_line():
    def f(x):
        y = x * 2
        print("a")
        z = y + 1
        return z

    fast = braze.compile(f)
    fast(x4)
    lines = []

    def tracer(frame, event, arg):
        if frame.f_code is f.__code__:
            lines.append(frame.f_lineno - f.__code__.co_firstlineno)
        return tracer

    sys.settrace(tracer)
    try:
        fast(x4)
    finally:
        sys.settrace(None)
    assert lines == [0, 1, 2, 3, 4, 4]


def test_fullgraph_raises_at_the_first_break():
    def f(x):
        y = x + 1
        print("a")
        return y

    with pytest.raises(braze.GraphBreakError, match="print"):
        braze.compile(f, fullgraph=True)(x4)


def test_no_references_leak():
    def helper(x):
        print(end="")
        return x + 1

    def f(x):
        for i in (1, 2):
            x = helper(x) * i
            try:
                print(end="")
                x = x + None
            except TypeError:
                x = x * 2
        return x

    fast = braze.compile(f)
    marker = object()
    tensor = x4.clone()

    def counts():
        gc.collect()
        objects = (tensor, f, f.__code__, helper, helper.__code__, marker, TypeError)
        return [sys.getrefcount(o) for o in objects], len(gc.get_objects())

    for _ in range(50):
        fast(tensor)
    before = counts()
    for _ in range(2000):
        fast(tensor)
    after = counts()
    assert after[0] == before[0]
    assert after[1] - before[1] < 50


# --- Hard cases ------------------------------------------------------------------------------


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


def test_iterators_over_breaks():
    def f(x):
        out = []
        for i, (k, v) in enumerate({"a": 1, "b": 2}.items()):
            x = x + 1
            print(i, k, v)
            out.append(x)
        for a, b in zip(out, reversed(out)):
            x = x + a * b
            print("z")
        for t in x.unbind(0):
            out.append(t * 2)
            print("t")
        return out, [print(n) or n for n in range(2)]

    check(f, four, limit=20)


def test_generator_with_send_and_finally():
    def numbers(x):
        try:
            got = yield x * 2
            print("got", got)
            yield x + got
            print("never")
        finally:
            print("closed")

    def f(x):
        g = numbers(x)
        a = next(g)
        print("first")
        b = g.send(3)
        g.close()
        return a + b

    check(f, four)


def test_yield_from_over_breaks():
    def inner(x):
        print("inner")
        got = yield x + 1
        print("inner", got)
        return x * 2

    def outer(x):
        result = yield from inner(x)
        print("outer")
        yield result + 1

    def f(x):
        total = x
        for y in outer(x):
            total = total + y
            print("sum")
        return total * 2

    check(f, four)


def test_generator_that_raises():
    def numbers(x):
        yield x + 1
        print("raising")
        raise ValueError("from the generator")

    def f(x):
        total = x
        for y in numbers(x):
            total = total * y
            print("y")
        return total

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
        assert same(outcome(f, (x4, good)), outcome(fast, (x4, good)))
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


# --- Sizes and ints that vary ----------------------------------------------------------------


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


def test_finally_of_a_generator_does_not_run_while_tracing():
    def numbers(x):
        try:
            for j in range(2):
                print("generator", j)
                yield x * 0.1 + j
        finally:
            print("end")

    def quiet(x):
        try:
            yield x + 1
            yield x + 2
        finally:
            print("quiet end")

    def f(x):
        y = x * 2
        for t in numbers(x):
            y = y + t
        for t in quiet(x):
            y = y + t
            print("loop")
            break
        half = quiet(y)
        return y + next(half), half

    for _ in range(3):
        expected, got = outcome(f, four()), outcome(braze.compile(f), four())
        assert expected[1] == got[1] and same(expected[0][1][0], got[0][1][0])
