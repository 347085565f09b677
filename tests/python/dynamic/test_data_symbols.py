"""Numbers that are read from data as symbols of the graph: captured whole, asserted, never wrong."""

import braze
import pytest
import torch
from support import entries, reasons, same

SCALARS = {"capture_scalar_outputs": True}
SIZES = {"capture_dynamic_output_shape_ops": True}
BOTH = SCALARS | SIZES


def check(fn, calls, options=BOTH, compiles=1, **settings):
    """No break, correct for all calls, under at most `compiles` entries."""
    fast = braze.compile(fn, options=options, **settings)
    for number, args in enumerate(calls):
        same(fast(*args), fn(*args), f"call {number}")
    assert not reasons(fast)
    assert len(entries(fast)) <= compiles
    return fast


def tensors(*sizes):
    return [(torch.randn(size),) for size in sizes]


# --- Integers


def test_item_is_a_break_by_default():
    def fn(x, n):
        return x * n.item()

    fast = braze.compile(fn)
    for n in (3, 4, 5):
        x, count = torch.randn(4), torch.tensor(n)
        same(fast(x, count), fn(x, count))
    assert reasons(fast)


def item(x, n):
    k = n.item()
    return x * k + 1, k, k * 2 + 1, k // 3, -k


def integer(x, n):
    k = int(n)
    return x + k, k


def items(x, n):
    a, b = n.sum().item(), n.max().item()
    return x * a - b, a - b


@pytest.mark.parametrize("fn", [item, integer, items])
def test_integers(fn):
    calls = [(torch.randn(4), torch.tensor(n)) for n in (3, 7, 0, 1, -4, 100)]
    check(fn, calls, SCALARS)


def test_large_integers():
    calls = [(torch.randn(4), torch.tensor(n)) for n in (3, 2**31, 2**40, 2**62, 5)]
    check(lambda x, n: (x + 1, n.item() * 4), calls, SCALARS)


def test_int_as_size():
    def fn(x, n):
        k = n.item()
        return torch.zeros(k, 3) + x, torch.arange(k), torch.full((2, k), 1.5).sum(1)

    calls = [(torch.randn(3), torch.tensor(n)) for n in (4, 7, 0, 1, 2, 50)]
    check(fn, calls, SCALARS)


def test_a_negative_size_raises():
    fast = braze.compile(lambda n: torch.zeros(n.item()), options=SCALARS)
    assert fast(torch.tensor(3)).shape == (3,)
    with pytest.raises(RuntimeError, match="non-negative"):
        fast(torch.tensor(-3))


def test_tolist():
    def fn(x, sizes):
        a, b = sizes.tolist()
        torch._check(a >= 0)
        torch._check(b >= 0)
        return torch.zeros(a, b), [a, b], x + a

    calls = [(torch.randn(2), torch.tensor(sizes)) for sizes in ([2, 3], [5, 4], [1, 0], [7, 7])]
    check(fn, calls, SCALARS)


def test_check_is_asserted():
    def fn(x, n):
        k = n.item()
        torch._check(k >= 0)
        torch._check(k <= x.shape[0])
        return x[:k] * 2

    x = torch.randn(8)
    fast = check(fn, [(x, torch.tensor(n)) for n in (3, 5, 0, 1, 8)], SCALARS)
    for wrong in (-1, 9):
        with pytest.raises(RuntimeError, match="Expected cond to be True"):
            fast(x, torch.tensor(wrong))
    same(fast(x, torch.tensor(4)), fn(x, torch.tensor(4)))
    assert len(entries(fast)) == 1


def test_check_with_a_message():
    def fn(n):
        k = n.item()
        torch._check(k != 5, lambda: "five is not allowed")
        return torch.ones(2) * k

    fast = check(fn, [(torch.tensor(n),) for n in (3, 4, 6)], SCALARS)
    with pytest.raises(RuntimeError, match="five is not allowed"):
        fast(torch.tensor(5))


def test_check_of_sizes_is_a_guard():
    def fn(x):
        torch._check(x.shape[0] > 2)
        torch._check(x.dim() == 1)
        return x + 1

    fast = check(fn, tensors(3, 4, 5), {}, compiles=2)
    with pytest.raises(RuntimeError):
        fast(torch.randn(2))


def test_a_decision_that_is_not_known_breaks():
    def fn(x, n):
        k = n.item()
        if k > 3:
            return x + k
        return x - k

    fast = braze.compile(fn, options=SCALARS)
    for n in (3, 4, 9, -2):
        args = torch.randn(3), torch.tensor(n)
        same(fast(*args), fn(*args))
    assert "read from data" in reasons(fast)[0]


def test_a_loop_over_a_number_from_data_breaks():
    def fn(x, n):
        for i in range(n.item()):
            x = x + i
        return x

    fast = braze.compile(fn, options=SCALARS)
    for n in (3, 4, 0, 2):
        args = torch.randn(3), torch.tensor(n)
        same(fast(*args), fn(*args))


def test_floats_and_bools_break():
    def fn(x, y):
        return x * y.max().item(), bool((x > 5).any())

    fast = braze.compile(fn, options=SCALARS)
    for n in (3, 4):
        args = torch.randn(3), torch.randn(n)
        same(fast(*args), fn(*args))


# --- Sizes


def places(x):
    found = x.nonzero()
    return found, found.sum(0), found.shape[0], found.float() * 2


def selected(x):
    chosen = x.masked_select(x > 0)
    return chosen * 2, chosen.sum(), chosen.numel()


def distinct(x):
    values, inverse, counts = (x * 2).round().unique(return_inverse=True, return_counts=True)
    return values + 1, inverse, counts.sum(), values.shape[0] * 2


def rows(x):
    return x[x > 0].exp(), x[(x > 0).nonzero()[:, 0]]


def written(x):
    y = x.clone()
    y[y > 0] = -1.0
    z = torch.zeros_like(x)
    z[x > 0] = x[x > 0] * 2
    return y, z


def counted(x):
    return torch.bincount((x.abs() * 3).long()) * 2


def repeated(x):
    return torch.repeat_interleave(x, (x.abs() * 2).long()) + 1


@pytest.mark.parametrize("fn", [places, selected, distinct, rows, written, counted, repeated])
def test_sizes(fn):
    torch.manual_seed(1)
    calls = tensors(6, 6, 6) + [(torch.zeros(6),), (torch.ones(6),), (-torch.ones(6),)]
    check(fn, calls, SIZES)


def test_sizes_of_dynamic_inputs():
    def fn(x):
        places = (x > 0).nonzero()
        return x[places[:, 0], places[:, 1]] * 2, places.t()

    calls = [(torch.randn(size),) for size in ((3, 4), (5, 6), (2, 9), (7, 3))]
    check(fn, calls, SIZES, compiles=2)


def test_sizes_are_breaks_by_default():
    fast = braze.compile(places)
    for args in tensors(5, 5):
        same(fast(*args), places(*args))
    assert reasons(fast)


def test_several_reads():
    def fn(x):
        first = x[x > -0.5]
        second = first[first < 0.5]
        n = second.sum().round().long().item()
        return second * n, first, n

    check(fn, tensors(20, 20, 20, 20), BOTH)


def test_whole_functions_only():
    def fn(x, n):
        return x[x > 0].sum() * n.item()

    check(fn, [(torch.randn(5), torch.tensor(n)) for n in (2, 3)], BOTH, fullgraph=True)


# --- Effects


def test_inputs_written_before_are_written_once():
    def fn(x, n):
        x.add_(1)
        return x * n.item()

    fast = braze.compile(fn, options=SCALARS)
    for n in (2, 3, 4):
        x, y = torch.zeros(3), torch.zeros(3)
        same(fast(x, torch.tensor(n)), fn(y, torch.tensor(n)))
        same(x, y)


def test_inputs_written_behind():
    def fn(x, n):
        k = n.item()
        torch._check(k > 0)
        x.add_(k)
        return x

    fast = braze.compile(fn, options=SCALARS)
    for n in (2, 3, 4):
        x, y = torch.zeros(3), torch.zeros(3)
        assert fast(x, torch.tensor(n)) is x
        fn(y, torch.tensor(n))
        same(x, y)
    with pytest.raises(RuntimeError):
        fast(x, torch.tensor(-1))
    same(x, y)
    assert not reasons(fast)


def test_views_across_a_read():
    def fn(x, n):
        y = x * 2
        row = y[0]
        k = n.item()
        y.add_(k)
        row.mul_(3)
        return y, row, x.t()

    calls = [(torch.randn(2, 3), torch.tensor(n)) for n in (2, 3)]
    fast = check(fn, calls, SCALARS)
    y, row, _ = fast(*calls[0])
    assert y.data_ptr() == row.data_ptr()


def test_printed_once(capsys):
    def fn(x, n):
        print("before")
        k = n.item()
        print("k is", k)
        return x * k

    fast = braze.compile(fn, options=SCALARS)
    for n in (2, 3, 2):
        fast(torch.ones(2), torch.tensor(n))
    assert capsys.readouterr().out == "before\nk is 2\nbefore\nk is 3\nbefore\nk is 2\n"
