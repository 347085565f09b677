"""Loops as users write them, several models and optimizers in a step.

Each makes, for a rate of dropout, its modules by name, a function that gives the step for a way to
compile what the step calls, and the tensors of a batch by number.
"""

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.nn.utils import parametrize
from torch.utils.checkpoint import checkpoint


def perceptron(given, width, wanted, dropout, activation=nn.ReLU):
    return nn.Sequential(
        nn.Linear(given, width),
        activation(),
        nn.Dropout(dropout),
        nn.Linear(width, width),
        activation(),
        nn.Linear(width, wanted),
    )


def labelled(rows=6, width=8, classes=4):
    return torch.randn(rows, width), torch.randint(classes, (rows,))


def adversaries(dropout):
    maker, critic = perceptron(8, 24, 16, dropout), perceptron(16, 24, 1, dropout, nn.LeakyReLU)

    def build(wrap):
        make, judge = wrap(maker), wrap(critic)
        to_make = optim.Adam(maker.parameters(), 1e-3, betas=(0.5, 0.999), eps=1e-4)
        to_judge = optim.Adam(critic.parameters(), 1e-3, betas=(0.5, 0.999), eps=1e-4)

        def step(real, noise):
            target = torch.ones(len(real), 1, dtype=real.dtype)
            to_judge.zero_grad()
            made = make(noise)
            of_critic = F.binary_cross_entropy_with_logits(judge(real), target)
            of_critic = of_critic + F.binary_cross_entropy_with_logits(
                judge(made.detach()), torch.zeros_like(target)
            )
            of_critic.backward()
            to_judge.step()
            to_make.zero_grad()
            of_maker = F.binary_cross_entropy_with_logits(judge(made), target)
            of_maker.backward()
            to_make.step()
            return of_critic.detach(), of_maker.detach()

        return step

    return (
        {"maker": maker, "critic": critic},
        build,
        lambda _: (torch.randn(5, 16), torch.randn(5, 8)),
    )


def soft_actor_critic(dropout):
    """Haarnoja et al. 2018: three optimizers, a slow copy of the critic, a learned temperature."""
    actor = perceptron(5, 24, 4, dropout)
    critic, slow = perceptron(7, 24, 1, 0.0), perceptron(7, 24, 1, 0.0)
    slow.load_state_dict(critic.state_dict())
    temperature = nn.ParameterList([torch.zeros(1)])

    def build(wrap):
        act, judge, judge_slowly = wrap(actor), wrap(critic), wrap(slow)
        for_actor, for_critic, for_temperature = (
            optim.Adam(m.parameters(), 1e-3, eps=1e-4) for m in (actor, critic, temperature)
        )

        def sample(state, noise):
            mean, log_std = act(state).chunk(2, -1)
            normal = torch.distributions.Normal(mean, log_std.clamp(-5, 2).exp())
            drawn = mean + normal.scale * noise
            action = torch.tanh(drawn)
            chance = normal.log_prob(drawn) - torch.log(1 - action.square() + 1e-6)
            return action, chance.sum(-1, keepdim=True)

        def step(state, action, reward, after, noise, other):
            alpha = temperature[0].exp().detach()
            with torch.no_grad():
                following, chance = sample(after, noise)
                value = judge_slowly(torch.cat([after, following], -1))
                target = reward + 0.99 * (value - alpha * chance)
            of_critic = F.mse_loss(judge(torch.cat([state, action], -1)), target)
            for_critic.zero_grad()
            of_critic.backward()
            for_critic.step()
            chosen, chance = sample(state, other)
            of_actor = (alpha * chance - judge(torch.cat([state, chosen], -1))).mean()
            for_actor.zero_grad()
            of_actor.backward()
            for_actor.step()
            of_temperature = -(temperature[0] * (chance - 2).detach()).mean()
            for_temperature.zero_grad()
            of_temperature.backward()
            for_temperature.step()
            with torch.no_grad():
                for p, q in zip(slow.parameters(), critic.parameters()):
                    p.mul_(0.99).add_(q, alpha=0.01)
            return of_critic.detach(), of_actor.detach(), of_temperature.detach()

        return step

    def batch(_):
        sizes = (5, 2, 1, 5, 2, 2)
        return tuple(torch.randn(6, size) for size in sizes)

    modules = {"actor": actor, "critic": critic, "slow": slow, "temperature": temperature}
    return modules, build, batch


class LowRank(nn.Module):
    """Hu et al. 2021, section 4.1, as a parametrization of the frozen weight."""

    def __init__(self, weight, rank=2):
        super().__init__()
        self.down = nn.Parameter(torch.randn(rank, weight.shape[1]) / 4)
        self.up = nn.Parameter(torch.randn(weight.shape[0], rank) / 10)

    def forward(self, weight):
        return weight + 2 * (self.up @ self.down)


def low_rank_adaptation(dropout):
    network = perceptron(8, 16, 4, dropout, nn.GELU)
    for layer in [m for m in network if isinstance(m, nn.Linear)]:
        layer.requires_grad_(False)
        parametrize.register_parametrization(layer, "weight", LowRank(layer.weight))

    def build(wrap):
        forward = wrap(network)
        trained = [p for p in network.parameters() if p.requires_grad]
        optimizer = optim.AdamW(trained, 1e-2, eps=1e-4)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(forward(x), y)
            loss.backward()
            nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            with torch.no_grad(), parametrize.cached():
                return loss.detach(), F.cross_entropy(forward(x), y)

        return step

    return {"network": network}, build, lambda _: labelled()


class SharedBlocks(nn.Module):
    """Two blocks, each used three times under a checkpoint, with numbers of their own."""

    def __init__(self, dropout, reentrant, width=12):
        super().__init__()
        self.reentrant = reentrant
        self.first, self.last = nn.Linear(8, width), nn.Linear(width, 4)
        self.blocks = nn.ModuleList(perceptron(width, 20, width, dropout) for _ in range(2))
        self.scale = nn.Parameter(torch.ones(width))

    def block(self, number, x, factor):
        return x + self.blocks[number](x) * factor * self.scale

    def forward(self, x):
        x = self.first(x)
        for use in range(6):
            x = checkpoint(self.block, use % 2, x, 0.5 + use / 10, use_reentrant=self.reentrant)
        return self.last(x)


def shared_blocks(dropout, reentrant=False):
    network = SharedBlocks(dropout, reentrant)

    def build(wrap):
        forward = wrap(network)
        optimizer = optim.NAdam(network.parameters(), 3e-3, eps=1e-4)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(forward(x), y)
            loss.backward()
            optimizer.step()
            return (loss.detach(),)

        return step

    return {"network": network}, build, lambda _: labelled()


def shared_blocks_reentrant(dropout):
    return shared_blocks(dropout, reentrant=True)


def parts_of_a_batch(dropout):
    """Gradients of four parts are accumulated in a step, and their norm is limited."""
    network = perceptron(8, 24, 4, dropout, nn.GELU)

    def build(wrap):
        forward = wrap(network)
        optimizer = optim.AdamW(network.parameters(), 3e-3, eps=1e-4)

        def step(x, y):
            optimizer.zero_grad()
            total = 0
            for part, labels in zip(x.chunk(4), y.chunk(4)):
                loss = F.cross_entropy(forward(part), labels) / 4
                loss.backward()
                total += loss.detach()
            norm = nn.utils.clip_grad_norm_(network.parameters(), 0.2)
            optimizer.step()
            return total, norm

        return step

    return {"network": network}, build, lambda _: labelled(rows=12)


def carried_states(dropout):
    """A language model over parts of a text; the states go on, their history does not."""
    table = nn.Embedding(40, 16, padding_idx=0)
    recurrent, logits = nn.LSTM(16, 16, 2, dropout=dropout), nn.Linear(16, 40)
    logits.weight = table.weight

    def build(wrap):
        kept = {"states": None}

        def predict(text, states):
            outputs, states = recurrent(table(text), states)
            return logits(outputs), states

        forward = wrap(predict)
        parameters = [*table.parameters(), *recurrent.parameters(), logits.bias]
        optimizer = optim.SGD(parameters, 0.5)

        def step(text):
            states = kept["states"]
            if states is None:
                zero = logits.weight.new_zeros(2, text.shape[1], 16)
                states = zero, zero.clone()
            found, states = forward(text[:-1], tuple(s.detach() for s in states))
            kept["states"] = states
            loss = F.cross_entropy(
                found.flatten(0, 1), text[1:].flatten(), ignore_index=0, label_smoothing=0.1
            )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(parameters, 0.25)
            optimizer.step()
            return (loss.detach(),)

        return step

    modules = {"table": table, "recurrent": recurrent, "logits": logits}
    return modules, build, lambda _: (torch.randint(0, 40, (9, 4)),)


LOOPS = (
    adversaries,
    soft_actor_critic,
    low_rank_adaptation,
    shared_blocks,
    shared_blocks_reentrant,
    parts_of_a_batch,
    carried_states,
)
