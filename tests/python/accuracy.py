"""The rule for models: no further from the fp64 result than eager is, up to a factor."""

import copy

import torch

from bench.models import tensors


def exact_result(model, arguments):
    """The tensors of `model(**arguments)` computed in fp64; None where the model cannot be."""
    exact = copy.deepcopy(model).double()
    if hasattr(exact, "set_experts_implementation"):  # grouped products have no fp64 kernel
        exact.set_experts_implementation("eager")
    wide = {
        name: value.double() if torch.is_tensor(value) and value.is_floating_point() else value
        for name, value in arguments.items()
    }
    return tensors(exact(**wide))


def assert_accurate(compiled, eager, exact):
    """rmse(compiled, exact) <= k * rmse(eager, exact) + tol / 10; k = 2, 3 below 1000 elements."""
    for number, (c, e, x) in enumerate(zip(compiled, eager, exact, strict=True)):
        layout = (c.dtype, c.shape, c.stride()), (e.dtype, e.shape, e.stride())
        assert layout[0] == layout[1], f"tensor {number}: {layout[0]} is not {layout[1]}"
        if not c.is_floating_point():
            assert torch.equal(c, e), f"tensor {number}"
            continue
        ours, theirs = ((t.double() - x).square().mean().sqrt().item() for t in (c, e))
        k = 3 if c.numel() < 1000 else 2
        assert ours <= k * theirs + 1e-5, f"tensor {number}: rmse {ours}, eager's {theirs}"
