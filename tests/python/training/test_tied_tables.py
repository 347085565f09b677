"""A table that is both an embedding and the weight of the classes, under a loss that picks classes."""

import braze
import pytest
import torch
import torch.nn.functional as F

WORDS, WIDTH = 50, 16


def tables(dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return torch.randn(WORDS, WIDTH, generator=generator, dtype=dtype).requires_grad_()


def indices(*shape):
    return torch.randint(0, WORDS, shape, generator=torch.Generator().manual_seed(1))


LOSSES = {
    "mean": {},
    "sum": {"reduction": "sum"},
    "each": {"reduction": "none"},
    "ignored": {"ignore_index": 3},
    "weighted": {"weight": torch.linspace(0.5, 2, WORDS)},
    "smoothed": {"label_smoothing": 0.1},
}


def tied(table, words, labels, settings, padding=None):
    hidden = torch.tanh(F.embedding(words, table, padding_idx=padding))
    scores = hidden @ table.t()
    if settings.get("weight") is not None:
        settings = {**settings, "weight": settings["weight"].to(table.dtype)}
    return F.cross_entropy(scores.flatten(0, -2), labels.flatten(), **settings)


def check(function, make_table, *args, rtol=1e-5, atol=1e-6, steps=2):
    """The gradient of the table in one function, from a compiled forward, and in eager."""

    def whole(table, *args):
        table.grad = None
        loss = function(table, *args)
        loss.sum().backward()
        return loss.detach()

    expected, in_one, apart = make_table(), make_table(), make_table()
    compiled_whole, compiled = braze.compile(whole), braze.compile(function)
    for _ in range(steps):
        loss = whole(expected, *args)
        torch.testing.assert_close(compiled_whole(in_one, *args), loss, rtol=rtol, atol=atol)
        apart.grad = None
        got = compiled(apart, *args)
        got.sum().backward()
        torch.testing.assert_close(got.detach(), loss, rtol=rtol, atol=atol)
        for table in (in_one, apart):
            torch.testing.assert_close(table.grad, expected.grad, rtol=rtol, atol=atol)
            assert table.grad.stride() == expected.grad.stride()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name, dtype):
    words, labels = indices(3, 7), indices(3, 7)
    labels[0, :3] = 3
    wide = dtype == torch.bfloat16
    tolerance = {"rtol": 2e-2, "atol": 5e-2} if wide else {}
    check(tied, lambda: tables(dtype), words, labels, LOSSES[name], **tolerance)


@pytest.mark.parametrize("padding", [0, 7, -1])
def test_words_that_are_padding_give_no_rows(padding):
    words = indices(3, 7)
    words[1] = padding % WORDS
    check(tied, tables, words, indices(3, 7), {}, padding)


def test_words_that_occur_many_times():
    check(tied, tables, indices(400) % 3, indices(400), {})


def test_no_words():
    check(tied, tables, indices(0, 7), indices(0, 7), {"reduction": "sum"})


def test_sizes_that_vary():
    def whole(table, words, labels):
        table.grad = None
        loss = tied(table, words, labels, {}, padding=5)
        loss.backward()
        return loss.detach()

    expected, got, fast = tables(), tables(), braze.compile(whole)
    for rows, length in ((2, 7), (3, 5), (1, 9), (4, 16), (1, 1), (2, 7)):
        words, labels = indices(rows, length), indices(rows, length)
        wanted = whole(expected, words, labels)
        torch.testing.assert_close(fast(got, words, labels), wanted)
        torch.testing.assert_close(got.grad, expected.grad)


def test_one_class():
    check(tied, lambda: torch.ones(1, 4, requires_grad=True), indices(5) * 0, indices(5) * 0, {})


def test_a_table_that_is_used_three_times():
    def thrice(table, words, labels):
        hidden = F.embedding(words, table) + F.embedding(labels, table)
        return F.cross_entropy(hidden @ table.t(), labels)

    check(thrice, tables, indices(20), indices(20))


@pytest.mark.parametrize("labels", [indices(21), torch.full((21,), -100)], ids=["some", "none"])
def test_losses_that_nobody_reads(labels):
    """What is checked for, and not read, is as eager has it."""
    table, words = tables(), indices(21)

    def step(table):
        table.grad = None
        tied(table, words, labels, {}).backward()

    expected = tables()
    step(expected)
    braze.compile(step)(table)
    torch.testing.assert_close(table.grad, expected.grad, equal_nan=True)


def test_labels_out_of_range_raise_and_change_nothing():
    table, words, labels = tables(), indices(21), indices(21)
    optimizer = torch.optim.SGD([table], lr=0.1)

    @braze.compile
    def step(labels):
        optimizer.zero_grad()
        tied(table, words, labels, {}).backward()
        optimizer.step()

    step(labels)
    before = table.detach().clone()
    wrong = labels.clone()
    wrong[5] = WORDS
    with pytest.raises(IndexError, match="Target 50 is out of bounds"):
        step(wrong)
    assert torch.equal(table, before)
    step(labels)
    assert not torch.equal(table, before)


def test_a_loss_of_scores_that_are_infinite_or_no_numbers():
    def loss(scores, labels):
        return F.cross_entropy(scores, labels, reduction="none")

    scores = torch.zeros(4, 5)
    scores[0, 1], scores[1, 2], scores[2] = torch.inf, torch.nan, -torch.inf
    for values in (scores, scores.double()):
        labels = torch.tensor([1, 0, 2, 3])
        expected, got = loss(values, labels), braze.compile(loss)(values, labels)
        torch.testing.assert_close(got, expected, equal_nan=True)


def test_logarithms_that_are_read_as_well():
    def both(scores, labels):
        logs = F.log_softmax(scores, -1)
        return F.nll_loss(logs, labels), logs

    scores, labels = torch.randn(6, 9), torch.arange(6)
    for got, expected in zip(
        braze.compile(both)(scores, labels), both(scores, labels), strict=True
    ):
        torch.testing.assert_close(got, expected)


def test_the_gradient_of_a_large_table_is_made_in_place():
    words, labels = indices(8), indices(8)

    def step(table):
        table.grad = None
        F.cross_entropy(F.embedding(words, table) @ table.t(), labels).backward()

    text = braze.explain(step)(torch.randn(40_000, 32, requires_grad=True))
    assert not text.breaks, text
    plan = text.entries[0]["plan"]
    assert plan.count("output f32[40000, 32]") == 1, plan
