"""argmax and argmin without a dim: of equal elements the first one in logical order, as eager has it,
however the tensor lies in memory."""

import braze
import pytest
import torch

VIEWS = {
    "whole": lambda x: x,
    "transposed": lambda x: x.T,
    "flipped": lambda x: x.flip(1),
    "sliced": lambda x: x[:, ::2],
    "three axes": lambda x: x.view(-1, 5, x.shape[1]).permute(2, 0, 1),
    "mask": lambda x: (x > 1).T,
}
DTYPES = [torch.float32, torch.float16, torch.float64, torch.int64, torch.int32, torch.uint8]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("view", VIEWS)
def test_first_in_logical_order(view, dtype):
    def places(x):
        seen = VIEWS[view](x)
        seen = seen.to(torch.uint8) if seen.dtype == torch.bool else seen
        return seen.argmax(), seen.argmin(), seen.argmax(0), seen.argmin(-1)

    compiled = braze.compile(places, fullgraph=True)
    for seed in range(8):
        draw = torch.Generator().manual_seed(seed)
        x = torch.randint(0, 4, (40, 50), generator=draw).to(dtype)
        if dtype.is_floating_point and seed % 2:
            x[seed, ::7] = float("nan")
        for got, want in zip(compiled(x), places(x), strict=True):
            assert torch.equal(got, want)
