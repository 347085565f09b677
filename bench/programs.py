"""Training programs that are more than a model with a loss: several models and optimizers in a
step, noise that the step draws, gradients inside of the loss.

Each is a module of all that a step changes and the step itself, which includes the optimizers'. In
small sizes they are those of tests (`tests/python/training/test_training_programs.py`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn, optim


class Program(nn.Module):
    """A step of training. `step(calls, **batch)` gives its losses by name, without a history;
    `calls` has what the step calls under the names of `called`, compiled or not."""

    called: tuple[str, ...] = ()

    def __init__(self):
        super().__init__()
        self.optimizers: list[optim.Optimizer] = []

    def calls(self, wrap: Callable = lambda function: function) -> SimpleNamespace:
        return SimpleNamespace(**{name: wrap(getattr(self, name)) for name in self.called})

    def optimizer(self, module: nn.Module, make: Callable = optim.AdamW, **options):
        """One for the parameters of a part."""
        self.optimizers.append(make(module.parameters(), **options))
        return self.optimizers[-1]


@dataclass(frozen=True)
class Made:
    """make(dropout, small): the program and what its step is given each time."""

    name: str
    title: str
    make: Callable[[float, bool], tuple[Program, dict[str, torch.Tensor]]]
    has_dropout: bool = True


def _drawn(like: torch.Tensor, *shape: int) -> torch.Tensor:
    """Normal numbers of single precision, the same ones whatever the dtype of `like`."""
    return torch.randn(shape).to(like.dtype)


def _generator(noise: int, width: int) -> nn.Module:
    """4x4, 8x8, 16x16, 32x32 (Radford et al. 2016, figure 1)."""

    def up(before, after):
        return [
            nn.ConvTranspose2d(before, after, 4, 2, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
        ]

    return nn.Sequential(
        nn.Linear(noise, 4 * width * 16),
        nn.Unflatten(1, (4 * width, 4, 4)),
        *up(4 * width, 2 * width),
        *up(2 * width, width),
        nn.ConvTranspose2d(width, 3, 4, 2, 1),
        nn.Tanh(),
    )


def _critic(width: int, dropout: float, norm: Callable) -> nn.Module:
    def down(before, after):
        return [
            nn.Conv2d(before, after, 4, 2, 1),
            norm(after),
            nn.LeakyReLU(0.2),
            nn.Dropout2d(dropout),
        ]

    return nn.Sequential(
        nn.Conv2d(3, width, 4, 2, 1),
        nn.LeakyReLU(0.2),
        *down(width, 2 * width),
        *down(2 * width, 4 * width),
        nn.Flatten(),
        nn.Linear(4 * width * 16, 1),
    )


class Adversaries(Program):
    """A generator and a discriminator (Goodfellow et al. 2014, algorithm 1), an optimizer each."""

    called = ("generator", "discriminator")

    def __init__(self, dropout, noise, width):
        super().__init__()
        self.noise = noise
        self.generator = _generator(noise, width)
        self.discriminator = _critic(width, dropout, nn.BatchNorm2d)
        options = {"lr": 2e-4, "betas": (0.5, 0.999), "eps": 1e-4}
        self.of_generator = self.optimizer(self.generator, optim.Adam, **options)
        self.of_discriminator = self.optimizer(self.discriminator, optim.Adam, **options)

    def step(self, calls, real):
        made = calls.generator(_drawn(real, real.shape[0], self.noise))
        self.of_discriminator.zero_grad()
        of_real, of_made = calls.discriminator(real), calls.discriminator(made.detach())
        loss = _judged(of_real, 1.0) + _judged(of_made, 0.0)
        loss.backward()
        self.of_discriminator.step()
        self.of_generator.zero_grad()
        deceit = _judged(calls.discriminator(made), 1.0)
        deceit.backward()  # gradients of the discriminator are left behind
        self.of_generator.step()
        return {"discriminator": loss.detach(), "generator": deceit.detach()}


def _judged(score: torch.Tensor, wanted: float) -> torch.Tensor:
    return F.binary_cross_entropy_with_logits(score, torch.full_like(score, wanted))


class WassersteinCritic(Program):
    """A critic's step with a gradient penalty (Gulrajani et al. 2017, algorithm 1)."""

    called = ("generator", "critic")

    def __init__(self, dropout, noise, width):
        super().__init__()
        self.noise = noise
        self.generator = _generator(noise, width).requires_grad_(False)
        self.critic = _critic(width, dropout, lambda width: nn.GroupNorm(1, width))
        self.of_critic = self.optimizer(
            self.critic, optim.Adam, lr=1e-4, betas=(0.0, 0.9), eps=1e-4
        )

    def step(self, calls, real):
        made = calls.generator(_drawn(real, real.shape[0], self.noise))
        share = torch.rand(real.shape[0], 1, 1, 1).to(real.dtype)
        between = real.lerp(made, share).requires_grad_()
        score = calls.critic(between)
        (slope,) = torch.autograd.grad(score.sum(), between, create_graph=True)
        penalty = (slope.flatten(1).norm(2, dim=1) - 1).square().mean()
        loss = calls.critic(made).mean() - calls.critic(real).mean() + 10 * penalty
        self.of_critic.zero_grad()
        loss.backward()
        self.of_critic.step()
        return {"loss": loss.detach(), "penalty": penalty.detach()}


class ResidualBlock(nn.Module):
    def __init__(self, before, after, time, dropout):
        super().__init__()
        self.first = nn.Sequential(
            nn.GroupNorm(8, before), nn.SiLU(), nn.Conv2d(before, after, 3, padding=1)
        )
        self.time = nn.Sequential(nn.SiLU(), nn.Linear(time, after))
        self.second = nn.Sequential(
            nn.GroupNorm(8, after),
            nn.SiLU(),
            nn.Dropout(dropout),
            nn.Conv2d(after, after, 3, padding=1),
        )
        self.skip = nn.Conv2d(before, after, 1) if before != after else nn.Identity()

    def forward(self, x, time):
        inner = self.first(x) + self.time(time)[:, :, None, None]
        return self.skip(x) + self.second(inner)


class PixelAttention(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(8, width)
        self.inputs, self.output = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        parts = self.inputs(self.norm(x)).flatten(2).unflatten(1, (3, self.heads, -1))
        query, key, value = (part.transpose(-1, -2) for part in parts.unbind(1))
        found = F.scaled_dot_product_attention(query, key, value)
        return x + self.output(found.transpose(-1, -2).reshape(x.shape))


class Denoiser(nn.Module):
    """A U-Net of three levels that is told the time (Ho et al. 2020, appendix B)."""

    def __init__(self, width, dropout):
        super().__init__()
        time = 4 * width
        steps = torch.arange(width // 2) / (width // 2)
        self.register_buffer("frequencies", torch.exp(-math.log(1e4) * steps))
        self.time = nn.Sequential(nn.Linear(width, time), nn.SiLU(), nn.Linear(time, time))

        def block(before, after):
            return ResidualBlock(before, after, time, dropout)

        self.into = nn.Conv2d(3, width, 3, padding=1)
        self.down1, self.down2 = block(width, width), block(width, 2 * width)
        self.shrink1 = nn.Conv2d(width, width, 3, stride=2, padding=1)
        self.shrink2 = nn.Conv2d(2 * width, 2 * width, 3, stride=2, padding=1)
        self.middle1, self.middle2 = block(2 * width, 4 * width), block(4 * width, 2 * width)
        self.attention = PixelAttention(4 * width)
        self.grow = nn.Upsample(scale_factor=2)
        self.up2, self.up1 = block(4 * width, width), block(2 * width, width)
        self.out = nn.Sequential(
            nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1)
        )

    def forward(self, x, time):
        angles = time[:, None] * self.frequencies
        time = self.time(torch.cat([angles.sin(), angles.cos()], -1))
        first = self.down1(self.into(x), time)
        second = self.down2(self.shrink1(first), time)
        x = self.attention(self.middle1(self.shrink2(second), time))
        x = self.grow(self.middle2(x, time))
        x = self.up2(torch.cat([x, second], 1), time)
        return self.out(self.up1(torch.cat([self.grow(x), first], 1), time))


class Diffusion(Program):
    """To be found: the noise that a step of a schedule has added (Ho et al. 2020, algorithm 1)."""

    called = ("network",)

    def __init__(self, dropout, width, steps=1000):
        super().__init__()
        self.network = Denoiser(width, dropout)
        kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, steps), 0)
        self.register_buffer("kept", kept)
        self.of_network = self.optimizer(self.network, lr=2e-4, eps=1e-4)

    def step(self, calls, images):
        noise = _drawn(images, *images.shape)
        time = torch.randint(0, self.kept.shape[0], (images.shape[0],))
        kept = self.kept[time][:, None, None, None]
        found = calls.network(kept.sqrt() * images + (1 - kept).sqrt() * noise, time)
        loss = F.mse_loss(found, noise)
        self.of_network.zero_grad()
        loss.backward()
        self.of_network.step()
        return {"loss": loss.detach()}


class MessageLayer(nn.Module):
    """Messages of edges are summed at their goals and averaged (Gilmer et al. 2017, section 2)."""

    def __init__(self, width, features, dropout):
        super().__init__()
        self.message = nn.Sequential(
            nn.Linear(2 * width + features, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU()
        )
        self.update = nn.Linear(3 * width, width)
        self.norm, self.dropout = nn.BatchNorm1d(width), nn.Dropout(dropout)

    def forward(self, nodes, source, goal, features):
        messages = self.message(torch.cat([nodes[source], nodes[goal], features], -1))
        total = torch.zeros_like(nodes).index_add(0, goal, messages)
        count = nodes.new_zeros(nodes.shape[0]).scatter_add(
            0, goal, torch.ones_like(messages[:, 0])
        )
        mean = total / count.clamp(min=1)[:, None]
        changed = self.norm(self.update(torch.cat([nodes, total, mean], -1)))
        return nodes + self.dropout(F.relu(changed))


class GraphNetwork(nn.Module):
    """Four rounds of messages; a number for each graph."""

    def __init__(self, width, dropout, kinds=16, features=8, layers=4):
        super().__init__()
        self.kinds = nn.Embedding(kinds, width)
        self.layers = nn.ModuleList(MessageLayer(width, features, dropout) for _ in range(layers))
        self.head = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))

    def forward(self, kinds, edges, features, graph, graphs):
        nodes, (source, goal) = self.kinds(kinds), edges
        for layer in self.layers:
            nodes = layer(nodes, source, goal, features)
        place = graph[:, None].expand_as(nodes)
        pooled = nodes.new_zeros(graphs, nodes.shape[1]).scatter_add(0, place, nodes)
        return self.head(pooled).squeeze(-1)


class Graphs(Program):
    called = ("network",)

    def __init__(self, dropout, width):
        super().__init__()
        self.network = GraphNetwork(width, dropout)
        self.of_network = self.optimizer(self.network, lr=1e-3, eps=1e-4)

    def step(self, calls, kinds, edges, features, graph, target):
        found = calls.network(kinds, edges, features, graph, target.shape[0])
        loss = F.huber_loss(found, target)
        self.of_network.zero_grad()
        loss.backward()
        self.of_network.step()
        return {"loss": loss.detach()}


class Energy(nn.Module):
    """Atoms that gather from each other by distance (Schuett et al. 2017): radial functions, three
    continuous filters, a sum over atoms."""

    def __init__(self, width, dropout, functions=32, cutoff=5.0, layers=3):
        super().__init__()
        self.cutoff = cutoff
        self.register_buffer("centers", torch.linspace(0, cutoff, functions))
        self.kinds = nn.Embedding(10, width)

        def two(before, middle, after):
            return nn.Sequential(nn.Linear(before, middle), nn.Softplus(), nn.Linear(middle, after))

        self.filters = nn.ModuleList(two(functions, width, width) for _ in range(layers))
        self.before = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.after = nn.ModuleList(two(width, width, width) for _ in range(layers))
        self.dropout = nn.Dropout(dropout)
        self.head = two(width, width // 2, 1)

    def forward(self, kinds, positions):
        atoms = positions.shape[1]
        apart = positions[:, :, None] - positions[:, None]
        self_pairs = torch.eye(atoms, dtype=torch.bool)
        # The root has no slope at 0: atoms are kept off themselves.
        distance = (apart.square().sum(-1) + self_pairs).sqrt()
        radial = torch.exp(-4 * (distance[..., None] - self.centers).square())
        near = 0.5 * (torch.cos(math.pi * distance / self.cutoff) + 1) * (distance < self.cutoff)
        near = near.masked_fill(self_pairs, 0)[..., None]
        x = self.kinds(kinds)
        for filters, before, after in zip(self.filters, self.before, self.after):
            gathered = (filters(radial) * near * before(x)[:, None]).sum(2)
            x = x + self.dropout(after(gathered))
        return self.head(x).squeeze(-1).sum(-1)


class Forces(Program):
    """Energies and forces are to be found; forces are the energy's slope."""

    called = ("energy",)

    def __init__(self, dropout, width):
        super().__init__()
        self.energy = Energy(width, dropout)
        self.of_energy = self.optimizer(self.energy, lr=1e-3, eps=1e-4)

    def step(self, calls, kinds, positions, energy, forces):
        positions = positions.detach().requires_grad_()
        found = calls.energy(kinds, positions)
        (slope,) = torch.autograd.grad(found.sum(), positions, create_graph=True)
        loss = F.mse_loss(found, energy) + 10 * F.mse_loss(-slope, forces)
        self.of_energy.zero_grad()
        loss.backward()
        self.of_energy.step()
        return {"loss": loss.detach()}


class FewShots(nn.Module):
    """Three convolutions and a classifier, by weights that are given (Finn et al. 2017, A.1)."""

    def __init__(self, width, classes):
        super().__init__()
        self.convolutions = nn.ParameterList()
        self.scales, self.shifts = nn.ParameterList(), nn.ParameterList()
        for before in (1, width, width):
            self.convolutions.append(0.2 * torch.randn(width, before, 3, 3))
            self.scales.append(torch.ones(width))
            self.shifts.append(torch.zeros(width))
        self.classifier = nn.Parameter(0.1 * torch.randn(classes, 4 * width))

    def weights(self):
        return [*self.convolutions, *self.scales, *self.shifts, self.classifier]

    def forward(self, weights, images, labels):
        x = images
        for convolution, scale, shift in zip(weights[:3], weights[3:6], weights[6:9]):
            x = F.conv2d(x, convolution, padding=1)
            x = F.batch_norm(x, None, None, scale, shift, training=True)
            x = F.max_pool2d(F.relu(x), 2)
        return F.cross_entropy(F.linear(x.flatten(1), weights[9]), labels)


class MetaLearning(Program):
    """Weights from which a few steps lead far (Finn et al. 2017, algorithm 2)."""

    called = ("learner",)

    def __init__(self, width, classes=5, inner_steps=2):
        super().__init__()
        self.inner_steps = inner_steps
        self.learner = FewShots(width, classes)
        self.of_learner = self.optimizer(self.learner, lr=1e-3, eps=1e-4)

    def step(self, calls, images, labels, other_images, other_labels):
        total = 0.0
        for task in range(images.shape[0]):
            weights = self.learner.weights()
            for _ in range(self.inner_steps):
                loss = calls.learner(weights, images[task], labels[task])
                slopes = torch.autograd.grad(loss, weights, create_graph=True)
                weights = [w - 0.1 * slope for w, slope in zip(weights, slopes)]
            total = total + calls.learner(weights, other_images[task], other_labels[task])
        loss = total / images.shape[0]
        self.of_learner.zero_grad()
        loss.backward()
        self.of_learner.step()
        return {"loss": loss.detach()}


def _adversaries(dropout, small):
    program = Adversaries(dropout, *((8, 4) if small else (64, 32)))
    return program, {"real": torch.randn(4 if small else 32, 3, 32, 32).tanh()}


def _wasserstein_critic(dropout, small):
    program = WassersteinCritic(dropout, *((8, 4) if small else (64, 32)))
    return program, {"real": torch.randn(4 if small else 16, 3, 32, 32).tanh()}


def _diffusion(dropout, small):
    side = 8 if small else 32
    program = Diffusion(dropout, 8 if small else 32)
    return program, {"images": torch.randn(2 if small else 8, 3, side, side).tanh()}


def _graphs(dropout, small):
    graphs, each, edges = (3, 6, 40) if small else (64, 30, 4000)
    offset = torch.randint(graphs, (edges,)) * each
    batch = {
        "kinds": torch.randint(16, (graphs * each,)),
        "edges": torch.randint(each, (2, edges)) + offset,
        "features": torch.randn(edges, 8),
        "graph": torch.arange(graphs).repeat_interleave(each),
        "target": torch.randn(graphs),
    }
    return Graphs(dropout, 16 if small else 64), batch


def _forces(dropout, small):
    molecules, atoms, width = (2, 5, 16) if small else (8, 20, 64)
    batch = {
        "kinds": torch.randint(10, (molecules, atoms)),
        "positions": 1.5 * torch.randn(molecules, atoms, 3),
        "energy": torch.randn(molecules),
        "forces": torch.randn(molecules, atoms, 3),
    }
    return Forces(dropout, width), batch


def _meta_learning(dropout, small):
    tasks, images = (2, 5) if small else (4, 25)

    def labels():
        return torch.arange(images).remainder(5).repeat(tasks, 1)

    batch = {
        "images": torch.randn(tasks, images, 1, 16, 16),
        "labels": labels(),
        "other_images": torch.randn(tasks, images, 1, 16, 16),
        "other_labels": labels(),
    }
    return MetaLearning(8 if small else 32), batch


PROGRAMS: dict[str, Made] = {
    program.name: program
    for program in (
        Made("gan", "DCGAN, 32x3x32x32, two optimizers", _adversaries),
        Made("gradient_penalty", "Critic with a gradient penalty, 16x3x32x32", _wasserstein_critic),
        Made("diffusion", "Diffusion, U-Net of 3 levels, 8x3x32x32", _diffusion),
        Made("graph_network", "Graph network, 4 layers, 4000 edges", _graphs),
        Made("forces", "Energies and forces of 8 molecules of 20 atoms", _forces),
        Made("meta_learning", "MAML, 2 inner steps, 4 tasks", _meta_learning, has_dropout=False),
    )
}


def build(name: str, dropout: float = 0.0, small: bool = False, seed: int = 0):
    """The program in training mode and a batch; the same numbers for the same seed."""
    torch.manual_seed(seed)
    program, batch = PROGRAMS[name].make(dropout, small)
    return program.train(), batch
