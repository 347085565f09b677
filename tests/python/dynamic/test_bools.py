"""A bool is no int where sizes are symbols: what refuses or tells one apart does so."""

import pytest
import torch
import torch.nn.functional as F
from support import compare

PROGRAMS = {
    "difference": lambda x, s: x - s,
    "difference, reversed": lambda x, s: s - x,
    "in place": lambda x, s: x.clone().sub_(s),
    "rsub": lambda x, s: torch.rsub(x, s),
    "sum": lambda x, s: x + s,
    "product": lambda x, s: (x * s, s * x.shape[0]),
    "power": lambda x, s: (x**s, x.shape[0] ** s, s**2),
    "alpha": lambda x, s: torch.add(x, x, alpha=s),
    "with a size": lambda x, s: (x.shape[0] + s, x.shape[0] - s, type(s + s).__name__),
    "bits": lambda x, s: (x.shape[0] & s, s & s, s | (x.shape[0] > 1), s ^ True, ~s, s << 1),
    "identity": lambda x, s: (x.shape[0] == s, s == 1, s is True, s is False),
    "class": lambda x, s: (isinstance(s, bool), type(s) is int, isinstance(x.shape[0], bool)),
    "text": lambda x, s: (str(s), f"{s} {x.shape[0]}", "%d" % s, "{:d}".format(s)),
    "size": lambda x, s: torch.zeros(x.shape[0], s + 1),
    "list of sizes": lambda x, s: torch.zeros([2, s]),
    "reshape": lambda x, s: x.reshape(s, -1),
    "expand": lambda x, s: x.expand(s, -1),
    "keepdim": lambda x, s: x.sum(0, keepdim=s),
    "dim": lambda x, s: x[None].sum(s),
    "index": lambda x, s: x[s],
    "slice": lambda x, s: x[s:],
    "index of a tuple": lambda x, s: (10, x.shape[0])[s],
    "fill": lambda x, s: (torch.full((x.shape[0],), s), x.clone().fill_(s)),
    "tensor": lambda x, s: (torch.tensor(s), torch.tensor([s, True, 3])),
    "where": lambda x, s: torch.where(x > 1, x, s),
    "comparison": lambda x, s: (x > s, x == s),
    "logic": lambda x, s: (not s, s and x.shape[0], s or x.shape[0], -s, +s, abs(s)),
    "numbers": lambda x, s: (float(s), int(s), s / 2, s // 2, s % 2, divmod(x.shape[0], s + 1)),
    "largest": lambda x, s: (max(s, x.shape[0]), min(s, x.shape[0]), sum([s, s, x.shape[0]])),
    "key": lambda x, s: {s: x.shape[0], 1: 5},
    "comparison of a size": lambda x, s: (x * (x.shape[0] > 1), x + (x.shape[0] > 1)),
    "less the comparison of a size": lambda x, s: x - (x.shape[0] > 1),
    "booleans": lambda x, s: (x > 0) + s,
    "booleans less one": lambda x, s: (x > 0) - s,
    "arange": lambda x, s: torch.arange(s, x.shape[0]),
    "pad": lambda x, s: F.pad(x, (s, 1)),
    "roll": lambda x, s: x.roll(s),
    "chunk": lambda x, s: x.chunk(s + 1),
    "clamp": lambda x, s: x.clamp(s, 3),
    "masked_fill": lambda x, s: x.masked_fill(x > 1, s),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
@pytest.mark.parametrize("name", PROGRAMS)
def test_bools(name, dtype):
    calls = [
        lambda size=size, s=s: (torch.arange(size).to(dtype), s)
        for size, s in [(2, True), (3, True), (4, False), (1, True)]
    ]
    compare(lambda: PROGRAMS[name], calls, dynamic=True)
