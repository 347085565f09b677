"""What eager refuses because of dtypes raises the same: in place, with numbers, unused, caught."""

import pytest
import torch
import torch.nn.functional as F
from support import compare

INT = torch.tensor([1, 2, 3], dtype=torch.int32)
BOOL = torch.tensor([True, False, True])
DOUBLE = torch.full((3,), 2.0, dtype=torch.float64)
IN_PLACE = """
add_ sub_ mul_ div_ floor_divide_ remainder_ fmod_ pow_ atan2_ copysign_ bitwise_and_ logical_and_ eq_
hypot_ xlogy_ ldexp_ heaviside_ copy_ clamp_ clamp_min_ nextafter_
""".split()
ALONE = """
sqrt_ exp_ log_ sin_ sigmoid_ tanh_ relu_ neg_ abs_ floor_ round_ reciprocal_ rsqrt_ erf_ logit_ sign_
bitwise_not_ square_ erfinv_ normal_ uniform_ mean var norm median msort
""".split()
CALLS = {
    "times a fraction": lambda x: x.mul_(2.5),
    "divided by a fraction": lambda x: x.floor_divide_(2.5),
    "root": lambda x: x.pow_(0.5),
    "inverse": lambda x: x**-1,
    "half as much": lambda x: torch.add(x, x, alpha=0.5),
    "truth as factor": lambda x: torch.add(x, x, alpha=True),
    "less truth": lambda x: x - True,
    "truth less": lambda x: True - x,
    "bounds": lambda x: x.clamp_(min=0.5),
    "filled": lambda x: x.masked_fill_(x > 1, 2.5),
    "into": lambda x: torch.sqrt(x, out=torch.zeros(3, dtype=torch.int32)),
    "quotient into": lambda x: torch.floor_divide(x, 2.5, out=torch.zeros(3, dtype=torch.int32)),
    "and a fraction": lambda x: x & 1.5,
    "product": lambda x: x[None] @ torch.ones(3, 2),
    "linear": lambda x: F.linear(x, torch.ones(2, 3)),
    "put": lambda x: x.index_put_((torch.tensor([0]),), torch.tensor([1.5])),
    "scatter": lambda x: x.scatter_(0, torch.tensor([0]), torch.tensor([1.5])),
    "add at": lambda x: x.index_add_(0, torch.tensor([0]), torch.tensor([1.5])),
    "lerp": lambda x: x.lerp(x, 0.5),
    "addcdiv": lambda x: torch.addcdiv(x, x, x),
    "two at once": lambda x: torch._foreach_add_([torch.ones(2), x], 1.5),
    "softmax": lambda x: x.softmax(0),
    "gelu": F.gelu,
    "layer norm": lambda x: F.layer_norm(x, (3,)),
    "convolution": lambda x: F.conv1d(x[None, None], torch.ones(1, 1, 1)),
    "embedding": lambda x: F.embedding(x.float(), torch.ones(4, 2)),
    "condition": lambda x: torch.where(x, x, x),
    "running sum": lambda x: x.cumsum_(0),
    "running product": lambda x: x.cumprod_(0),
    "sdpa": lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
    "top": lambda x: x.topk(1),
    "cross": lambda x: torch.linalg.cross(x, x.float()),
}
CASES = {
    **{name: lambda x, name=name: getattr(x, name)(DOUBLE[:1]) for name in IN_PLACE},
    **{name + " int": lambda x, name=name: getattr(x, name)(INT[:1]) for name in IN_PLACE},
    **{name: lambda x, name=name: getattr(x, name)() for name in ALONE},
    **CALLS,
}


def unused(op):
    def f(x, log):
        op(x)
        log.append(1)
        return x + 0

    return f


def caught(op):
    def f(x, log):
        results, z = [], x.clone()
        z[1:] = x[:1]
        try:
            log.append(1)
            results.append(op(z))
            log.append(2)
        except (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError) as error:
            results.append((type(error).__name__, str(error)))
        return results, z, x * 2

    return f


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", [unused, caught])
@pytest.mark.parametrize("name", CASES)
def test_dtypes(name, mode):
    for x in (INT, BOOL):
        calls = [lambda x=x: (x.clone(), []), lambda x=x: (torch.cat([x, x])[:3].clone(), [])]
        compare(lambda: mode(CASES[name]), calls, dynamic=True if mode is caught else None)


MIXED = {
    "group norm": lambda x, w: F.group_norm(x, 1, w, w),
    "layer norm": lambda x, w: F.layer_norm(x, (x.size(-1),), w, w),
    "batch norm": lambda x, w: F.batch_norm(x, w, w, w, w),
    "batch norm that trains": lambda x, w: F.batch_norm(x, w, w, w, w, True),
    "instance norm": lambda x, w: F.instance_norm(x, None, None, w, w),
    "rms norm": lambda x, w: F.rms_norm(x, (x.size(-1),), w),
    "linear": lambda x, w: F.linear(x, w[None], w[:1]),
    "convolution": lambda x, w: F.conv1d(x, w[None, :, None]),
    "prelu": F.prelu,
}
PAIRS = [(a, b) for a in ("float64", "float32", "float16") for b in ("float32", "bfloat16")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("size", [4, 60])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", MIXED)
def test_parameters_of_another_dtype(name, dynamic, size):
    """Whatever the sizes are, and how many elements there are."""
    for of_data, of_parameters in PAIRS:
        x = torch.ones(size // 2, size, size, dtype=getattr(torch, of_data))
        w = torch.ones(size, dtype=getattr(torch, of_parameters))

        def f(x, w):
            try:
                return MIXED[name](x, w).dtype
            except RuntimeError as error:
                return str(error)

        compare(lambda: f, [lambda: (x, w.clone())], dynamic=dynamic)


def test_three_in_turn():
    def f(x, y):
        results = []
        for op in ("floor_divide_", "pow_", "add_"):
            z = x.clone()
            try:
                results.append(getattr(z, op)(y))
            except RuntimeError:
                results.append("caught")
        return results

    compare(lambda: f, [lambda: (INT[:2].clone(), DOUBLE[:2].clone())] * 2)
