"""The same random numbers as eager, in the same order, from generators left in the same state."""

import cases_draws
import pytest
import torch
from drawing import compare_draws

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
