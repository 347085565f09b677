"""Masks that are put together of comparisons of int64 and float64: their kernels have vectors of 8
bytes in each lane, and the host compiler takes them."""

import braze
import pytest
import torch
from support import same

ONES = torch.ones(3, 1, dtype=torch.bool)


def assigned(x, y):
    mask = torch.zeros(3, 37, dtype=torch.bool)
    mask[:, 1:] = (x != 0)[:, 1:]
    return mask


PROGRAMS = {
    "beside_ones": lambda x, y: torch.cat([ONES, x != 0], 1),
    "negated": lambda x, y: torch.cat([x.logical_not(), ONES], 1),
    "converted": lambda x, y: torch.cat([x.bool(), ONES], 1),
    "triangle": lambda x, y: (x != y).tril(),
    "lengths": lambda x, y: torch.cat([ONES, torch.arange(37) < x.sum(1)[:, None]], 1),
    "assigned": assigned,
    "combined": lambda x, y: torch.where(x != 0, y.abs() != 0, x < y) & (x.abs() > y),
}


@pytest.mark.parametrize("dtype", [torch.int64, torch.float64])
@pytest.mark.parametrize("name", PROGRAMS)
def test_mask(name, dtype, capfd):
    x, y = torch.randint(0, 3, (2, 3, 37)).to(dtype)
    same(braze.compile(PROGRAMS[name])(x, y), PROGRAMS[name](x, y))
    assert capfd.readouterr().err == ""
