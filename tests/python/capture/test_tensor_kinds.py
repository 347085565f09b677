"""Tensors of a trace as keys, and asked for their legacy types."""

import collections

import braze
import pytest
import torch


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "cls",
    [torch.FloatTensor, torch.LongTensor, torch.BoolTensor, (torch.HalfTensor, torch.IntTensor)],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool, torch.float16])
def test_legacy_types(cls, dtype, dynamic):
    def f(x):
        made = x.clone()
        return isinstance(made, cls), isinstance(x, cls), isinstance(made, (cls, torch.Tensor))

    x = torch.ones(3).to(dtype)
    assert braze.compile(f, dynamic=dynamic)(x) == f(x)


KEYS = {
    "set": lambda a: a in set([a]),
    "frozenset": lambda a: a in frozenset([a]),
    "generator": lambda a: a in set(x for x in [a]),
    "update": lambda a: (lambda s: (s.update([a]), a in s, len(s)))(set()),
    "discard": lambda a: (lambda s: (s.discard(a), len(s)))(set([a])),
    "and": lambda a: len({a} & set([a])),
    "equal": lambda a: ({a} == set([a]), set([a]) <= {a}),
    "dict": lambda a: (a in dict([(a, 1)]), dict([(a, 1)]).get(a)),
    "fromkeys": lambda a: a in dict.fromkeys([a]),
    "OrderedDict": lambda a: a in collections.OrderedDict([(1, 1), (a, 2)]),
    "Counter": lambda a: collections.Counter([a, a])[a],
    "in a tuple": lambda a: (a, 1) in set([(a, 1)]),
    "what comes out": lambda a: next(iter(set([a]))) is a,
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("case", KEYS)
def test_keys_that_native_code_puts(case, dynamic):
    f = KEYS[case]
    compiled = braze.compile(f, dynamic=dynamic)
    for size in (5, 7, 7):
        a = torch.zeros(size)
        assert compiled(a) == f(a)


def test_keys_put_into_an_outside_set():
    def f(a, kept):
        kept.update([a])
        return len(kept), a in kept

    compiled = braze.compile(f, dynamic=True)
    for size in (5, 7):
        a = torch.zeros(size)
        kept = {a}
        assert compiled(a, kept) == (1, True)
        empty = set()
        assert compiled(a, empty) == (1, True)
        assert next(iter(empty)) is a
