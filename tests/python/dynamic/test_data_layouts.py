"""Memory and sizes of what depends on data: as eager's, also where only an assertion tells."""

import braze
import pytest
import torch
from support import same
from test_data_symbols import BOTH, check


def pieces_of(x, sizes):
    a, b = sizes.tolist()
    torch._check(a >= 0)
    torch._check(b >= 0)
    torch._check(a + b == x.shape[0])
    return a, b


def split(x, sizes):
    return (x * 2).split(pieces_of(x, sizes))


def split_argument(x, sizes):
    first, second = x.split(pieces_of(x, sizes))
    return first, second, first + 1


def write_to_pieces(x, sizes):
    y = x * 2
    first, second = y.split(pieces_of(x, sizes))
    first.add_(1)
    second.mul_(3)
    return y, first, second, torch.cat([second, first])


@pytest.mark.parametrize("fn", [split, split_argument, write_to_pieces])
def test_pieces(fn):
    calls = [(torch.arange(4.0), torch.tensor(s)) for s in ([1, 3], [2, 2], [4, 0], [0, 4])]
    check(fn, calls)


def test_pieces_share_memory():
    fast = braze.compile(split_argument, options=BOTH)
    x = torch.arange(4.0)
    first, second, _ = fast(x, torch.tensor([1, 3]))
    first.add_(10)
    second.add_(20)
    assert x.tolist() == [10, 21, 22, 23]


def test_nonzero_lies_in_columns():
    def fn(x):
        places = torch.nonzero(x)
        return places + 1, places, places.stride(), places[:, 0] * 2, places.t().contiguous()

    check(fn, [(torch.tensor(rows),) for rows in ([[1, -1], [0, 2]], [[0, 0], [0, 1]])])
    check(fn, [(torch.tensor([0, 3, 4, 0]),), (torch.tensor([1, 1, 1, 0]),)])


def test_masks_of_other_sizes_are_errors():
    def read(x, mask):
        return x[mask]

    def write(x, mask):
        y = x.clone()
        y[mask] = 1.0
        return y

    for fn in (read, write):
        fast = braze.compile(fn, options=BOTH)
        for size in (4, 3, 6, 4):
            args = torch.arange(4.0), torch.ones(size, dtype=torch.bool)
            if size == 4:
                same(fast(*args), fn(*args))
                continue
            for call in (fast, fn):
                with pytest.raises(IndexError, match="The shape of the mask"):
                    call(*args)


def test_masks_without_dimensions():
    def fn(x, mask):
        return x[mask], x[mask].shape

    fast = braze.compile(fn, options=BOTH)
    for mask in (True, False):
        args = torch.arange(4.0), torch.tensor(mask)
        same(fast(*args), fn(*args))
