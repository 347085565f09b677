"""Sizes that are kept in containers, passed as keywords or compared stay symbols."""

import braze
import pytest
import torch
from support import entries, same

USES = [
    "return x + d.pop('n')",
    "return x + d.get('n')",
    "return x * len(d)",
    "return x + (1 if 'q' in d else 2)",
    "for k, v in d.items():\n    if k == 'n': x = x + v\nreturn x",
    "e = {**d}; return x + e['n']",
    "e = dict(d); return x + e['n']",
    "d.update(z=3); return x + d['n']",
    "return x + d.setdefault('n', 3)",
    "return x + list(d.values())[0]",
    "e = {k: v for k, v in d.items() if k != 't'}; return x + e['n']",
    "def g(**k): return k['n'] if 'n' in k else 0\nreturn x + g(**d)",
    "l = [d['n'], 3]; l.append(d['m']); return x + l.pop() + l[0]",
    "return x + ((d['n'],) + (1,))[0]",
    "s = list(x.shape); s[0] = 1; return x + x.new_ones(s)",
    "return x + max(d['n'], 1) + min(d['n'], d['m'])",
    "return x * sum([d['n'], 1])",
    "return x + isinstance(d['n'], int)",
    "assert d['n'] > 0, f'{d}'\nreturn x * 2",
    "return x[: d['n'] - 1]",
    "return x + torch.ones(torch.Size([d['n'], d['m']]))",
    "match d['n']:\n    case str(): return x\n    case int(a): return x + a",
    "return torch.cat([x] * 2).split([d['n'], d['n']])[0]",
]


@pytest.mark.parametrize("use", USES)
def test_one_compile_serves_all_sizes(use):
    scope = {"torch": torch}
    body = "".join(f"    {line}\n" for line in use.splitlines())
    exec(f"def f(x):\n    d = dict(n=x.shape[0], m=x.shape[1], t=x)\n{body}", scope)
    fn = scope["f"]
    fast = braze.compile(fn, dynamic=True)
    for size in ((2, 9), (3, 12), (5, 7)):
        x = torch.randn(size)
        assert torch.equal(fast(x), fn(x))
    assert len(fast._entries()) == 1


@pytest.mark.parametrize("make", (torch.tensor, torch.as_tensor))
@pytest.mark.parametrize("dtype", (None, torch.float32, torch.int32))
def test_tensors_of_sizes_keep_symbols(make, dtype):
    def f(x):
        n = make(x.size(1), dtype=dtype)
        pair = make([x.shape[0], 7, x.shape[1] * 2], dtype=dtype)
        return x / n, n, pair, make((x.size(1) // 2,)), make(2)

    fast = braze.compile(f, fullgraph=True)
    for size in ((2, 4), (3, 6), (5, 7), (9, 3)):
        x = torch.randn(size)
        same(fast(x), f(x))
    assert len(entries(fast)) == 2


def test_a_size_that_was_put_into_a_list_from_outside_is_summed():
    def fn(x, sizes):
        sizes.append(x.shape[0])
        return x * sum(sizes)

    fast = braze.compile(fn, dynamic=True)
    for rows in (3, 4, 5):
        x = torch.ones(rows, 2)
        same(fast(x, [1, 2]), fn(x, [1, 2]))
