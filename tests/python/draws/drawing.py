"""Comparing what compiled and eager code draw, and the state in which they leave each generator."""

import random

import braze
import numpy
import torch
from support import aliasing, outcome, same


def numbers(*sizes, seed=0):
    """Standard normal numbers of a generator of their own."""
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))


def rows(count):
    return (numbers(count, 5, seed=count),)


def run(function, args, seed):
    """The outcome of a call and the states of PyTorch's, Python's and NumPy's generators."""
    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)
    kind, value, printed = outcome(function, args, {})
    generator = numpy.random.get_state()
    states = (random.getstate(), generator[1].tolist(), generator[2:])
    return kind, value, printed, torch.get_rng_state(), states


def compare_draws(make, counts=(3, 7, 3, 4), dynamic=None):
    """`make()` gives a fresh function of rows of numbers. Returns the compiled callable."""
    eager, compiled = make(), braze.compile(make(), dynamic=dynamic)
    for seed, count in enumerate(counts):
        args, compiled_args = rows(count), rows(count)
        want = run(eager, args, seed)
        got = run(compiled, compiled_args, seed)
        where = f"call {seed}"
        assert want[0] == got[0], f"{where}: {want[:2]} {got[:2]}"
        if want[0] == "raised":
            assert type(want[1]) is type(got[1]) and str(want[1]) == str(got[1]), where
        else:
            same(got[1], want[1], where, rtol=1e-4, atol=1e-5)
        assert want[2] == got[2], where
        same(compiled_args, args, f"{where}: arguments")
        assert aliasing(want[1], args) == aliasing(got[1], compiled_args), where
        assert torch.equal(want[3], got[3]), f"{where}: the state of PyTorch's generator"
        assert want[4] == got[4], f"{where}: the state of another generator"
    return compiled
