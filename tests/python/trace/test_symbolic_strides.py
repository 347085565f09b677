"""Strides of results under symbols against eager's, for random layouts: for the sizes seen, and for
others that the same trace serves."""

import itertools
import random
import re

import pytest
import torch
import torch.nn.functional as F
from tracing import as_list, trace

LAYOUTS = "plain permuted sliced stepped expanded channels_last".split()
FUNCTIONS = {
    "mod": lambda a, b: a % b, "floordiv": lambda a, b: a // b, "max": max, "min": min,
}  # fmt: skip
ZERO = torch.tensor([0, 0])


def tensor(layout, seed, sizes):
    rng, n, sizes = random.Random(seed), len(sizes), list(sizes)
    d = rng.randrange(n)
    larger = sizes.copy()
    if layout == "permuted":
        order = list(range(n))
        rng.shuffle(order)
        return torch.rand([sizes[i] for i in order]).permute([order.index(i) for i in range(n)])
    if layout == "sliced":
        larger[d] = larger[d] * 2 + 1
        return torch.rand(larger).narrow(d, rng.randrange(2), sizes[d])
    if layout == "stepped":
        larger[d] *= 2
        return torch.rand(larger)[(slice(None),) * d + (slice(None, None, 2),)]
    if layout == "expanded":
        larger[d] = 1
        return torch.rand(larger).expand(sizes)
    if layout == "channels_last" and n == 4:
        return torch.rand(sizes).to(memory_format=torch.channels_last)
    return torch.rand(sizes)


def swapped(x):
    return x.transpose(0, -1)


OPERATORS = {
    "add": lambda x: x + 1, "relu": lambda x: (x * 2).relu(), "exp": torch.exp, "clone": torch.clone,
    "contiguous": torch.Tensor.contiguous, "zeros_like": torch.zeros_like, "double": torch.Tensor.double,
    "neg": torch.neg, "greater": lambda x: x > 1, "square": lambda x: x**2, "power": lambda x: 2**x,
    "rsub": lambda x: 1 - x, "clamp": lambda x: x.clamp(0, 1), "where": lambda x: torch.where(x > 1, x, 0.0),
    "masked_fill": lambda x: x.masked_fill(x > 1, 2), "softmax": lambda x: x.softmax(-1),
    "cumsum": lambda x: x.cumsum(0), "sum": lambda x: x.sum(0), "kept": lambda x: x.sum(-1, True),
    "max": lambda x: x.max(0), "var": lambda x: x.var(-1), "any": lambda x: (x > 1).any(0),
    "flip": lambda x: x.flip(0), "roll": lambda x: x.roll(1, 0), "cat": lambda x: torch.cat([x, x + 1], -1),
    "stack": lambda x: torch.stack([x, x], -1), "flatten": torch.flatten, "view": lambda x: x.clone().view(-1),
    "rows": lambda x: x.reshape(x.shape[0], -1), "column": lambda x: swapped(x).reshape(-1, 1),
    "unsqueeze": lambda x: x.unsqueeze(1), "squeeze": lambda x: x.squeeze(), "transpose": swapped,
    "expand": lambda x: x.expand(2, *x.shape), "select": lambda x: x.select(0, 0), "slice": lambda x: x[1:],
    "step": lambda x: x[::2], "last": lambda x: x[..., -1:], "none": lambda x: x[None, :, None],
    "chunk": lambda x: x.chunk(2, 0), "tril": torch.tril, "repeat": lambda x: x.repeat(2, *[1] * (x.dim() - 1)),
    "pad": lambda x: F.pad(x, (1, 2)), "matmul": lambda x: x @ x.transpose(-1, -2), "gelu": F.gelu,
    "silu": F.silu, "elu": F.elu, "hardtanh": F.hardtanh, "threshold": lambda x: F.threshold(x, 0.1, 2.0),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]), "sort": lambda x: x.sort(0), "index": lambda x: x[ZERO],
    "columns": lambda x: x[:, ZERO], "gather": lambda x: x.gather(0, torch.zeros(x.shape, dtype=torch.long)),
    "index_select": lambda x: x.index_select(0, ZERO), "add_": lambda x: x.clone().add_(1),
    "another layout": lambda x: x + swapped(swapped(x).contiguous()), "a row": lambda x: x + x[:1],
    "a number": lambda x: x + x.flatten()[0], "outer": lambda x: x[..., :1] * x[:1],
    "convolution": lambda x: F.conv2d(x, torch.ones(3, x.shape[1], 1, 1)), "pool": lambda x: F.max_pool2d(x, 1),
    "batch_norm": lambda x: F.batch_norm(x, torch.zeros(x.shape[1]), torch.ones(x.shape[1])),
    "lerp": lambda x: x.lerp(x + 1, 0.5), "addcmul": lambda x: torch.addcmul(x, x, x),
    "linear": lambda x: F.linear(x, torch.ones(3, x.shape[-1])), "full_like": lambda x: torch.full_like(x, 3.0),
    "maximum": lambda x: torch.maximum(x, x.flip(0)), "complex": lambda x: torch.complex(x, x),
    "nan_to_num": torch.nan_to_num, "quotient": lambda x: x / (x + 1), "floor": lambda x: x // 2,
    "logical": lambda x: torch.logical_and(x > 1, x < 2), "permuted": lambda x: swapped(x) + 1,
    "einsum": lambda x: torch.einsum("...i,...j->...ij", x, x), "index_put": lambda x: x.index_put((ZERO[:1],), x[0]),
    "rand_like": torch.rand_like, "copied": lambda x: swapped(x).clone(), "product": lambda x: x.cumprod(-1),
}  # fmt: skip


def numbers(text, env):
    parts, depth = [""], 0
    for c in text or "":
        depth += (c == "(") - (c == ")")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return tuple(eval(part, FUNCTIONS, env) for part in parts if part.strip())


def layout(type_text, env):
    """Sizes and strides of a type as graphs print it: `f32[s0, 4]{1, s0}+3`."""
    _, sizes, strides, _ = re.match(r"(\w+)\[(.*?)\](?:\{(.*?)\})?(?:\+(.*))?$", type_text).groups()
    sizes, strides = numbers(sizes, env), numbers(strides, env)
    if not strides:
        strides = [1] * len(sizes)
        for i in reversed(range(len(sizes) - 1)):
            strides[i] = strides[i + 1] * max(sizes[i + 1], 1)
    return sizes, tuple(strides)


def check(op, name, seed, sizes):
    """How many other sizes the trace served; None where eager refuses these."""
    x = tensor(name, seed, sizes)
    try:
        op(x)
    except (RuntimeError, IndexError, ValueError):
        return None
    traced = trace(op, x, symbolic=["arg0"])
    traced["replay"]()  # each node gives what was traced, strides and all
    header = traced["graph"].split("\n")[0]
    found = re.search(r"%(\d+) arg0: (\w+\[.*?\](?:\{.*?\})?)(?:\+\d+)?[,)]", header)
    number, expected = found.groups() if found else ("", "")
    symbols = re.findall(rf"(s\d+) = (size|stride)\(%{number}, (\d+)\)", header)
    served = 0
    for other in itertools.product(*[{s, s + 1, 2} if s > 1 else [s] for s in sizes]):
        y = tensor(name, seed, other)
        env = {n: (y.shape if of == "size" else y.stride())[int(i)] for n, of, i in symbols}
        if expected and layout(expected, env) != (tuple(y.shape), y.stride()):
            continue
        if not expected and other != tuple(sizes):
            continue
        if not all(
            eval(g, FUNCTIONS, env)
            for g in traced["guards"]
            if set(re.findall(r"s\d+", g)) <= set(env)
        ):
            continue
        try:
            wanted = as_list(op(y))
        except (RuntimeError, IndexError, ValueError):
            continue
        served += other != tuple(sizes)
        for type_text, t in zip(traced["types"], wanted):
            assert layout(type_text, env) == (tuple(t.shape), t.stride()), (
                f"{type_text} with {env} is not {tuple(t.shape)} {t.stride()}, "
                f"of {tuple(y.shape)} {y.stride()}, traced with {tuple(sizes)}"
            )
    return served


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPERATORS)
def test_strides(name):
    rng = random.Random(name)
    done = []
    for _ in range(12):
        rank = rng.choice([1, 2, 3, 4, 4])
        few = [0, 1, 1, 2, 3] if rng.random() < 0.3 else [1, 2, 2, 3, 4]
        sizes = [rng.choice(few) for _ in range(rank)]
        done.append(check(OPERATORS[name], rng.choice(LAYOUTS), rng.randrange(99), sizes))
    assert sum(d is not None for d in done) >= 2
