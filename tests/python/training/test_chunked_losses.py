"""The cross entropy of a product with a large vocabulary, of which few rows are there at a time."""

import subprocess
import sys
import textwrap

import braze
import pytest
import torch
import torch.nn.functional as F

ROWS, WIDTH, WORDS = 512, 16, 8192  # 16 MiB of logits

LOSSES = {
    "mean": {},
    "sum": {"reduction": "sum"},
    "each": {"reduction": "none"},
    "ignored": {"ignore_index": 3},
    "weighted": {"weight": torch.linspace(0.5, 2, WORDS)},
}


def made(dtype=torch.float32, rows=ROWS):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, WIDTH, generator=generator, dtype=torch.float64)
    weight = torch.randn(WORDS, WIDTH, generator=generator, dtype=torch.float64)
    bias = torch.randn(WORDS, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, WORDS, (rows,), generator=generator)
    labels[::5] = 3
    return [t.to(dtype).requires_grad_() for t in (x, weight, bias)], labels


def whole(function):
    def step(leaves, labels, settings):
        for leaf in leaves:
            leaf.grad = None
        loss = function(leaves, labels, settings)
        loss.sum().backward()
        return loss.detach()

    return step


def entropy(leaves, labels, settings):
    logits = F.linear(*leaves)
    weight = settings.get("weight")
    if weight is not None:
        settings = {**settings, "weight": weight.to(logits.dtype)}
    return F.cross_entropy(logits, labels, **settings)


def copies(leaves):
    return [leaf.detach().clone().requires_grad_() for leaf in leaves]


def assert_near(got, eager, exact):
    """As near to what is right as eager is, of the largest."""
    assert (got.dtype, got.shape, got.stride()) == (eager.dtype, eager.shape, eager.stride())
    scale = exact.abs().max()
    error = (eager.double() - exact).abs().max()
    assert (got.double() - exact).abs().max() <= 3 * error + 1e-6 * scale


def plans(explained):
    return "\n".join(entry["plan"] for entry in explained.entries if entry["plan"])


def has_chunks(explained, words=WORDS, rows=ROWS):
    """No tensor of all rows and all classes."""
    text = plans(explained)
    return f"[{rows}, {words}]" not in text and f", {words}]" in text


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])
@pytest.mark.parametrize("name", LOSSES)
def test_whole_steps(name, biased, dtype):
    rows = ROWS if dtype == torch.float32 else 2 * ROWS
    leaves, labels = made(dtype, rows)
    leaves, settings = leaves[: 2 + biased], LOSSES[name]
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    right = whole(entropy)(exact, labels, settings)
    eager = copies(leaves)
    loss = whole(entropy)(eager, labels, settings)
    step = braze.compile(whole(entropy))
    assert_near(step(leaves, labels, settings), loss, right)
    for leaf, twin, third in zip(leaves, eager, exact, strict=True):
        assert_near(leaf.grad, twin.grad, third.grad)
    chunks = has_chunks(braze.explain(step)(leaves, labels, settings), rows=rows)
    assert chunks == (name != "each")


@pytest.mark.parametrize("factor", [1, -0.375])
@pytest.mark.parametrize("biased", [False, True], ids=["plain", "biased"])
@pytest.mark.parametrize("name", LOSSES)
def test_forward_and_backward_apart(name, biased, factor):
    leaves, labels = made()
    leaves, settings = leaves[: 2 + biased], LOSSES[name]
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    eager = copies(leaves)
    right = entropy(exact, labels, settings)
    loss = entropy(eager, labels, settings)
    fast = braze.compile(entropy)
    got = fast(leaves, labels, settings)
    for value in (right, loss, got):
        value.backward(torch.full_like(value, factor))
    assert_near(got.detach(), loss.detach(), right.detach())
    for leaf, twin, third in zip(leaves, eager, exact, strict=True):
        assert_near(leaf.grad, twin.grad, third.grad)
    assert has_chunks(braze.explain(fast)(leaves, labels, settings)) == (name != "each")


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_all_rows_are_ignored(reduction):
    leaves, labels = made()
    settings = {"reduction": reduction}
    labels[:] = -100
    for compiled in (braze.compile(whole(entropy)), whole(braze.compile(entropy))):
        eager = copies(leaves)
        loss = whole(entropy)(eager, labels, settings)
        got = compiled(leaves, labels, settings)
        torch.testing.assert_close(got, loss, equal_nan=True)
        assert got.isnan() == (reduction == "mean")
        for leaf, twin in zip(leaves, eager, strict=True):
            assert torch.equal(leaf.grad, twin.grad)
            assert leaf.grad.count_nonzero() == 0


def test_what_is_ignored_has_no_gradient_whatever_comes_to_the_loss():
    """A loss divided by the number of labels, of which there are none."""
    leaves, labels = made()
    labels[:] = -100
    loss = braze.compile(entropy)(leaves, labels, {"reduction": "sum"})
    loss.backward(torch.tensor(float("inf")))
    for leaf in leaves:
        assert leaf.grad.count_nonzero() == 0


@pytest.mark.parametrize("label", [WORDS, -1])
def test_labels_out_of_range(label):
    leaves, labels = made()
    labels[-3] = label
    for function in (whole(entropy), entropy):
        with pytest.raises(IndexError) as eager:
            function(copies(leaves), labels, {})
        fast = braze.compile(function)
        with pytest.raises(IndexError) as got:
            fast(leaves, labels, {})
        assert str(got.value) == str(eager.value)
        labels[-3] = 0  # what is right afterwards
        torch.testing.assert_close(fast(leaves, labels, {}), function(copies(leaves), labels, {}))
        labels[-3] = label


def tied(leaves, labels, settings):
    table = leaves[0]
    hidden = torch.tanh(F.embedding(labels.flip(0), table))
    logits = (hidden @ table.t()).view(4, -1, WORDS)
    return F.cross_entropy(logits.view(-1, WORDS), labels, **settings)


def test_a_table_that_is_an_embedding_too():
    (_, table, _), labels = made()
    exact = [table.detach().double().requires_grad_()]
    right = whole(tied)(exact, labels, {})
    eager = copies([table])
    loss = whole(tied)(eager, labels, {})
    for compiled in (braze.compile(whole(tied)), whole(braze.compile(tied))):
        assert_near(compiled([table], labels, {}), loss, right)
        assert_near(table.grad, eager[0].grad, exact[0].grad)
    assert has_chunks(braze.explain(whole(tied))([table], labels, {}))
    assert has_chunks(braze.explain(tied)([table], labels, {}))


def check(function, leaves, labels, chunks):
    """Values in one function and apart, and whether the loss was taken apart."""
    eager = copies(leaves)
    loss = whole(function)(eager, labels, {})
    for compiled in (braze.compile(whole(function)), whole(braze.compile(function))):
        torch.testing.assert_close(compiled(leaves, labels, {}), loss)
        for leaf, twin in zip(leaves, eager, strict=True):
            torch.testing.assert_close(leaf.grad, twin.grad, rtol=1e-4, atol=1e-6)
    assert has_chunks(braze.explain(whole(function))(leaves, labels, {})) == chunks


def test_two_losses_of_the_same_logits():
    def two(leaves, labels, settings):
        logits = F.linear(*leaves)
        return F.cross_entropy(logits, labels) + F.cross_entropy(logits, labels.flip(0))

    check(two, *made(), chunks=False)


def test_a_loss_beside_something_else_of_the_logits():
    def with_norm(leaves, labels, settings):
        logits = F.linear(*leaves)
        return F.cross_entropy(logits, labels) + 1e-4 * torch.logsumexp(logits, 1).square().mean()

    check(with_norm, *made(), chunks=False)


def test_logits_that_are_capped():
    def capped(leaves, labels, settings):
        return F.cross_entropy(30 * torch.tanh(F.linear(*leaves) / 30), labels)

    check(capped, *made(), chunks=True)


def test_losses_of_two_products():
    def two(leaves, labels, settings):
        return sum(
            F.cross_entropy(F.linear(x, *leaves[1:]), labels) for x in (leaves[0], -leaves[0])
        )

    check(two, *made(), chunks=True)


def test_logits_that_are_returned():
    @braze.compile
    def both(leaves, labels):
        logits = F.linear(*leaves)
        return F.cross_entropy(logits, labels), logits

    leaves, labels = made()
    eager = copies(leaves)
    loss, logits = both(leaves, labels)
    torch.testing.assert_close(logits, F.linear(*eager))
    (loss + logits.mean()).backward()
    wanted = F.linear(*eager)
    (F.cross_entropy(wanted, labels) + wanted.mean()).backward()
    for leaf, twin in zip(leaves, eager, strict=True):
        torch.testing.assert_close(leaf.grad, twin.grad, rtol=1e-4, atol=1e-6)
    assert not has_chunks(braze.explain(both)(leaves, labels))


@pytest.mark.parametrize("frozen", [0, 1, 2])
def test_what_requires_no_gradient(frozen):
    leaves, labels = made()
    leaves[frozen].requires_grad_(False)
    eager = [leaf.detach().clone().requires_grad_(leaf.requires_grad) for leaf in leaves]
    loss = whole(entropy)(eager, labels, {})
    for compiled in (braze.compile(whole(entropy)), whole(braze.compile(entropy))):
        torch.testing.assert_close(compiled(leaves, labels, {}), loss)
        assert leaves[frozen].grad is None
        for leaf, twin in zip(leaves, eager, strict=True):
            if leaf is not leaves[frozen]:
                torch.testing.assert_close(leaf.grad, twin.grad, rtol=1e-4, atol=1e-6)


def test_a_gradient_that_comes_from_the_loss_itself():
    def squared(leaves, labels, settings):
        return F.cross_entropy(F.linear(*leaves), labels).square()

    check(squared, *made(), chunks=True)


def test_twice_through_one_loss():
    leaves, labels = made()
    eager = copies(leaves)
    losses = braze.compile(entropy)(leaves, labels, {}), entropy(eager, labels, {})
    for loss in losses:
        loss.backward(retain_graph=True)
        (2 * loss).backward()
    for leaf, twin in zip(leaves, eager, strict=True):
        torch.testing.assert_close(leaf.grad, twin.grad, rtol=1e-4, atol=1e-6)


def test_gradients_of_gradients():
    leaves, labels = made()

    def penalty(function, leaves):
        loss = function(leaves, labels, {})
        (slope,) = torch.autograd.grad(loss, leaves[:1], create_graph=True)
        return torch.autograd.grad(loss + 100 * slope.square().sum(), leaves)

    wanted = penalty(entropy, copies(leaves))
    for got, want in zip(penalty(braze.compile(entropy), leaves), wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-6)


def test_under_autocast():
    def mixed(leaves, labels, settings):
        with torch.autocast("cpu", torch.bfloat16):
            return F.cross_entropy(F.linear(*leaves), labels)

    leaves, labels = made()
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    right = whole(entropy)(exact, labels, {})
    eager = copies(leaves)
    loss = whole(mixed)(eager, labels, {})
    for compiled in (braze.compile(whole(mixed)), whole(braze.compile(mixed))):
        assert_near(compiled(leaves, labels, {}), loss, right)
        for leaf, twin, third in zip(leaves, eager, exact, strict=True):
            assert_near(leaf.grad, twin.grad, third.grad)


PEAK = textwrap.dedent("""
    import sys, torch, braze
    import torch.nn.functional as F
    x = torch.randn(1024, 32, requires_grad=True)
    weight = torch.randn(50_000, 32, requires_grad=True)  # 195 MiB of logits, 6 of weights
    labels = torch.randint(0, 50_000, (1024,))

    def loss(x, weight, labels):
        return F.cross_entropy(F.linear(x, weight), labels)

    def step(x, weight, labels):
        loss(x, weight, labels).backward()

    def field(name):
        lines = open("/proc/self/status").read().splitlines()
        return int(next(line.split()[1] for line in lines if line.startswith(name))) // 1024

    fast = braze.compile(step if sys.argv[1] == "whole" else loss)
    torch.mm(torch.randn(512, 512), torch.randn(512, 512))
    before = field("VmRSS")
    for _ in range(3):
        x.grad = weight.grad = None
        result = fast(x, weight, labels)
        if sys.argv[1] != "whole":
            result.backward()
    print(field("VmHWM") - before)
""")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/status; Linux lifts it")
@pytest.mark.parametrize("how", ["whole", "apart"])
def test_not_all_logits_are_there_at_once(how):
    run = subprocess.run(
        [sys.executable, "-c", PEAK, how], capture_output=True, text=True, check=True
    )
    assert int(run.stdout) < 190
