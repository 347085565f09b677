"""Decisions while tracing on sizes that come from data: what is not known is no fact. Results, and
whether they share memory, are eager's for sizes of 0 and 1 as well."""

import braze
import pytest
import torch
from support import aliasing, entries, same
from test_data_symbols import BOTH, SCALARS


def size_of(n, most):
    size = n.item()
    torch._check(size >= 0)
    torch._check(size <= most)
    return size


def check(fn, calls, options=BOTH):
    """Results, errors and shared memory as in eager."""
    fast = braze.compile(fn, options=options)
    for number, args in enumerate(calls):
        inputs = [tuple(x.clone() for x in args) for _ in range(2)]
        try:
            wanted = fn(*inputs[0])
        except (RuntimeError, IndexError) as error:
            with pytest.raises(type(error)):
                fast(*inputs[1])
            continue
        found = fast(*inputs[1])
        same(found, wanted, f"call {number}")
        same(inputs[1], inputs[0], f"arguments of call {number}")
        assert aliasing(found, inputs[1]) == aliasing(wanted, inputs[0]), f"call {number}"
    return fast


def test_a_count_of_steps():
    fast = check(
        lambda x, n: torch.linspace(0, 1, size_of(n, x.shape[0]) + 1),
        [(torch.randn(9), torch.tensor(n)) for n in (4, 0, 1, 9)],
    )
    assert len(entries(fast)) == 1


def test_a_size_as_a_float():
    def fn(x, n):
        rest = x[size_of(n, x.shape[0]) :]
        return float(rest.shape[0]), rest.nbytes, rest.sum()

    check(fn, [(torch.arange(9.0), torch.tensor(n)) for n in (4, 0, 9)])


def test_squares():
    def fn(n):
        size = size_of(n, 20)
        return torch.ones(size, size).fill_diagonal_(7)

    check(fn, [(torch.tensor(n),) for n in (5, 1, 8, 0, 9)])


@pytest.mark.parametrize("rows", [(9, 8, 17, 3), (2, 7, 8)])
def test_the_rest_of_pieces(rows):
    def fn(x, n):
        size = size_of(n, x.shape[0])
        return x.split([size, x.shape[0] - size])[1] + 1, x[x[:, 0].argsort()][:size]

    fast = check(fn, [(torch.randn(r, 3), torch.tensor(n)) for r in rows for n in (0, 1, 2)])
    assert len(entries(fast)) <= 2


SIZES = (3, 1, 0, 2, 9, 8)
SLICES = {
    "columns": lambda x, n: x.t()[:, : size_of(n, 9)],
    "every second": lambda x, n: x.repeat(2, 1)[::2][: size_of(n, 9)],
    "one column": lambda x, n: x[:, :1][: size_of(n, 9)],
    "made": lambda x, n: torch.zeros(3, size_of(n, 9)).t(),
    "rows": lambda x, n: x[size_of(n, 9) :],
}
LAYOUTS = {
    "contiguous": lambda v: (v.contiguous(), v.is_contiguous()),
    "transposed": lambda v: v.t().contiguous(),
    "reshape": lambda v: v.reshape(-1),
    "reshape transposed": lambda v: v.t().reshape(-1),
    "swapped": lambda v: v.reshape(v.shape[1], v.shape[0]),
    "view": lambda v: v.view(-1, 1),
    "expanded": lambda v: v.expand(2, -1, -1).reshape(-1),
    "written": lambda v: (v.contiguous().add_(1), v.flatten().mul_(2)),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("base", SLICES)
def test_views_and_copies(base, layout):
    def fn(x, n):
        v = SLICES[base](x, n)
        return v, LAYOUTS[layout](v)

    x = torch.arange(27.0).reshape(9, 3)
    check(fn, [(x, torch.tensor(size)) for size in SIZES], SCALARS)


REDUCTIONS = ["max", "min", "amax", "amin", "argmax", "argmin", "median", "mode", "cummax", "sum"]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_nothing_to_choose_from(name):
    def fn(x):
        return tuple(getattr(x[x[:, 0] > 0], name)(0))

    some, none = torch.randn(9, 3).abs(), -torch.ones(9, 3)
    check(fn, [(some,), (none,), (some,)])


def test_softmax_of_integers_is_an_error():
    check(lambda x: torch.nonzero(x).softmax(0), [(torch.ones(3),), (torch.ones(4),)])


def test_a_filled_tensor_keeps_its_gaps():
    def fn(x):
        v = torch.empty_strided((3, 3), (1, 9)).fill_(1)
        return v, v + x

    check(fn, [(torch.ones(1),)])


def test_strides_of_nothing():
    def fn(x):
        v = x[x[:, 0] > 0][:, x[0] > 0]
        return v.stride(), v + 1

    check(fn, [(torch.eye(5) * sign + bias,) for sign in (1, -1) for bias in (0, 1, -2)])
