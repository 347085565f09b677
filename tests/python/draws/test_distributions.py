"""Samples of distributions are eager's, from generators left in the same state."""

import cases_draws
import pytest
import torch
from drawing import compare_draws


@pytest.mark.parametrize("dynamic", [None, True], ids=["auto", "dynamic"])
@pytest.mark.parametrize("name", cases_draws.DISTRIBUTIONS)
def test_distributions(name, dynamic):
    make = cases_draws.DISTRIBUTIONS[name]

    def f(x):
        d = make(x)
        return d.sample(), d.sample((2,)), d.rsample() if d.has_rsample else None, torch.rand(2)

    compare_draws(lambda: f, counts=(3, 7, 3), dynamic=dynamic)
