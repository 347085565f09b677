"""Python scalars where operators seldom see them: as eager has it, values, dtypes and exceptions."""

import braze
import pytest
import torch
import torch.nn.functional as F
from support import same

INTS = torch.tensor([-2, 0, 3], dtype=torch.int32)
FLOATS = torch.tensor([-2.0, 0.0, 3.0])


def check(fn, x):
    inputs = x.clone(), x.clone()
    try:
        wanted = fn(inputs[0])
    except (RuntimeError, TypeError) as error:
        with pytest.raises(type(error)):
            braze.compile(fn)(inputs[1])
    else:
        same(braze.compile(fn)(inputs[1]), wanted)
    same(inputs[1], inputs[0])


@pytest.mark.parametrize("number", [2**40, -(2**63), 3, 0, 0.5, True])
@pytest.mark.parametrize("op", ["logical_and", "logical_or", "logical_xor"])
def test_truth_in_the_common_dtype(op, number):
    for x in (INTS, INTS.to(torch.int8), FLOATS, INTS > 0):
        check(lambda x: getattr(torch, op)(x, torch.tensor(number)), x)


@pytest.mark.parametrize("number", [1.5, -0.0, float("inf"), 2, True])
@pytest.mark.parametrize("op", ["floor_divide_", "mul_", "remainder_", "copysign_", "add_"])
def test_results_that_cannot_be_written(op, number):
    for x in (INTS, INTS.to(torch.uint8), FLOATS, INTS > 0):
        check(lambda x: getattr(x, op)(number), x)


@pytest.mark.parametrize("number", [1, 0, -1, 40, True, 1.5])
def test_shifts_in_place(number):
    def left(x):
        x <<= number
        return x + 1

    def right(x):
        x >>= number
        return x + 1

    for x in (INTS, INTS.to(torch.uint8), FLOATS):
        check(left, x)
        check(right, x)


@pytest.mark.parametrize("fn", [F.leaky_relu, F.elu, F.softplus, F.celu, F.hardshrink])
def test_complex_numbers_that_are_real(fn):
    check(lambda x: fn(x, 2.5 + 0j), FLOATS)
    check(lambda x: fn(x, 2.5 + 0j), INTS)


def test_a_number_among_elements():
    for number in (3, 3.0, 2**40, True, float("nan")):
        check(lambda x: (torch.isin(number, x), torch.isin(x, number)), INTS)


@pytest.mark.parametrize("number", [1.5, 2.5, -0.25, 2, 2**40, -(2**63), float("inf"), True])
@pytest.mark.parametrize("op", ["addcmul", "addcmul_", "addcdiv"])
def test_factors_are_of_the_tensors_dtype(op, number):
    for x in (INTS, INTS.to(torch.uint8), FLOATS, FLOATS.to(torch.complex64)):
        check(lambda x: getattr(torch.Tensor, op)(x.clone(), x, x + 1, value=number), x)


@pytest.mark.parametrize("number", [float("inf"), 1e300, 2.0])
def test_complex_tensors(number):
    x = FLOATS.to(torch.complex64)
    for fn in (lambda x: torch.rsub(x, number), lambda x: torch.lerp(x, x + 1, number)):
        check(fn, x)


@pytest.mark.parametrize("number", [3, 2.75, -1, True, 2**40, float("nan"), 1 + 2j])
@pytest.mark.filterwarnings("ignore:Casting complex")
def test_numbers_copied_into_tensors(number, capfd):
    def whole(x):
        return x.clone().copy_(number)

    def part(x):
        x[1:].copy_(number)
        return x * 2

    def turned(x):
        return x.new_zeros(2, 3).t().copy_(number)

    for x in (INTS, INTS.to(torch.uint8), FLOATS, INTS > 0):
        for fn in (whole, part, turned):
            check(fn, x)
    assert "Please report" not in capfd.readouterr().err
