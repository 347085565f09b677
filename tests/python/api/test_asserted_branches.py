"""A branch on data that only raises is asserted by the compiled code, not a break."""

import asserting
import braze
import pytest
import torch
from support import same

GOOD, BAD = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, -30.0, float("nan")])
WHOLE = [
    asserting.asserts,
    asserting.asserts_without_words,
    asserting.raises_if,
    asserting.raises_if_not,
    asserting.raises_else,
    asserting.in_a_loop,
    asserting.in_a_callee,
    asserting.without_grad,
    asserting.behind_a_write,
]
OTHERS = [
    asserting.caught,
    asserting.both_raise,
    asserting.iterated,
    asserting.looked_up,
    asserting.loop_that_an_exception_ends,
    asserting.suppressed,
    asserting.caught_in_a_loop,
    asserting.of_a_subclass,
    asserting.under_a_mode,
    asserting.under_vmap,
]


def outcome(f, x):
    x = x.clone()
    try:
        return f(x), x
    except Exception as error:
        return type(error), str(error), x


def agree(got, expected):
    assert len(got) == len(expected), (got, expected)
    for a, b in zip(got, expected, strict=True):
        same(a, b) if isinstance(b, torch.Tensor) else None
        assert isinstance(b, torch.Tensor) or a == b, (a, b)


@pytest.mark.parametrize("f", WHOLE + OTHERS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dynamic", [None, True])
def test_as_in_eager(f, dynamic):
    fast = braze.compile(f, dynamic=dynamic)
    for x in (GOOD, BAD, GOOD + 1, -GOOD, GOOD * 50, BAD.nan_to_num(), GOOD):
        agree(outcome(fast, x), outcome(f, x))


@pytest.mark.parametrize("f", WHOLE, ids=lambda f: f.__name__)
def test_captured_as_a_whole(f):
    fast = braze.compile(f, fullgraph=True)
    agree(outcome(fast, GOOD), outcome(f, GOOD))
    (entry,) = fast._entries()
    assert entry["kind"] == "plan" and entry["exit"] == "return"
    agree(outcome(fast, BAD), outcome(f, BAD))  # the same entry, by eager
    assert len(fast._entries()) == 1


def test_traceback_names_the_users_line():
    fast = braze.compile(asserting.raises_if)
    fast(GOOD)
    with pytest.raises(ValueError, match="NaN among 3") as raised:
        fast(BAD)
    assert raised.traceback[-1].name == "raises_if"


def test_effects_come_once(capsys):
    seen = []

    fast = braze.compile(asserting.with_effects)
    fast(GOOD, seen)
    with pytest.raises(AssertionError):
        fast(-GOOD, seen)
    assert seen == ["before", "behind", "before"]
    assert capsys.readouterr().out == "before\n" * 2


@torch.enable_grad()
def test_trained():
    torch.manual_seed(0)
    module = asserting.Checked()
    fast = braze.compile(module, fullgraph=True)
    for x in (GOOD, BAD, GOOD * 2):
        gradients = []
        for f in (module, fast):
            module.zero_grad()
            try:
                f(x).sum().backward()
            except ValueError as error:
                gradients.append(str(error))
                continue
            gradients.append([p.grad.clone() for p in module.parameters()])
        expected, got = gradients
        same(got, expected) if isinstance(got, list) else None
        assert isinstance(got, list) or got == expected


def test_draws_go_on_as_in_eager():
    fast = braze.compile(asserting.draws)
    states = []
    for g in (asserting.draws, fast):
        torch.manual_seed(3)
        results = [outcome(g, x) for x in (GOOD, -GOOD, GOOD)]
        states.append((results[0][0], results[2][0], torch.rand(2)))
    for got, expected in zip(states[1], states[0], strict=True):
        same(got, expected)
