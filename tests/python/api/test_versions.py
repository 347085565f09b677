"""Tensor._version of tensors of the caller: each write counts, as in eager."""

import braze
import pytest
import torch
import torch.nn.functional as F


def twice(x, y):
    x.add_(1)
    x.add_(1)
    return x * 2


def through_views(x, y):
    x.add_(1)
    row = x[0]
    row.mul_(2)
    x[1].zero_()
    x.view(-1)[2:].neg_()
    x.t()[0] = 3.0
    return row


def two_inputs(x, y):
    x.copy_(y)
    y.add_(x).mul_(2)
    return x + y


def out_argument(x, y):
    torch.add(x, y, out=y)
    torch.mul(x, y, out=y)
    return y


def only_read(x, y):
    z = x + y
    z.add_(1)
    z.add_(1)
    return z


def random_in_place(x, y):
    x.uniform_()
    x.add_(1)
    x[0].add_(1)
    return x * 0


def lists_of_tensors(x, y):
    torch._foreach_add_([x, y], 1.0)
    return x + y


def transposed_in_place(x, y):
    x.t_()
    x.add_(1)
    return x + 1


def broken(x, y):
    x.add_(1)
    print("a break")
    x.add_(1)
    x.add_(1)
    return x + 1


def batch_norm(x, y):
    return F.batch_norm(x, y[0], y[1], training=True)


PROGRAMS = [
    twice,
    through_views,
    two_inputs,
    out_argument,
    only_read,
    random_in_place,
    lists_of_tensors,
    transposed_in_place,
    broken,
    batch_norm,
]


@pytest.mark.parametrize("backend", ["braze", "aten"])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_versions(fn, backend):
    def versions(f):
        x, y = torch.rand(4, 4) + 1, torch.ones(4, 4)
        f(x, y)
        return x._version, y._version

    fast = braze.compile(fn, backend=backend)
    for _ in range(2):
        assert versions(fast) == versions(fn)


def test_statistics_of_a_layer():
    layers = [torch.nn.BatchNorm1d(3).train() for _ in range(2)]
    x = torch.rand(5, 3)
    with torch.no_grad():
        for _ in range(2):
            layers[0](x), braze.compile(layers[1])(x)
    expected, actual = ({n: b._version for n, b in layer.named_buffers()} for layer in layers)
    assert actual == expected
