"""Where compiled code begins and ends in generators."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "segments"))

import pytest
import torch
from resuming import check
from segmenting import print, segments

X = torch.tensor([0.5, -1.0, 2.0])


def straight(x):
    y = x.sin() + 1
    yield y
    y = y * 2 - x
    yield y.sum()
    return y


def loop(x):
    for _ in range(4):
        x = x.cos() + 1
        yield x


def breaks(x):
    y = x.sin() + 1
    print(y.dim())
    z = y * 2
    yield z
    w = z.exp() - 1
    print("mid")
    v = w + z
    yield v


def helper(x):
    y = x * 3
    print("helper")
    return y + 1


def calls(x):
    y = helper(x + 1) * 2
    yield y
    yield helper(y) - 1


def inner(x):
    yield x + 1
    yield x.sin() * 2


def delegates(x):
    y = x * 2
    yield y
    z = y + 1
    yield from inner(z)
    yield y.sum()


def handlers(x):
    try:
        yield x + 1
        y = x * 2
        print("in try")
        yield y + 1
    finally:
        z = x.cos() * 3
    yield z


EXPECTED = {
    straight: [
        "straight+0: 2 operators, break at +2",
        "straight+2: 3 operators, break at +4",
    ],
    loop: [
        "loop+0: 2 operators, break at +3",
        "loop+1: 2 operators, break at +3",
        "loop+3: CPython, break at +1",
    ],
    breaks: [
        "breaks+0: 2 operators, break at +2",
        "breaks+2: 1 operators, break at +4",
        "breaks+4: 2 operators, break at +6",
        "breaks+6: 1 operators, break at +8",
    ],
    calls: [
        "calls+0: 1 operators, break at +1",
        "calls+1: 1 operators, break at +2",
        "calls+2: CPython, break at +3",
        "calls+3: 1 operators, break at +3",
        "helper+0: 1 operators, break at +2",
        "helper+2: 1 operators, return",
    ],
    delegates: [
        "delegates+0: 1 operators, break at +2",
        "delegates+2: CPython, break at +4",
        "delegates+4: CPython, break at +4",
        "delegates+4: 1 operators, break at +5",
        "inner+1: 2 operators, break at +2",
    ],
    handlers: [
        "handlers+0: 1 operators, break at +2",
        "handlers+2: 1 operators, break at +4",
        "handlers+4: 1 operators, break at +5",
        "handlers+5: 2 operators, break at +8",
    ],
}


@pytest.mark.parametrize("function", EXPECTED)
def test_segments(function):
    fast = check(function, lambda make: list(make(X)))
    # The end, without an operator, differs between Python versions.
    made = [line for line in segments(fast) if not line.endswith("CPython, give up")]
    assert made == EXPECTED[function]


LOG = []


def hot(x, n):
    LOG.append((yield x.sin()))
    for _ in range(n):
        pass
    LOG.append(float(x.sum()))
    yield n
    return x


def test_code_that_cpython_has_specialised_stops_at_its_breaks():
    """One of CPython's specialised instructions may stand for two: the break is the second."""

    def use(make):
        made = []
        for run in range(30):
            generator = make(X[: 2 + run % 2], 20)
            made.append(next(generator))
            made.append(generator.send(run))
            made.extend(generator)
        return made, LOG[-60:]

    check(hot, use)
