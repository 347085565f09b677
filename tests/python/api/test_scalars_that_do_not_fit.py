"""Numbers that the dtype of a tensor cannot hold: eager's exception, or eager's value."""

import braze
import pytest
import torch


@pytest.mark.parametrize("backend", ["eager", "aten", "braze"])
def test_an_error_of_a_kernel_that_is_no_torch_error(backend):
    def fn(x):
        return torch.full((2,), 300, dtype=x.dtype)

    fast = braze.compile(fn, backend=backend)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="without overflow"):
            fast(torch.zeros(2, dtype=torch.int8))
