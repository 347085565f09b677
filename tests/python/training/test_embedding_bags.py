"""Bags of embeddings, whose kernel trusts offsets and sizes."""

import braze
import pytest
import torch
import torch.nn.functional as F

BAGS = {
    "rows": (torch.tensor([[0, 1, 4], [2, 2, 0]]), None, False),
    "offsets": (torch.tensor([0, 1, 1, 0, 1, 4]), torch.tensor([0, 3]), False),
    "offsets and the end": (torch.tensor([0, 1, 1, 0, 1, 4]), torch.tensor([0, 3, 6]), True),
    "an empty bag": (torch.tensor([0, 1, 1, 0, 1, 4]), torch.tensor([0, 3, 3, 6]), True),
    "nothing": (torch.tensor([], dtype=torch.long), torch.tensor([0, 0]), True),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("bags", BAGS)
def test_embedding_bags(bags, mode, dtype):
    indices, offsets, has_end = BAGS[bags]

    def f(weight, indices, offsets):
        bag = F.embedding_bag(indices, weight, offsets, mode=mode, include_last_offset=has_end)
        return bag.exp()

    def gradient(call):
        weight = torch.arange(25, dtype=dtype).reshape(5, 5).div(25).requires_grad_()
        result = call(weight, indices, offsets)
        return result.detach(), torch.autograd.grad(result.sum(), weight)[0]

    compiled = braze.compile(f, fullgraph=True)
    with torch.enable_grad():
        for _ in range(3):
            torch.testing.assert_close(gradient(compiled), gradient(f))


def test_weights_that_the_kernel_does_not_take():
    def f(weight):
        F.embedding_bag(BAGS["offsets"][0], weight, BAGS["offsets"][1])
        return weight + 1

    with pytest.raises(RuntimeError) as wanted:
        f(torch.ones(5, 5, dtype=torch.long))
    with pytest.raises(RuntimeError) as found:
        braze.compile(f)(torch.ones(5, 5, dtype=torch.long))
    assert str(found.value) == str(wanted.value)
