"""Gradients of gradients through layers with state: discriminators as they are trained."""

import copy

import braze
import pytest
import torch
import torch.nn as nn

NORMS = {
    "batch norm": lambda: nn.BatchNorm2d(8),
    "of all batches": lambda: nn.BatchNorm2d(8, momentum=None),
    "without weights": lambda: nn.BatchNorm2d(8, affine=False),
    "without statistics": lambda: nn.BatchNorm2d(8, track_running_stats=False),
    "evaluated": lambda: nn.BatchNorm2d(8).eval(),
    "instance norm": lambda: nn.InstanceNorm2d(8, affine=True),
    "instance norm with statistics": lambda: nn.InstanceNorm2d(8, track_running_stats=True),
    "group norm": lambda: nn.GroupNorm(2, 8),
    "spectral": lambda: nn.utils.parametrizations.spectral_norm(nn.Conv2d(8, 8, 1)),
    "dropout": lambda: nn.Dropout(0.3),
}


class Discriminator(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, stride=2)
        self.norm, self.again = NORMS[norm](), NORMS[norm]()
        self.score = nn.Linear(8 * 9, 1)

    def forward(self, x):
        x = self.again(self.second(torch.tanh(self.norm(self.first(x)))))
        return self.score(nn.functional.softplus(x).flatten(1)).squeeze(1)


def train(module, call, steps):
    """Wasserstein loss with a gradient penalty (Gulrajani et al. 2017, section 4), and R1."""
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-2)
    seen = []
    for step in range(steps):
        torch.manual_seed(step)
        real, fake = torch.randn(4, 3, 10, 10), torch.rand(4, 3, 10, 10)
        between = real.lerp(fake, torch.rand(4, 1, 1, 1)).requires_grad_()
        slope = torch.autograd.grad(call(between).sum(), between, create_graph=True)[0]
        penalty = (slope.flatten(1).norm(2, 1) - 1).square().mean()
        real.requires_grad_()
        scores = call(real)
        steepness = torch.autograd.grad(scores.sum(), real, create_graph=True)[0]
        loss = call(fake).mean() - scores.mean() + 10 * penalty + 5 * steepness.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(loss.detach())
    return seen


@pytest.mark.parametrize("norm", NORMS)
def test_discriminator(norm):
    torch.manual_seed(0)
    module = Discriminator(norm)
    twin = copy.deepcopy(module)
    with torch.enable_grad():
        expected = train(module, module, 4)
        found = train(twin, braze.compile(twin), 4)
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    for (name, a), (_, b) in zip(module.state_dict().items(), twin.state_dict().items()):
        torch.testing.assert_close(b, a, rtol=1e-3, atol=1e-3, msg=name)
