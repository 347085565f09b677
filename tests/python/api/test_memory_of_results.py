"""Memory that a user can see: where a result begins in its storage, and how large that is."""

import braze
import pytest
import torch


def written_chunk(x):
    a, b = x.chunk(2, 0)
    a.add_(1)
    return b.clone(), b.contiguous(), b.to(torch.float32, copy=True)


def written_base(x):
    row = x[1]
    x.add_(1)
    return row.clone(), row.clone().view(2, 2)


def transposed(x):
    part = x.t()[:, 1:]
    x.add_(1)
    return part.clone()


def part_of_a_result(x):
    y = x + 1
    return y[0].clone(), y[1] * 1, y[2] + 0, y.view(-1).clone()


def part_of_integers(x):
    y = x.long() + 1
    return y[1] * 1, y[2] + 0, y[0].clone()


def described(results):
    return [(r.storage_offset(), r.untyped_storage().nbytes(), r.stride()) for r in results]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "fn", [written_chunk, written_base, transposed, part_of_a_result, part_of_integers]
)
def test_results_have_memory_of_their_own(fn, dynamic):
    def results(f):
        given = f(torch.arange(16.0).reshape(4, 4))
        return given if isinstance(given, tuple) else (given,)

    fast = braze.compile(fn, dynamic=dynamic)
    for _ in range(2):
        expected, actual = results(fn), results(fast)
        assert all(map(torch.equal, expected, actual))
        assert described(actual) == described(expected)
