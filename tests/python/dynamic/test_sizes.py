"""Sizes that vary: when they become symbols, what the code may do with them, what is guarded."""

import math

import braze
import pytest
import torch
from sizes import check, count, guards
from support import reasons, same


def sizes(*shapes):
    return [(torch.randn(shape),) for shape in shapes]


# --- When sizes become symbols


def test_second_size_seen_makes_it_dynamic():
    fast = check(lambda x: x * 2 + 1, sizes((3, 4), (5, 4), (7, 4), (9, 4)), compiles=2)
    assert guards(fast) == ["x.size(0) >= 2"]
    assert "x is like float32[*, 4]" in fast._entries()[-1]["guards"]


def test_only_what_varies_is_dynamic():
    fast = check(lambda x: x.sum(0), sizes((3, 4), (5, 4), (6, 4)), compiles=2)
    fast(torch.randn(3, 8))
    assert count(fast) == 3
    fast(torch.randn(8, 9))
    assert count(fast) == 3


def test_dynamic_true_needs_one_compile():
    calls = sizes((3, 4), (5, 6), (8, 8), (2, 7))
    # (8, 8) comes after (3, 4): two symbols.
    check(lambda x: torch.relu(x).t(), calls, compiles=1, dynamic=True)


def test_dynamic_false_compiles_each_size():
    fast = check(lambda x: x + 1, sizes((3,), (4,), (5,)), compiles=3, dynamic=False)
    assert count(fast) == 3 and guards(fast) == []


def test_sizes_0_and_1_are_compiled_for_themselves():
    fast = check(lambda x: x + 1, sizes((3,), (4,), (1,), (0,), (5,)), compiles=4)
    assert count(fast) == 4


def test_equal_sizes_share_a_symbol():
    def fn(x, y):
        return x + y

    calls = [(torch.randn(n), torch.randn(n)) for n in (3, 4, 5, 6)]
    fast = check(fn, calls, compiles=2)
    assert guards(fast) == ["y.size(0) == x.size(0)", "x.size(0) >= 2"]


def test_equal_by_chance_is_noticed():
    def fn(x, y):
        return x * 2, y * 2

    calls = [(torch.randn(a), torch.randn(b)) for a, b in ((3, 3), (4, 4), (5, 6), (7, 8), (9, 9))]
    check(fn, calls, compiles=3)


def test_different_histories_are_different_symbols():
    calls = sizes((3, 4), (8, 8), (5, 6), (7, 9))
    check(lambda x: x * 2, calls, compiles=2)


# --- Marks


def test_mark_dynamic_serves_at_once():
    def fn(x):
        return x @ x.t()

    x = torch.randn(4, 8)
    braze.mark_dynamic(x, 0)
    check(fn, [(x,), *sizes((5, 8), (9, 8))], compiles=1)


def test_mark_dynamic_with_bounds():
    x = torch.randn(4, 8)
    braze.mark_dynamic(x, 0, min=3, max=16)
    fast = check(lambda x: x + 1, [(x,), *sizes((5, 8), (16, 8))], compiles=1)
    assert guards(fast) == ["x.size(0) >= 3", "x.size(0) <= 16"]
    fast(torch.randn(17, 8))
    assert count(fast) == 2


def test_mark_dynamic_of_a_specialised_size_is_an_error():
    def fn(x):
        return x * float(x.shape[0])

    x = torch.randn(4)
    braze.mark_dynamic(x, 0)
    with pytest.raises(
        RuntimeError, match=r"x\.size\(0\) is marked as dynamic.*test_sizes\.py:\d+"
    ):
        braze.compile(fn)(x)
    y = torch.randn(4)
    braze.maybe_mark_dynamic(y, 0)
    same(braze.compile(fn)(y), fn(y))


def test_mark_static():
    fast = braze.compile(lambda x: x + 1)
    for n in (3, 4, 5):
        x = torch.randn(n)
        braze.mark_static(x)
        fast(x)
    assert count(fast) == 3


def test_marks_of_dynamo_are_honoured():
    x = torch.randn(4, 8)
    x._dynamo_dynamic_indices = {0}
    check(lambda x: x + 1, [(x,), *sizes((5, 8))], compiles=1)


# --- What code does with sizes


def view_with_sizes(x):
    b, s, w = x.shape
    return x.view(b, -1, 2, w // 2).transpose(1, 2)


def branch(x):
    return x + 1 if x.shape[0] > 4 else x - 1


def divisible(x):
    if x.size(0) % 4 == 0:
        return x.view(-1, 4).sum(1)
    return x


def slicing(x):
    half = x.shape[0] // 2
    return x[:half], x[half:], x[-1], x[:, : x.size(1) - 1]


def arithmetic(x):
    n = x.shape[0]
    return x * n + (n - 1), n * 2 + 1, -n, n // 2, n % 2, n**2, [n, (n, n + 1)], {"n": n}


def loops(x):
    total = x.new_zeros(())
    for i in range(x.shape[0]):
        total = total + x[i].sum() * i
    return total


def containers(x):
    names = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight"]
    n = x.shape[0]
    table = {n: "size"}
    return names[n], names[:n], table[n], {n}, n in table, n in (3, 5), (n,) == (5,), sorted([n, 3])


def text(x):
    return f"{x.shape[0]:>4} {x.shape}", str(x.shape[0]), "%s" % x.shape[0], repr([x.size(0)])


def mathematics(x):
    n = x.shape[0]
    return (
        x / math.sqrt(n),
        math.ceil(n / 2),
        int(n),
        float(n),
        bool(n),
        abs(-n),
        max(n, 3),
        min(n, 6),
    )


def types(x):
    n = x.shape[0]
    return isinstance(n, int), type(n) is int, isinstance(n, (float, bool)), n.bit_length()


def factories(x):
    b, n = x.shape
    mask = torch.full((n, n), float("-inf")).triu(1)
    positions = torch.arange(n).expand(b, n)
    return mask, positions, torch.zeros(b, 3), torch.ones_like(x), x.new_empty(b, n).fill_(1.0)


def shapes_compared(x):
    y = x.t().t()
    return (x.shape == y.shape, x.shape != y.shape, x.shape == (3, 4), len(x), x.numel(), x.size())


def comprehension(x):
    return [size * 2 for size in x.shape], sum(x.shape), tuple(reversed(x.shape))


def concatenation(x):
    return torch.cat([x, x[:1]]), torch.stack([x, x]), torch.cat([x, x], 1)


def normalisation(x):
    return (
        torch.nn.functional.layer_norm(x, (x.size(-1),)),
        x.softmax(-1),
        x.mean(0, keepdim=True),
        x.var(-1),
    )


@pytest.mark.parametrize(
    "fn, most",
    [
        (branch, 3),
        (divisible, 5),
        (slicing, 2),
        (arithmetic, 2),
        (loops, 8),
        (containers, 8),
        (text, 8),
        (mathematics, 8),
        (types, 8),
        (factories, 2),
        (shapes_compared, 3),
        (comprehension, 2),
        (concatenation, 2),
        (normalisation, 2),
    ],
)
def test_use_of_sizes(fn, most):
    fast = check(fn, sizes((3, 4), (5, 4), (8, 4), (6, 4), (3, 4)), compiles=most)
    assert not reasons(fast)


def test_view_with_sizes():
    fast = check(view_with_sizes, sizes((2, 3, 8), (4, 5, 8), (3, 7, 8), (6, 2, 8)), compiles=2)
    assert not reasons(fast)


def test_guards_are_written_as_the_user_would():
    fast = check(divisible, sizes((3, 4), (8, 4), (12, 4)), compiles=2)
    assert "x.size(0) % 4 == 0" in guards(fast)
    fast = check(branch, sizes((5, 4), (8, 4), (12, 4)), compiles=2)
    assert guards(fast) == ["x.size(0) >= 5"]


def test_strides_follow_sizes():
    def fn(x):
        return x * 2, x.contiguous(), x.reshape(-1)

    calls = [(torch.randn(4, n).t(),) for n in (3, 5, 7, 6)]
    check(fn, calls, compiles=2)
    calls = [(torch.randn(2, n, 4).transpose(0, 1),) for n in (3, 5, 7, 6)]
    check(fn, calls, compiles=2)


def test_views_of_a_fixed_buffer():
    buffer = torch.randn(2, 4, 32, 8)

    def fn(x):
        return x.transpose(1, 2).reshape(2, -1, 32) + 1

    check(fn, [(buffer[:, :, :n],) for n in (3, 5, 9, 30)], compiles=2)


def test_writes_to_dynamic_inputs():
    def fn(x, y):
        x.add_(1)
        x[: y.size(0)] = y
        return x * 2

    fast = braze.compile(fn)
    for n in (3, 4, 6, 9):
        x, y = torch.randn(n, 2), torch.randn(n - 1, 2)
        expected = x.clone()
        same(fast(x, y), fn(expected, y))
        same(x, expected)
    assert count(fast) <= 2


def test_an_input_comes_back_itself():
    fast = braze.compile(lambda x: (x, [x], x + 1))
    for n in (3, 4, 5):
        x = torch.randn(n)
        first, (second,), third = fast(x)
        assert first is x and second is x and third.shape == x.shape
    assert count(fast) == 2


def test_lists_of_dynamic_tensors():
    def fn(xs):
        total = sum(x.sum() for x in xs)
        return total, torch.cat(xs), [x.shape[0] for x in xs]

    calls = [([torch.randn(n, 2), torch.randn(n + 1, 2)],) for n in (3, 4, 5, 6)]
    fast = braze.compile(fn, recompile_limit=8)
    for args in calls:
        same(fast(*args), fn(*args))


# --- Integers


def test_an_int_that_varies_becomes_a_symbol():
    def fn(x, n):
        return x * n + n // 2

    x = torch.randn(4)
    fast = check(fn, [(x, 3), (x, 5), (x, 7), (x, -2), (x, 100)], compiles=2)
    assert count(fast) == 2
    check(fn, [(x, 3), (x, 1), (x, 0), (x, 5), (x, True), (x, 6)], compiles=6)


def test_an_int_as_size_and_index():
    def fn(x, n):
        return x[:n] + 1, torch.zeros(n, 2), x[n - 2]

    x = torch.randn(16, 3)
    check(fn, [(x, 3), (x, 5), (x, 7), (x, 12)], compiles=2)


def test_a_counter():
    class Counter:
        def __init__(self):
            self.calls = 5

        def __call__(self, x):
            self.calls += 1
            return x * self.calls

    one, two = Counter(), Counter()
    fast = braze.compile(one)
    x = torch.randn(3)
    for _ in range(6):
        same(fast(x), two(x))
    assert one.calls == two.calls == 11
    assert count(fast) == 2


def test_an_int_that_must_be_a_number():
    def fn(x, n):
        return x * 2, f"{n}".zfill(3)

    x = torch.randn(3)
    fast = check(fn, [(x, n) for n in (3, 5, 7, 9)], compiles=4)
    assert count(fast) == 4


def test_large_ints_are_pythons():
    def fn(x, n):
        return x + 1, n * n * n

    x = torch.randn(3)
    check(fn, [(x, 3), (x, 2**40), (x, 2**62), (x, 10**30), (x, 5)], compiles=8)


# --- Caches


def test_growing_cache():
    def step(x, cache):
        cache = torch.cat([cache, x], 1)
        weights = (x @ cache.transpose(1, 2)).softmax(-1)
        return weights @ cache, cache

    fast = braze.compile(step)
    cache = torch.randn(1, 5, 8)
    expected = cache
    for _ in range(8):
        x = torch.randn(1, 1, 8)
        y, cache = fast(x, cache)
        z, expected = step(x, expected)
        same(y, z)
        same(cache, expected)
    assert count(fast) == 2


def test_growing_list_in_an_object():
    class Cache:
        keys = None

        def update(self, x):
            self.keys = x if self.keys is None else torch.cat([self.keys, x])
            return self.keys

    def step(x, cache):
        return x + cache.update(x).sum(0)

    fast, ours, theirs = braze.compile(step), Cache(), Cache()
    for _ in range(8):
        x = torch.randn(1, 4)
        same(fast(x, ours), step(x, theirs))
        same(ours.keys, theirs.keys)
    assert count(fast) <= 4


# --- Behind a break


def test_segments_behind_a_break():
    def fn(x, n):
        y = x * 2
        braze.graph_break()
        return y.view(-1, 2).sum(1) + n

    fast = braze.compile(fn)
    for size, n in ((4, 3), (6, 5), (8, 7), (12, 9), (14, 30)):
        x = torch.randn(size)
        same(fast(x, n), fn(x, n))
    assert count(fast) <= 4


# --- State outside of the arguments

scale = 3


def test_globals_and_closures():
    held = {"x": torch.randn(3, 2)}

    def fn(y):
        return held["x"].sum(0) * scale + y

    fast = braze.compile(fn)
    for n in (3, 5, 7, 9):
        held["x"] = torch.randn(n, 2)
        globals()["scale"] = n + 1
        y = torch.randn(2)
        same(fast(y), fn(y))
    assert count(fast) <= 2


def test_writes_that_overlap_raise():
    def fn(x):
        x[1:].copy_(x[:-1])
        return x

    fast = braze.compile(fn, dynamic=True)
    for n in (4, 6):
        with pytest.raises(RuntimeError, match="single memory location"):
            fast(torch.randn(n))


@pytest.mark.parametrize("dynamic", [None, True])
def test_strides_of_an_index_that_picks_nothing(dynamic):
    """Where the other dimensions are of size 1 the index tensor has a say in the layout."""
    compiled = braze.compile(lambda x: (x[True], x[False], x[None, False]), dynamic=dynamic)
    for shape in ((4, 5), (1, 5), (5, 1), (1, 1)):
        for x in (torch.ones(shape), torch.ones(shape).t()):
            got = [t.stride() for t in compiled(x)]
            assert got == [t.stride() for t in (x[True], x[False], x[None, False])]


@pytest.mark.parametrize("backend", ["aten", "braze"])
def test_masks_of_bytes_are_not_filled(backend):
    def f(x):
        x[torch.tensor([1, 0, 0, 0], dtype=torch.uint8)] = 5
        return x

    options = {"capture_dynamic_output_shape_ops": True}
    with pytest.raises(RuntimeError, match="masked_fill_ only supports boolean masks"):
        braze.compile(f, options=options, backend=backend)(torch.zeros(4, 2))
