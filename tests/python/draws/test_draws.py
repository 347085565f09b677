"""The same random numbers as eager, in the same order, from generators left in the same state."""

import cases_draws
import pytest
import torch
from drawing import compare_draws
from support import entries

DYNAMIC = pytest.mark.parametrize("dynamic", [None, True], ids=["auto", "dynamic"])


@DYNAMIC
@pytest.mark.parametrize("place", cases_draws.PLACES)
def test_fills(place, dynamic):
    """All ways to fill a tensor, one after the other, so that each starts where the last ended."""

    def f(x):
        results = []
        for name, args in cases_draws.FILLS.items():
            y = cases_draws.PLACES[place](x)
            try:
                results.append(getattr(y, name.split()[0])(*args) + 0)
            except RuntimeError as error:
                results.append(str(error))
        return results, torch.rand(2)

    compare_draws(lambda: f, dynamic=dynamic)


@DYNAMIC
@pytest.mark.parametrize("name", cases_draws.INITIALISERS)
def test_initialisers(name, dynamic):
    call = cases_draws.INITIALISERS[name]

    def f(x):
        y = x * 2
        result = call(y)
        call(x)
        return y + 1, result is y, torch.rand(2)

    compare_draws(lambda: f, dynamic=dynamic)


@DYNAMIC
@pytest.mark.parametrize("name", cases_draws.SAMPLERS)
def test_samplers(name, dynamic):
    call = cases_draws.SAMPLERS[name]
    compare_draws(lambda: lambda x: (call(x), torch.rand(2)), counts=(3, 7, 3), dynamic=dynamic)


@DYNAMIC
@pytest.mark.parametrize("name", cases_draws.PROGRAMS)
def test_programs(name, dynamic):
    compare_draws(cases_draws.PROGRAMS[name], dynamic=dynamic)


@pytest.mark.parametrize(
    "name",
    [
        "normal of two tensors",
        "normal of a mean",
        "normal of a deviation",
        "poisson",
        "gamma",
        "native dropout",
        "attention of heads",
        "attention with a mask",
    ],
)
def test_sizes_stay_symbols(name):
    call = cases_draws.SAMPLERS[name]
    compiled = compare_draws(lambda: call, counts=(3, 4, 5, 6, 7))
    assert len(entries(compiled)) == 2


def test_calls_follow_each_other():
    """Only a call that fails sets the generator back."""

    def f(x):
        return x + torch.rand(1)

    compiled = compare_draws(lambda: f)
    torch.manual_seed(0)
    want = [torch.rand(1) for _ in range(3)]
    torch.manual_seed(0)
    got = [compiled(torch.zeros(1)) for _ in range(3)]
    assert torch.equal(torch.cat(got), torch.cat(want))
