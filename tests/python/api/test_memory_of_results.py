"""Memory that a user can see: where a result begins in its storage, and how large that is."""

import braze
import pytest
import torch
import torch.nn.functional as F


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


@pytest.mark.parametrize("backend", ["braze", "aten"])
def test_copies_of_a_written_argument(backend):
    def part(v):
        v[1:] += 1
        return v.clone(), v * 1

    def whole(v):
        v += 1
        return v.clone(), v + 0

    def row_of_two(v):
        v.view(1, 3)[0] = 5.0
        return v.clone(), v.contiguous().clone()

    for fn in (part, whole, row_of_two):
        fast = braze.compile(fn, backend=backend)
        given = [torch.ones(2, 3)[1] for _ in range(2)]
        expected, actual = fn(given[0]), fast(given[1])
        assert all(map(torch.equal, expected, actual))
        assert described(actual) == described(expected)


@pytest.mark.parametrize("dynamic", (None, True))
@pytest.mark.parametrize("mode", ("reflect", "replicate"))
def test_padding_keeps_the_channels_innermost(mode, dynamic, capfd):
    def f(x, padding):
        return F.pad(x, padding, mode)

    images = torch.arange(240.0).reshape(2, 3, 5, 8).to(memory_format=torch.channels_last)
    volumes = torch.arange(480.0).reshape(1, 4, 2, 6, 10).to(memory_format=torch.channels_last_3d)
    fast = braze.compile(f, dynamic=dynamic)
    for x, padding in (
        (images, (1, 2, 0, 1)),
        (images, (1, 1, 1, 1, 1, 1)),
        (volumes, (1, 0, 2, 1, 1, 1)),
        (images[:, :2], (1, 2, 0, 1)),
        (images.contiguous(), (1, 2, 0, 1)),
    ):
        expected, result = f(x, padding), fast(x, padding)
        assert result.stride() == expected.stride()
        assert torch.equal(result, expected)
    assert "Please report" not in capfd.readouterr().err


@pytest.mark.parametrize("dynamic", (None, True))
@pytest.mark.parametrize("training", (False, True))
def test_a_random_slope_makes_rows(training, dynamic, capfd):
    def f(x):
        return F.rrelu(x, training=training)

    fast = braze.compile(f, dynamic=dynamic)
    for x in (torch.randn(2, 3, 4).transpose(0, 2), torch.randn(4, 6)[:, ::2], torch.randn(3)):
        torch.manual_seed(3)
        expected = f(x)
        torch.manual_seed(3)
        result = fast(x)
        assert result.stride() == expected.stride()
        assert torch.equal(result, expected)
    assert "Please report" not in capfd.readouterr().err
