"""Variables, frames, references and limits of functions that break."""

import gc
import sys
import warnings

import braze
import pytest
import torch
from segmenting import check, four, print, segments, x4
from showing import outcome, same


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
        expected = outcome(lambda x: f_eager(x, 3), *four())
        assert same(expected, outcome(lambda x: fast_of(x, 3), *four()))


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
        assert same(outcome(f, x4, k), outcome(fast, x4, k))


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


def test_null_on_the_stack_or_not():
    """A segment that hands values of the stack on serves frames that have NULL there, and others."""

    class Scaled:
        def scale(self, x):
            return x * 2

    class Plain:
        def __init__(self):
            self.scale = lambda x: x * 3

    def called(x, thing):
        return thing.scale(x * float(x.sum()) + float(x.mean()) * x)

    def comprehension(x, known):
        if known:
            v = x + 1
        made = [(m := v.sum()) + float(m) for v in x[:2].reshape(2, 1)]
        return made, v

    check(called, lambda: (x4.clone(), Scaled()), lambda: (x4.clone(), Plain()))
    check(called, lambda: (x4.clone(), Plain()), lambda: (x4.clone(), Scaled()))
    check(comprehension, lambda: (x4.clone(), True), lambda: (x4.clone(), False))
    check(comprehension, lambda: (x4.clone(), False), lambda: (x4.clone(), True))


@pytest.mark.parametrize("as_generator", (False, True))
def test_a_method_that_is_looked_up_before_the_segment_ends(as_generator):
    class Plain:
        def push(self, item):
            return "plain"

    class Child(Plain):
        def push(self, item):
            return "child"

        def __getattr__(self, name):
            if name == "missing":
                return 5
            raise AttributeError(name)

    def function(x, n, box):
        print(len(x))
        x.add_(n)
        return box.push(box.missing)

    def generator(x, n, box):
        x.add_(n)
        yield box.push(box.missing)

    f = generator if as_generator else function
    fast = braze.compile(f)

    def ask(f, n, kind):
        try:
            result = f(torch.ones(2), n, kind())
            return next(result) if as_generator else result
        except AttributeError as error:
            return str(error)

    for n, kind in enumerate((Plain, Plain, Plain, Child, Plain, Child)):
        assert ask(fast, n, kind) == ask(f, n, kind), n
