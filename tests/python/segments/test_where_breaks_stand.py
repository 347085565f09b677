"""Breaks in every place of a function: what is around them goes on compiled."""

import braze
import torch
from segmenting import check, four, print, segments, x4


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
