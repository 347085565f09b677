"""Steps over many tensors, which are a few launches, against eager."""

import braze
import pytest
import torch
import torch.nn as nn

SHAPES = [(37, 11), (64,), (5,), (128, 64), (1,), (3, 3, 2), (2000,)]
OPTIMIZERS = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "nesterov": lambda p: torch.optim.SGD(
        p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-2
    ),
    "adam": lambda p: torch.optim.Adam(p, lr=1e-2),
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-2, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=1e-2, momentum=0.5),
}


@pytest.fixture(autouse=True)
def _gradients():
    torch.manual_seed(0)
    with torch.enable_grad():
        yield


def parameters(dtype=torch.float32, count=60):
    return [
        nn.Parameter(torch.randn(SHAPES[i % len(SHAPES)], dtype=dtype, device="cuda"))
        for i in range(count)
    ]


def alike(kept, other):
    for one, two in zip(kept, other, strict=True):
        torch.testing.assert_close(one, two, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name, mode):
    ours = parameters()
    theirs = [nn.Parameter(p.detach().clone()) for p in ours]
    mine, eager = OPTIMIZERS[name](ours), OPTIMIZERS[name](theirs)
    step = braze.compile(mine.step, mode=mode)
    for i in range(5):
        for p, q in zip(ours, theirs, strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        for optimizer in (mine, eager):
            optimizer.param_groups[0]["lr"] = 0.1 / (i + 1)
        step()
        eager.step()
        alike([p.detach() for p in ours], [q.detach() for q in theirs])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_clipped_gradients(dtype):
    ours = parameters(dtype)
    for p in ours:
        p.grad = torch.randn_like(p)
    theirs = [p.grad.clone() for p in ours]
    compiled = braze.compile(lambda: nn.utils.clip_grad_norm_(ours, 1.0))
    norm = compiled()
    expected = torch.linalg.vector_norm(
        torch.stack([torch.linalg.vector_norm(g.double()) for g in theirs])
    )
    tolerance = 1e-5 if dtype == torch.float32 else 2e-2
    torch.testing.assert_close(norm.double(), expected, rtol=tolerance, atol=0)
    for p, g in zip(ours, theirs, strict=True):
        torch.testing.assert_close(
            p.grad, (g.double() / expected).to(dtype), rtol=tolerance, atol=tolerance
        )


@pytest.mark.parametrize("count", [2, 7, 200, 700])
def test_lists_of_any_length(count):
    def update(xs, ys):
        torch._foreach_mul_(xs, 0.5)
        torch._foreach_add_(xs, ys, alpha=2.0)
        return [x.sum() for x in xs[:20]]

    xs = [p.detach() for p in parameters(count=count)]
    ys = [torch.randn_like(x) for x in xs]
    theirs = [x.clone() for x in xs]
    sums = braze.compile(update)(xs, ys)
    expected = update(theirs, ys)
    for x, y in zip(xs, theirs, strict=True):
        assert torch.equal(x, y)
    alike(sums, expected)


def test_views_of_one_tensor():
    flat = torch.randn(3000, device="cuda")
    theirs = flat.clone()

    def update(xs):
        for x in xs:
            x.mul_(0.5).add_(1)

    def pieces(t):
        return [t[:1000], t[1000:1500], t[1500:3000]]

    braze.compile(update)(pieces(flat))
    update(pieces(theirs))
    assert torch.equal(flat, theirs)


def test_one_feeds_the_next():
    """What another kernel of the row makes is not launched with it."""

    def chain(xs):
        out = xs[0]
        made = []
        for x in xs[1:]:
            out = torch.flip(torch.cat([out[:1], x]), [0]).neg()
            made.append(out)
        return made

    xs = [torch.randn(64, device="cuda") for _ in range(12)]
    alike(braze.compile(chain)(xs), chain(xs))


def test_whole_steps():
    def training(compiled):
        torch.manual_seed(1)
        model = nn.Sequential(
            *[layer for _ in range(6) for layer in (nn.Linear(32, 32), nn.LayerNorm(32), nn.GELU())]
        ).cuda()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        data = [torch.randn(8, 32, device="cuda") for _ in range(6)]

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            return loss.detach()

        run = braze.compile(step) if compiled else step
        return [run(x) for x in data]

    torch.testing.assert_close(training(True), training(False), rtol=1e-4, atol=1e-5)
