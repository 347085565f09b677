"""Steps of training with a scheduler of learning rates, in eager and compiled, side by side."""

import functools
import math
import warnings

import braze
import torch
import torch.nn as nn
import torch.nn.functional as F
from comparing import assert_same, assert_same_state
from torch.optim import lr_scheduler, swa_utils


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))


def batch(number):
    maker = torch.Generator().manual_seed(number)
    return torch.randn(5, 8, generator=maker), torch.randint(0, 4, (5,), generator=maker)


def cosine_with_warmup(current, *, warmup, total, cycles):
    """Of `transformers`."""
    if current < warmup:
        return float(current) / float(max(1, warmup))
    progress = float(current - warmup) / float(max(1, total - warmup))
    return max(0.0, 0.5 * (1.0 + math.cos(math.pi * float(cycles) * 2.0 * progress)))


class InverseRoot(lr_scheduler.LRScheduler):
    """Vaswani et al. 2017, section 5.3."""

    def __init__(self, optimizer, warmup=4, last_epoch=-1):
        self.warmup = warmup
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        if not self._get_lr_called_within_step:
            warnings.warn("please use `get_last_lr()`", UserWarning)
        step = max(1, self.last_epoch)
        scale = self.warmup**0.5 * min(step**-0.5, step * self.warmup**-1.5)
        return [base_lr * scale for base_lr in self.base_lrs]


class Decay(lr_scheduler.LRScheduler):
    def get_lr(self):
        if self.last_epoch == 0:
            return [group["lr"] for group in self.optimizer.param_groups]
        return [0.9 * rate for rate in self._last_lr]


class Growth:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, epoch):
        return self.factor**epoch


S = lr_scheduler
SCHEDULERS = {
    "lambda": lambda o: S.LambdaLR(o, lambda epoch: 0.95**epoch),
    "lambda, warm up": lambda o: S.LambdaLR(
        o, functools.partial(cosine_with_warmup, warmup=5, total=30, cycles=0.5)
    ),
    "lambda, object": lambda o: S.LambdaLR(o, Growth(0.9)),
    "multiplicative": lambda o: S.MultiplicativeLR(o, lambda epoch: 0.95),
    "step": lambda o: S.StepLR(o, 3, gamma=0.5),
    "milestones": lambda o: S.MultiStepLR(o, [4, 9, 9], gamma=0.5),
    "constant": lambda o: S.ConstantLR(o, total_iters=5),
    "linear": lambda o: S.LinearLR(o, total_iters=7),
    "exponential": lambda o: S.ExponentialLR(o, 0.9),
    "cosine": lambda o: S.CosineAnnealingLR(o, 10, eta_min=1e-4),
    "restarts": lambda o: S.CosineAnnealingWarmRestarts(o, 5, T_mult=2),
    "one cycle": lambda o: S.OneCycleLR(o, 0.1, total_steps=60),
    "one cycle, rate alone": lambda o: S.OneCycleLR(o, 0.1, total_steps=60, cycle_momentum=False),
    "cyclic": lambda o: S.CyclicLR(o, 0.01, 0.1, step_size_up=4, cycle_momentum=True),
    "cyclic, own scale": lambda o: S.CyclicLR(
        o, 0.01, 0.1, step_size_up=4, scale_fn=lambda x: 0.9**x, scale_mode="iterations"
    ),
    "polynomial": lambda o: S.PolynomialLR(o, total_iters=25, power=2.0),
    "sequence": lambda o: S.SequentialLR(
        o, [S.LinearLR(o, total_iters=5), S.CosineAnnealingLR(o, 15)], milestones=[5]
    ),
    "chained": lambda o: S.ChainedScheduler(
        [S.LinearLR(o, total_iters=5), S.ExponentialLR(o, 0.9)], optimizer=o
    ),
    "averaging": lambda o: swa_utils.SWALR(o, swa_lr=0.05, anneal_epochs=6),
    "own class": InverseRoot,
    "own class, from the last": Decay,
}
CYCLE_MOMENTUM = ("one cycle", "cyclic", "cyclic, own scale")
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
}
STEPS = 24


def state_of(scheduler):
    def plain(value):
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [plain(item) for item in value]
        return value if isinstance(value, (int, float, str, type(None))) else type(value).__name__

    return plain(scheduler.state_dict())


def rates(optimizer):
    return [
        {key: value for key, value in group.items() if key != "params"}
        for group in optimizer.param_groups
    ]


class Run:
    """A step of training and all that it works on."""

    def __init__(self, make_optimizer, make_scheduler, make_step, compiled):
        self.module = network()
        self.optimizer = make_optimizer(self.module.parameters())
        self.scheduler = make_scheduler(self.optimizer)
        self.step = make_step(self.module, self.optimizer, self.scheduler)
        self.call = braze.compile(self.step) if compiled else self.step
        self.warnings = []

    def __call__(self, number):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = self.call(*batch(number))
        self.warnings.append([(str(w.message), w.category, w.filename, w.lineno) for w in caught])
        return result


def compare(make_step, make_scheduler, make_optimizer=OPTIMIZERS["sgd"], steps=STEPS, between=None):
    """The same steps in eager and compiled; the compiled run."""
    eager, fast = runs = [
        Run(make_optimizer, make_scheduler, make_step, compiled) for compiled in (False, True)
    ]
    for number in range(steps):
        wanted, got = (torch.utils._pytree.tree_leaves(run(number)) for run in runs)
        assert len(wanted) == len(got)
        for a, b in zip(got, wanted, strict=True):
            if isinstance(b, torch.Tensor):
                assert_same(a.detach(), b.detach(), rtol=1e-3, atol=1e-5)
            else:
                assert a == b
        assert state_of(fast.scheduler) == state_of(eager.scheduler)
        assert rates(fast.optimizer) == rates(eager.optimizer)
        if between is not None:
            for run in runs:
                between(run, number)
    assert_same_state(eager.module, fast.module, rtol=1e-3, atol=1e-5)
    for a, b in zip(eager.module.parameters(), fast.module.parameters(), strict=True):
        assert (a.grad is None) == (b.grad is None)
    assert fast.warnings == eager.warnings
    return fast


def whole(module, optimizer, scheduler):
    def step(x, y):
        loss = F.cross_entropy(module(x), y)
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def assert_one_graph(run, number=STEPS):
    explained = braze.explain(run.step)(*batch(number))
    assert explained.breaks == []
    assert len(explained.entries) == 1
