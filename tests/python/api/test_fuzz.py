"""Random programs: compiled equals eager. A failing program is printed as Python that can be pasted."""

import random

import braze
import pytest
import torch
import torch.nn.functional as F
from support import aliasing, same

SHAPES = [(4, 6), (6,), (1, 6), (4, 1), (2, 4, 6), (3, 4, 6), (17,), (2, 33)]

UNARY = [
    "{a}.sin()", "{a}.cos()", "{a}.tanh()", "{a}.sigmoid()", "{a}.abs()", "-{a}", "{a}.exp().clamp(max=50)",
    "{a}.relu()", "F.gelu({a})", "F.silu({a})", "{a} * 2", "{a} + 1.5", "1 - {a}", "{a} ** 2", "{a}.floor()",
    "{a}.clamp(-1, 1)", "({a} * {a} + 1).sqrt()", "({a}.abs() + 1).log()", "({a}.abs() + 1).rsqrt()", "torch.erf({a})",
    "F.leaky_relu({a}, 0.1)", "F.hardswish({a})", "{a}.round()", "({a} > 0).float()", "{a}.sign()", "{a} % 3", "{a} / 3",
]  # fmt: skip
BINARY = [
    "{a} + {b}", "{a} - {b}", "{a} * {b}", "{a} / ({b}.abs() + 1)", "torch.maximum({a}, {b})",
    "torch.where({a} > {b}, {a}, {b})", "torch.minimum({a}, {b})", "{a}.masked_fill({b} > 0, 0.25)",
    "torch.add({a}, {b}, alpha=3)", "torch.atan2({a}, {b})", "({a} < {b}).float() + {a}",
]  # fmt: skip
VIEW = [
    "{a}.reshape(-1)", "{a}.transpose(0, -1)", "{a}.unsqueeze(0)", "{a}[..., 1:]", "{a}[..., ::2]", "{a}.flip(0)",
    "{a}.expand(2, *{a}.shape)", "{a}.contiguous()", "torch.cat([{a}, {a} * 2], -1)", "{a}.select(0, 0)", "{a}.t() if {a}.dim() == 2 else {a}",
    "F.pad({a}, (1, 2))", "torch.stack([{a}, {a}])", "{a}.roll(1, -1)", "{a}.squeeze()", "{a}.repeat(2, *[1] * ({a}.dim() - 1))", "{a}[None, ..., -1]",
]  # fmt: skip
REDUCE = [
    "{a}.sum()", "{a}.sum(-1)", "{a}.mean(0)", "{a}.amax(-1, keepdim=True)", "{a}.var(-1)", "{a}.softmax(-1)", "{a}.std(0, unbiased=False)",
    "{a}.log_softmax(0)", "F.layer_norm({a}, {a}.shape[-1:])", "{a}.amin(0)", "{a}.logsumexp(-1)", "{a}.argmax(-1).float()", "{a}.max(-1)[0]", "{a}.cumsum(-1)", "{a}.norm()", "{a}.prod(-1)",
]  # fmt: skip
INPLACE = [
    "{a}.add_(1)",
    "{a}.mul_(0.5)",
    "{a}.relu_()",
    "{a}[..., 0] = 0.5",
    "{a}[..., 1:].mul_(2)",
    "{a}.copy_({a} * 2)",
]


def program(rng, in_place):
    """Source of a function of three tensors; every line works for the shapes at hand."""
    shapes = {name: rng.choice(SHAPES) for name in "xyz"}
    values = {name: torch.randn(shape) for name, shape in shapes.items()}
    lines, live = [], list(values)
    environment = {"torch": torch, "F": F}
    for number in range(rng.randint(3, 14)):
        for _ in range(20):
            kind = rng.choice([UNARY, UNARY, BINARY, BINARY, VIEW, REDUCE])
            a, b = rng.choice(live), rng.choice(live)
            name = f"t{number}"
            text = rng.choice(kind).format(a=a, b=b)
            line = f"{name} = {text}"
            if in_place and rng.random() < 0.25:
                line = rng.choice(INPLACE).format(a=a)
                name = None
            trial = {k: v.clone() for k, v in values.items()}
            try:
                exec(line, environment, trial)
            except (RuntimeError, IndexError):
                continue
            if name and (
                not torch.is_tensor(trial[name])
                or trial[name].numel() > 5000
                or trial[name].numel() == 0
            ):
                continue
            lines.append(line)
            exec(line, environment, values)
            if name:
                live.append(name)
            break
    results = rng.sample(live, min(len(live), 3))
    if lines and live[-1] not in results:
        results.append(live[-1])
    source = (
        "def f(x, y, z):\n"
        + "".join(f"    {line}\n" for line in lines)
        + f"    return {', '.join(results)},\n"
    )
    return source, shapes


def run(seed, in_place):
    rng = random.Random(seed)
    torch.manual_seed(seed)
    source, shapes = program(rng, in_place)
    environment = {"torch": torch, "F": F}
    exec(source, environment)
    f = environment["f"]
    fast = braze.compile(f)
    for call in range(2):
        torch.manual_seed(1000 + call)
        ours = [torch.randn(s) for s in shapes.values()]
        theirs = [t.clone() for t in ours]
        expected = None
        try:
            expected = f(*theirs)
        except RuntimeError as error:  # overlapping memory and the like: the same error from ours
            with pytest.raises(type(error)):
                fast(*ours)
            continue
        got = fast(*ours)
        try:
            same(got, expected, rtol=1e-4, atol=1e-5)
            same(ours, theirs, "arguments", rtol=1e-4, atol=1e-5)
            assert aliasing(got, ours) == aliasing(expected, theirs), "aliasing"
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, shapes {shapes}\n{source}\n{error}") from None


@pytest.mark.parametrize("seed", range(40))
def test_pure(seed):
    run(seed, in_place=False)


@pytest.mark.parametrize("seed", range(1000, 1040))
def test_in_place(seed):
    run(seed, in_place=True)
