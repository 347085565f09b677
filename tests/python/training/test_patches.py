"""Convolutions whose windows lie side by side, as the first layer of a vision transformer."""

import pytest
import torch
from comparing import captured, train
from torch import nn


class Patches(nn.Module):
    def __init__(self, window=(4, 2), bias=True):
        super().__init__()
        self.embed = nn.Conv2d(3, 6, window, stride=window, bias=bias)
        self.head = nn.Linear(6, 5)

    def forward(self, images):
        return self.head(self.embed(images).flatten(2).transpose(1, 2).tanh().mean(1))


def batches(*sizes, layout=torch.contiguous_format):
    torch.manual_seed(1)
    return [
        (torch.randn(*size).to(memory_format=layout), torch.randn(size[0], 5)) for size in sizes
    ]


def loss(result, wanted):
    return nn.functional.mse_loss(result, wanted)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_gradients(bias, layout):
    torch.manual_seed(0)
    _, fast = train(Patches(bias=bias), loss, batches((2, 3, 12, 8), layout=layout))
    assert captured(fast, torch.randn(2, 3, 12, 8))


def test_batches_and_images_of_other_sizes():
    torch.manual_seed(0)
    given = batches((2, 3, 12, 8), (3, 3, 12, 8), (5, 3, 16, 8), (1, 3, 12, 4), (4, 3, 13, 9))
    train(Patches(), loss, given, steps=10)


@pytest.mark.parametrize("images", ["leaf", "of a layer"])
def test_images_that_have_a_gradient(images):
    torch.manual_seed(0)
    before = nn.Conv2d(3, 3, 1) if images == "of a layer" else nn.Identity()
    module = nn.Sequential(before, Patches())
    given = batches((2, 3, 12, 8))
    given[0][0].requires_grad_(images == "leaf")
    train(module, loss, given)


def test_frozen_weights():
    torch.manual_seed(0)
    module = Patches()
    module.embed.bias.requires_grad_(False)
    train(module, loss, batches((2, 3, 12, 8)))
