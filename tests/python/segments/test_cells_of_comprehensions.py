"""Breaks in comprehensions whose variables are cells of the function: inlined from Python 3.12 on."""

import braze
import pytest
import torch


def closure_before(y, log):
    v = y + 1
    double = lambda: v * 2
    log.append({i: v.sum().item() for i, v in enumerate(y[:2])})
    v = v + 1
    return double()


def closure_after(y, log):
    v = y + 1
    log.append([v.sum().item() for v in y[:2]])
    return (lambda: v * 2)()


def variable_without_a_value(y, log):
    double = lambda: v * 2
    log.append({i: v.sum().item() for i, v in enumerate(y[:2])})
    try:
        return double()
    except NameError as error:
        log.append(str(error))
    for v in y:
        log.append(v * 3)
    return double(), v


def nested(y, log):
    log.append([[(lambda: v * w)().sum().item() for v in y] for w in y])
    w = y * 2
    twice = lambda: w
    v = y * 3
    return twice() + v


def generators_left(y, log):
    log.append([v.sum().item() for v in y[:2]])
    for i, v in enumerate(y[:2]):
        log.append(sum(v * k for k in range(i + 2)))
        left = (v * k for k in range(2))
    return y + next(left)


FUNCTIONS = [closure_before, closure_after, variable_without_a_value, nested, generators_left]


@pytest.mark.parametrize("dynamic", (None, True))
@pytest.mark.parametrize("function", FUNCTIONS)
def test_as_in_eager(function, dynamic, capfd):
    compiled = braze.compile(function, dynamic=dynamic)
    for shape in ((2, 3), (2, 3), (3, 3), (4, 2)):
        x = torch.arange(float(shape[0] * shape[1])).reshape(shape)
        told = []
        for f in (function, compiled):
            log = []
            with torch.no_grad():
                told.append(str((f(x, log), log)))
        assert told[1] == told[0]
    assert "Please report" not in capfd.readouterr().err
