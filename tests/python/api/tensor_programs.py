"""Random functions of three tensors of any dtype: a source text, its inputs, and whether compiled and
eager agree. A failing one is made small."""

import json
import random
import re

import braze
import place_lines
import torch
import torch.nn.functional as F
from support import aliasing, same

SHAPES = [(4, 6), (6,), (1, 6), (4, 1), (2, 4, 6), (3, 4, 6), (17,), (2, 33)]
LARGE = [(64, 48), (65, 96), (48, 96)]  # whose products have kernels of their own
DTYPES = ("float32",) * 6 + ("float64", "float16", "bfloat16", "int64", "int32", "bool")

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
    "{a}.log_softmax(0)", "F.layer_norm({a}, {a}.shape[-1:])", "{a}.amin(0)", "{a}.logsumexp(-1)", "torch.round({a}.float(), decimals=1).argmax(-1).float()", "{a}.max(-1)[0]", "{a}.cumsum(-1)", "{a}.norm()", "{a}.prod(-1)",
]  # fmt: skip
DENSE = [
    "{a} @ {b}.t()", "{a} @ {b}.transpose(-1, -2)", "F.linear({a}, {b})", "F.gelu(F.linear({a}, {b}))",
    "F.scaled_dot_product_attention({a}[None, None], {b}[None, None], {b}[None, None])",
    "F.scaled_dot_product_attention({a}[None, None], {a}[None, None], {b}[None, None], is_causal=True)",
    "torch.baddbmm({a}[None], {a}[None], {b}[None])", "{a}.cumsum(0)", "{a}.index_add(0, ({b}.flatten()[:2] > 0).long(), {a}[:2])",
]  # fmt: skip
INPLACE = [
    "{a}.add_(1)",
    "{a}.mul_(0.5)",
    "{a}.relu_()",
    "{a}[..., 0] = 0.5",
    "{a}[..., 1:].mul_(2)",
    "{a}.copy_({a} * 2)",
]

MOST_ELEMENTS = 20_000
ENVIRONMENT = {"torch": torch, "F": F, "aten": torch.ops.aten}
HEAD = re.compile(r"# (.*)\n")
TOLERANCES = {"float16": (1e-2, 1e-2), "bfloat16": (6e-2, 6e-2)}


def make(dtype, shape, layout="contiguous"):
    if layout == "transposed":
        return make(dtype, shape[::-1]).permute(*range(len(shape))[::-1])
    if layout == "steps":
        return make(dtype, [2 * size for size in shape])[(slice(None, None, 2),) * len(shape)]
    if layout == "offset":
        return make(dtype, [shape[0] + 1, *shape[1:]])[1:]
    if dtype == "index":
        return torch.randint(0, 1000, shape)
    if dtype == "bool":
        return torch.rand(shape) > 0.5
    if dtype == "uint8":
        return torch.randint(0, 13, shape, dtype=torch.uint8)
    if dtype.startswith("int"):
        return torch.randint(-4, 9, shape, dtype=getattr(torch, dtype))
    return torch.randn(shape).to(getattr(torch, dtype))


def random_line(rng, name, live, values, in_place, places):
    a, b = rng.choice(live), rng.choice(live)
    if places and rng.random() < 0.55:
        changes = in_place and rng.random() < 0.4
        text = place_lines.line(rng, a, values[a].dim(), changes)
        return (None, text) if changes else (name, f"{name} = {text}")
    kinds = [UNARY, UNARY, BINARY, BINARY, VIEW, REDUCE, DENSE]
    if in_place and rng.random() < 0.25:
        return None, rng.choice(INPLACE).format(a=a)
    return name, f"{name} = " + rng.choice(rng.choice(kinds)).format(a=a, b=b)


def random_inputs(rng, dtypes, places):
    """(dtype, shape, layout) by name."""
    if not places:
        shapes = SHAPES if rng.random() < 0.8 else LARGE
        return {name: (rng.choice(dtypes), rng.choice(shapes), "contiguous") for name in "xyz"}
    inputs = {
        name: (
            rng.choice(place_lines.DTYPES),
            rng.choice(place_lines.SHAPES),
            rng.choice(place_lines.LAYOUTS),
        )
        for name in "xyz"
    }
    return inputs | {name: ("index", rng.choice(place_lines.COUNTS), "contiguous") for name in "ij"}


def program(seed, in_place=False, dtypes=DTYPES, places=False):
    """Source of a function of three tensors, every line of which works for its inputs. Its first line
    is a comment that says the inputs and the options.

    `places`: mostly lines of `place_lines.py`, two more inputs that say places, sizes 0 and 1, other
    layouts; the last line may be one that eager refuses, and where nothing is written in place the
    gradients of the results may be compared too."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    inputs = random_inputs(rng, dtypes, places)
    values = {name: make(*given) for name, given in inputs.items()}
    lines, live = [], [name for name in "xyz"]
    refused = False
    for number in range(rng.randint(2, 8) if places else rng.randint(3, 14)):
        for _ in range(20):
            name, line = random_line(rng, f"t{number}", live, values, in_place, places)
            if "attention" in line and any(
                values[used].numel() == 0 for used in live if used in line
            ):
                continue  # eager divides by zero and ends the process (PyTorch 2.11)
            trial = {k: v.clone() for k, v in values.items()}
            try:
                exec(line, ENVIRONMENT, trial)
                exec(line, ENVIRONMENT, values)  # views, whose memory is not theirs alone
            except (
                RuntimeError,
                IndexError,
                TypeError,
                NotImplementedError,
                ZeroDivisionError,
            ) as e:
                refused = places and re.search("out of (bounds|range)", str(e)) is not None
                if refused:
                    break
                continue
            made = trial[name] if name else None
            if name and not (
                torch.is_tensor(made) and (0 if places else 1) <= made.numel() <= MOST_ELEMENTS
            ):
                del values[name]
                continue
            lines.append(line)
            if name:
                live.append(name)
            break
        if refused:
            lines.append(line)
            break
    results = rng.sample(live, min(len(live), 6 if places else 3))
    if lines and live[-1] not in results:
        results.append(live[-1])
    if refused and name:
        results.append(name)
    said = {"inputs": list(inputs.values()), "dynamic": rng.choice([None, True])}
    if places and not in_place and not refused and rng.random() < 0.3:
        said["gradients"] = True
    body = "".join(f"    {line}\n" for line in lines)
    return (
        f"# {json.dumps(said)}\ndef f({', '.join(inputs)}):\n{body}"
        f"    return {', '.join(results)},\n"
    )


def copied(tensor, requires_grad=False):
    """A copy of the same strides."""
    twin = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
    twin.copy_(tensor)
    return twin.requires_grad_(requires_grad and tensor.is_floating_point())


def outcome(f, inputs, gradients=False):
    """(result, inputs afterwards, aliasing), or the exception. With `gradients` the result has those
    of the inputs too, None where there is none."""
    inputs = [copied(t, gradients) for t in inputs]
    try:
        with torch.set_grad_enabled(gradients):
            result = f(*inputs)
            if gradients:
                roots = [t for t in result if t.requires_grad]
                leaves = [t for t in inputs if t.requires_grad]
                weights = [torch.full_like(t, 0.5) for t in roots]
                found = (
                    torch.autograd.grad(roots, leaves, weights, allow_unused=True)
                    if roots and leaves
                    else ()
                )
                return (*(t.detach() for t in result), *found), [t.detach() for t in inputs], ()
    except Exception as error:
        return error
    return result, inputs, aliasing(result, inputs)


def difference(actual, expected, tolerance):
    """What two outcomes differ in; None if in nothing."""
    if isinstance(expected, Exception) or isinstance(actual, Exception):
        if type(actual) is type(expected):
            return None
        return f"{actual!r} is not {expected!r}"
    rtol, atol = tolerance
    try:
        same(actual[0], expected[0], rtol=rtol, atol=atol)
        same(actual[1], expected[1], "arguments", rtol=rtol, atol=atol)
        assert actual[2] == expected[2], "aliasing"
    except AssertionError as error:
        return str(error)
    return None


def nudged(tensor):
    """The same but for rounding."""
    if not tensor.is_floating_point():
        return tensor
    return (tensor.double() * (1 + 4 * torch.finfo(tensor.dtype).eps)).to(tensor.dtype)


def widened(tensor):
    return tensor.double() if tensor.is_floating_point() else tensor


def narrowed(made, like):
    """An outcome in the dtypes of another one."""
    if isinstance(made, Exception) or isinstance(like, Exception):
        return like
    values = [
        tuple(a if a is None or b is None else a.to(b.dtype) for a, b in zip(*both))
        for both in zip(made[:2], like[:2])
    ]
    return values[0], list(values[1]), like[2]


def is_stable(f, inputs, expected, tolerance, gradients=False):
    """Whether eager gives nearly the same for nearly the same inputs, and in double precision: a
    comparison, a sign or a rounding makes much of little."""
    shaken = outcome(f, [nudged(t) for t in inputs], gradients)
    torch.set_default_dtype(torch.float64)  # of what is computed from integers
    try:
        exact = narrowed(outcome(f, [widened(t) for t in inputs], gradients), expected)
    finally:
        torch.set_default_dtype(torch.float32)
    return all(difference(other, expected, tolerance) is None for other in (shaken, exact))


def grown(shape, by):
    """Sizes of another call; 0 and 1 stay."""
    return [size + by if size > 1 else size for size in shape]


def failure(source):
    """What the compiled program does otherwise than eager; None if nothing, or if eager itself makes
    more of rounding than the tolerance."""
    said = json.loads(HEAD.match(source)[1])
    environment = dict(ENVIRONMENT)
    exec(source, environment)
    f, gradients = environment["f"], said.get("gradients", False)
    fast = braze.compile(f, dynamic=said["dynamic"])
    dtypes = {dtype for dtype, *_ in said["inputs"]}
    dtypes.update(re.findall(r"torch\.(\w*float16)", source))
    tolerance = max((TOLERANCES.get(dtype, (1e-4, 1e-5)) for dtype in dtypes))
    varies = said["dynamic"] and "index" in dtypes
    for call in range(2):
        torch.manual_seed(1000 + call)
        by = 3 if varies and call else 0
        inputs = [
            make(dtype, grown(shape, by), *layout) for dtype, shape, *layout in said["inputs"]
        ]
        expected = outcome(f, inputs, gradients)
        found = difference(outcome(fast, inputs, gradients), expected, tolerance)
        if found and is_stable(f, inputs, expected, tolerance, gradients):
            return f"call {call}: {found}"
    return None


def shrunk(source):
    """The program without the lines that it fails without."""
    head, begin, *lines = source.rstrip().split("\n")
    changed = True
    while changed:
        changed = False
        for at in reversed(range(len(lines) - 1)):
            trial = "\n".join([head, begin, *lines[:at], *lines[at + 1 :]]) + "\n"
            try:
                fails = failure(trial) is not None
            except (NameError, UnboundLocalError, RuntimeError, IndexError, TypeError):
                fails = False
            if fails:
                del lines[at]
                changed = True
        names = lines[-1].removeprefix("    return ").rstrip(",").split(", ")
        for name in list(names):
            rest = [n for n in names if n != name]
            if not rest:
                break
            trial = "\n".join([head, begin, *lines[:-1], f"    return {', '.join(rest)},"]) + "\n"
            if failure(trial) is not None:
                names, lines[-1], changed = rest, f"    return {', '.join(rest)},", True
    return "\n".join([head, begin, *lines]) + "\n"
