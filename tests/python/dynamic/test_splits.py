"""Splits by lists of numbers: those that vary are symbols."""

import braze
import pytest
import torch
from support import entries, reasons, same

LISTS = [[6, 5, 3, 4], [5, 3, 7, 3], [3, 3, 8, 4], [8, 4, 3, 3], [2, 7, 5, 4], [9, 3, 3, 3]]


def method(x, sizes):
    return torch.cat([part * 2 for part in x.split(sizes)])


def function(x, sizes):
    return torch.cat([part.sum(0) for part in torch.split(x, sizes)])


def by_keyword(x, sizes):
    return [part.square() for part in torch.split(tensor=x.mT, split_size_or_sections=sizes, dim=1)]


def with_sizes(x, sizes):
    return torch.split_with_sizes(x, sizes, 0)[1] * 2


def in_a_tuple(x, sizes):
    return [part + 1 for part in x.split((sizes[0], 18 - sizes[0]), dim=-2)]


def along_an_axis(x, sizes):
    return torch.split_with_sizes(input=x.mT, split_sizes=sizes, axis=1)[2] * 2


SPLITS = [method, function, by_keyword, with_sizes, in_a_tuple, along_an_axis]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("make", [list, tuple])
def test_numbers_that_vary(split, make):
    fast = braze.compile(split)
    for sizes in LISTS:
        x = torch.randn(18, 3)
        same(fast(x, make(sizes)), split(x, make(sizes)), str(sizes))
    assert not reasons(fast)
    assert len(entries(fast)) == 2, [entry["guards"] for entry in entries(fast)]


def test_gradients():
    weight = torch.randn(3, requires_grad=True)

    def step(x, sizes):
        with torch.enable_grad():
            parts = (x * weight).split(sizes)
            return sum(part.square().mean() for part in parts)

    fast = braze.compile(step)
    for sizes in LISTS:
        x = torch.randn(18, 3)
        results = [(y := run(x, sizes), torch.autograd.grad(y, weight)) for run in (fast, step)]
        same(*results, str(sizes))
    assert not reasons(fast)
    assert len(entries(fast)) == 2


def test_lists_behind_a_break():
    def step(x, counts):
        return torch.cat([part * 2 for part in x.split(counts.sum(0).tolist())])

    fast = braze.compile(step)
    for sizes in LISTS:
        args = torch.randn(18, 3), torch.tensor([sizes])
        same(fast(*args), step(*args), str(sizes))


def test_what_does_not_fit_raises():
    fast = braze.compile(method)
    for sizes in LISTS[:3]:
        fast(torch.ones(18, 3), sizes)
    for sizes in ([6, 5, 3, 5], [20, 2, -8, 4], [18, 0, 0, 0.0], ["a"]):
        errors = []
        for run in (fast, method):
            with pytest.raises((RuntimeError, TypeError)) as error:
                run(torch.ones(18, 3), sizes)
            errors.append((type(error.value), str(error.value).splitlines()[0]))
        assert errors[0] == errors[1]


def test_other_sizes():
    """Zeros and ones are numbers of their own; one number is no list."""
    fast = braze.compile(method)
    for sizes in (
        [18, 0],
        [17, 1],
        [9, 9],
        [1, 17],
        5,
        7,
        18,
        torch.tensor(4),
        torch.Size([4, 14]),
    ):
        same(fast(torch.ones(18, 3), sizes), method(torch.ones(18, 3), sizes), str(sizes))
