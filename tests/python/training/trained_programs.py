"""Random programs that are trained: a function of tensors that require grad, a use of its results.

`generate(seed)` gives a `Program`, whose text defines `f`. Statements are tried on eager's tensors
while they are made, so that a program runs in eager; what its backward does, errors included, is for
`difference` to see.
"""

import contextlib
import dataclasses
import random
import warnings

import braze
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

PRELUDE = """
class Halved(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.factor / 2 + x * 0.1, None


class Pair(torch.autograd.Function):
    @staticmethod
    def forward(x, y):
        return x + y, x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, g, unused):
        x, y = ctx.saved_tensors
        return g * y.cos(), g * x.cos()


class Written(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2
"""

NAMES = ("a", "b", "c", "d", "w")  # parameters of f; beside them index and mask
UNARY = (
    "{x}.sin()", "{x}.cos()", "({x} * 0.2).exp()", "{x}.tanh()", "{x}.sigmoid()", "F.relu({x})",
    "F.gelu({x})", "F.silu({x})", "F.softplus({x})", "{x}.abs()", "({x}.abs() + 1).sqrt()", "-{x}",
    "{x} ** 2", "{x}.abs().log1p()", "{x} * {s}", "{x} + {s}", "{s} - {x}", "{x} / {s}",
    "{x}.clamp(-1, {s})", "F.leaky_relu({x}, 0.2)", "F.elu({x})", "F.hardtanh({x})", "{x}.erf()",
    "{x}.square()", "F.mish({x})", "F.gelu({x}, approximate='tanh')", "{x}.atan()", "{x}.clone()",
    "F.dropout({x}, 0.4, True)", "F.softmax({x}, -1)", "F.log_softmax({x}, -1)", "{x}.cumsum(-1)",
    "F.layer_norm({x}, {x}.shape[-1:])", "F.normalize({x}, dim=-1)", "{x}.contiguous()",
    "{x}.flip(0)", "{x}.roll(1, -1)", "{x}.tril()", "F.rms_norm({x}, {x}.shape[-1:])",
    "{x}.sort(-1).values", "{x}.cumprod(-1)", "{x}.logcumsumexp(-1)", "{x}.nan_to_num()",
)  # fmt: skip
BINARY = (
    "{x} + {y}", "{x} * {y}", "{x} - {y}", "{x} / ({y}.abs() + 1)", "torch.maximum({x}, {y})",
    "torch.minimum({x}, {y})", "torch.where({x} > 0, {x}, {y})", "torch.lerp({x}, {y}, 0.3)",
    "torch.addcmul({x}, {y}, {y})", "torch.atan2({x}, {y}.abs() + 1)", "torch.hypot({x}, {y})",
    "{x} @ {y}", "{x} @ {y}.mT", "{x}.mT @ {y}", "torch.cat([{x}, {y}])", "torch.stack([{x}, {y}], 1)",
    "torch.cat([{x}, {y}], -1)", "torch.einsum('ij,kj->ik', {x}, {y})", "F.linear({x}, {y})",
    "F.mse_loss({x}, {y})", "F.smooth_l1_loss({x}, {y})", "F.cosine_similarity({x}, {y}, -1)",
    "Pair.apply({x}, {y})[0]", "torch.outer({x}.reshape(-1), {y}.reshape(-1))",
    "F.scaled_dot_product_attention({x}[None], {y}[None], {y}[None])[0]", "{x}.expand_as({y})",
    "checkpoint(lambda u, v: u.sin() * v, {x}, {y}, use_reentrant=False)",
    "torch.where(mask, {x}, {y})", "{x}.mul({y}).detach()", "torch.cdist({x}, {y} + 3)",
    "torch.baddbmm({x}[None], {y}[None], {x}.mT[None])", "{x}.copysign({y}.detach())",
)  # fmt: skip
VIEWS = (
    "{x}.mT", "{x}.transpose(0, -1)", "{x}.reshape(-1)", "{x}[1:]", "{x}[..., ::2]", "{x}[..., None]",
    "{x}[None]", "{x}.flatten()", "{x}.diagonal()", "{x}.chunk(2)[0]", "{x}.chunk(2, -1)[-1]",
    "{x}.unbind(0)[-1]", "{x}.narrow(0, 0, 1)", "{x}.select(-1, 0)", "{x}.squeeze()", "{x}.split(1)[0]",
    "{x}.expand(2, *{x}.shape)", "{x}.movedim(0, -1)", "{x}.unfold(-1, 2, 1)", "{x}.view_as({x})",
    "{x}.detach()", "{x}[0]", "{x}.ravel()", "{x}.unflatten(-1, (2, -1))", "{x}.swapaxes(0, -1)",
)  # fmt: skip
REDUCTIONS = (
    "{x}.sum()", "{x}.mean(-1)", "{x}.sum(0)", "{x}.var(-1)", "{x}.std(0)", "{x}.amax(-1)",
    "{x}.max(-1).values", "{x}.logsumexp(-1)", "{x}.norm()", "{x}.prod(-1)", "{x}.min()",
    "{x}.median(-1).values", "{x}.mean(0, keepdim=True)", "{x}.topk(1).values", "{x}.norm(dim=-1)",
    "torch.var_mean({x}, -1)[1]", "{x}.amin(0)", "{x}.nansum()", "torch.trace({x})",
)  # fmt: skip
PICKS = (
    "{x}[index]", "{x}.index_select(0, index)", "{x}.gather(0, index[:, None].expand(-1, {x}.shape[1]))",
    "{x}[mask]", "{x}.masked_fill(mask, 0.5)", "{x}.index_add(0, index, {x}[index])",
    "{x}.scatter_add(0, index[:, None].expand(-1, {x}.shape[1]), {x})", "{x}[{x} > 0]",
    "torch.zeros(3, *{x}.shape[1:], dtype={x}.dtype).index_add(0, index, {x}[index])",
    "F.embedding(index, {x})", "F.cross_entropy({x}, index[:{x}.shape[0]])", "F.pad({x}, (1, 1))",
    "{x}.take_along_dim(index[None, :1] * 0, -1)", "{x}.repeat(2, 1)", "{x}.repeat_interleave(2, 0)",
    "F.nll_loss(F.log_softmax({x}, -1), index[:{x}.shape[0]])", "{x}.masked_select(mask)",
    "{x}.index_put((index,), {x}[index] * 2, accumulate=True)",
)  # fmt: skip
WRITES = (
    "{x}.mul_({y})", "{x}.add_({y})", "{x}.sin_()", "{x}.clamp_(-1, 1)", "{x}[0] = {y}[0]",
    "{x}[1:].add_(1)", "{x}.copy_({y})", "{x}.masked_fill_({x} > 1, 0.5)", "{x}[..., 0] = {s}",
    "{x}.mul_({s})", "{x}.zero_()", "{x} += {y}", "{x} *= {s}", "{x}.t_()", "{x}.relu_()",
    "{x}.index_add_(0, index, {x}.detach()[index])", "{x}.detach().mul_(2)", "{x}.unsqueeze_(0)",
    "{x}.diagonal().add_({s})", "{x}.addcmul_({y}, {y})", "{x}[index] = {s}", "{x}.fill_({s})",
    "Written.apply({x})",
)  # fmt: skip
STATEMENTS = (
    "with torch.no_grad():\n    {z} = {x} * 2",
    "with torch.no_grad():\n    {x}.mul_(0.5)",
    "with torch.enable_grad():\n    {z} = {x}.sin() * 2",
    "if {x}.requires_grad:\n    {z} = {x} * 3\nelse:\n    {z} = {x}.cos()",
    "{z} = {x}.detach().requires_grad_() * 2",
    # Not on {x}: PyTorch ends the process where that is a view whose base has been written to.
    "{z} = {x} * 2\nif {z}.requires_grad:\n    {z}.register_hook(lambda g: g * 2)",
    "{z} = {x} if {x}.abs().sum().item() > 3 else -{x}",
    "if {x}.abs().sum() > 3:\n    {z} = {x}.sin()\nelse:\n    {z} = {x}.cos()",
    "os.getpid()\n{z} = {x} + 1",
    "{z} = Halved.apply({x}, {s})",
    "{z}, {z}b = Pair.apply({x}, {x} + 1)\n{z} = {z} + {z}b",
    "{z}, {z}i = {x}.max(-1)\n{z} = {z} * ({z}i + 1).sign()",
    "{z} = {x}\nfor part in {x}.unbind(0):\n    {z} = {z} + part",
    "{z} = {x}.to(torch.complex128).abs().to({x}.dtype)",
    "with torch.set_grad_enabled(not {x}.requires_grad):\n    {z} = {x} * 2",
    "torch.set_grad_enabled(False)\n{z} = {x} * 2\ntorch.set_grad_enabled(True)",
    "{z} = torch.autograd.grad({x}.sin().sum(), {x})[0] + {x}",
    "{z} = {x}.to(torch.complex128).exp().real",
    "{x}.retain_grad()\n{z} = {x} * 2",
    "{z} = checkpoint(lambda u: F.dropout(u.tanh(), 0.5), {x}, use_reentrant=True) + {x}",
)
SHAPES = {
    "a": ((3, 4), (4, 4), (2, 3, 4)), "b": ((3, 4), (4, 4), (4,), (1, 4)), "c": ((4,), (3, 1), (4, 4)),
    "d": ((), (1,), (3, 4)), "w": ((4, 4), (5, 4)),
}  # fmt: skip
USES = (
    "sum", "sum", "sum", "ones", "strided", "expanded", "grad", "grad of some", "twice", "penalty",
    "one result", "zeros", "scaled inputs", "retained",
)  # fmt: skip


@dataclasses.dataclass
class Program:
    lines: list
    result: str
    shapes: dict
    trained: tuple
    histories: tuple  # inputs that are no leaves
    use: str
    dynamic: bool | None
    hooks: bool
    whole: bool = False  # what asks for gradients is a part of the compiled function

    def text(self):
        body = [part for line in self.lines for part in line.split("\n")]
        head = f"def f({', '.join(NAMES)}, index, mask):"
        return "\n".join([head, *(f"    {line}" for line in body), f"    return {self.result}"])

    def show(self):
        given = ", ".join(
            f"{n}{list(s)}{' trained' * (n in self.trained)}{' history' * (n in self.histories)}"
            for n, s in self.shapes.items()
        )
        settings = f"use={self.use!r} dynamic={self.dynamic} hooks={self.hooks} whole={self.whole}"
        return f"{self.text()}\n# {given}\n# {settings}"


def environment():
    names = {"torch": torch, "F": F, "checkpoint": checkpoint, "os": __import__("os")}
    exec(PRELUDE, names)
    return names


def tensors(program, number):
    """Leaves, and what `f` is given for them."""
    maker = torch.Generator().manual_seed(number)
    leaves, given = {}, {}
    for name in NAMES:
        shape = program.shapes[name]
        leaf = torch.randn(shape, generator=maker, dtype=torch.float64)
        leaves[name] = leaf.requires_grad_(name in program.trained)
        given[name] = leaf * 1 if name in program.histories else leaf
    rows = program.shapes["a"][0]
    index = torch.randint(0, min(3, rows), (3,), generator=maker)
    mask = torch.rand(program.shapes["a"], generator=maker) > 0.5
    return leaves, [given[name] for name in NAMES] + [index, mask]


def generate(seed):
    r = random.Random(seed)
    shapes = {name: r.choice(choices) for name, choices in SHAPES.items()}
    trained = tuple(n for n in NAMES if r.random() < 0.6) or ("a",)
    histories = tuple(n for n in trained if r.random() < 0.2)
    program = Program(
        [],
        "a",
        shapes,
        trained,
        histories,
        r.choice(USES),
        r.choice((None, None, True)),
        r.random() < 0.3,
    )
    names = environment()
    _, given = tensors(program, 0)
    live = list(NAMES)
    scope = dict(zip([*NAMES, "index", "mask"], given))
    if program.use == "penalty":  # not through Functions of the user's
        statements = [s for s in STATEMENTS if "apply" not in s and "checkpoint" not in s]
        binary = [b for b in BINARY if "apply" not in b]
        writes = [w for w in WRITES if "apply" not in w]
    else:
        statements, binary, writes = STATEMENTS, BINARY, WRITES
    wanted, tries = r.randint(2, 12), 0
    kinds = [UNARY] * 5 + [binary] * 6 + [VIEWS] * 3 + [REDUCTIONS] * 2 + [PICKS] * 2
    while len(program.lines) < wanted and tries < 200:
        tries += 1
        z = f"t{len(program.lines)}"
        kind = r.random()
        recent = live[-4:] if r.random() < 0.6 else live
        words = {"x": r.choice(recent), "y": r.choice(live), "s": r.choice((0.5, 2, 1.5)), "z": z}
        if kind < 0.12:
            line, made = r.choice(writes).format(**words), None
        elif kind < 0.2:
            line, made = r.choice(statements).format(**words), z
        else:
            line, made = f"{z} = " + r.choice(r.choice(kinds)).format(**words), z
        if "attention" in line and not scope[words["x"]].numel():
            continue  # PyTorch 2.11 divides by the number of queries
        before = {n: t.detach().clone() for n, t in scope.items() if isinstance(t, torch.Tensor)}
        attempt = dict(scope)
        try:
            exec(line, names, attempt_locals := attempt)
            result = attempt_locals.get(made) if made else None
            if made and not (isinstance(result, torch.Tensor) and result.numel() < 4000):
                raise ValueError
            if made and result.is_floating_point() and result.numel():
                if not bool(result.isfinite().all()) or float(result.detach().abs().max()) > 1e6:
                    raise ValueError
        except Exception:
            torch.set_grad_enabled(True)
            # What a statement had written before it failed is not taken back: such a program ends.
            if any(not torch.equal(before[n], scope[n].detach()) for n in before):
                break
            continue
        program.lines.append(line)
        scope = {n: v for n, v in attempt.items() if isinstance(v, torch.Tensor)}
        if made and result.is_floating_point():
            live.append(made)
    count = r.choice((1, 1, 2, 3))
    results = [r.choice(live[-5:]) for _ in range(count)]
    program.result = results[0] if count == 1 else "(" + ", ".join(results) + ")"
    if r.random() < 0.1:
        program.result = "{'first': " + results[0] + "}"
    program.whole = r.random() < 0.4
    return program


def results_of(value):
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, tuple) else [value]


def use(program, results, leaves):
    """Asks for gradients; what to compare beside the leaves' own."""
    chosen = [t for t in results if t.requires_grad and t.is_floating_point()]
    wanted = [leaves[n] for n in program.trained]
    if not chosen:
        return []
    how = program.use
    weights = [
        torch.linspace(0.5, 1.5, max(t.numel(), 1), dtype=t.dtype)[: t.numel()].reshape(t.shape)
        for t in chosen
    ]
    total = sum((t * w).sum() for t, w in zip(chosen, weights))
    if how == "sum":
        total.backward()
    elif how == "ones":
        torch.autograd.backward(chosen, [torch.ones_like(t) for t in chosen])
    elif how == "strided":
        torch.autograd.backward(
            chosen,
            [w.transpose(0, -1).contiguous().transpose(0, -1) if w.dim() else w for w in weights],
        )
    elif how == "expanded":
        torch.autograd.backward(
            chosen, [torch.ones((), dtype=t.dtype).expand(t.shape) for t in chosen]
        )
    elif how == "grad":
        return list(torch.autograd.grad(total, wanted, allow_unused=True))
    elif how == "grad of some":
        return list(torch.autograd.grad(total, wanted[:1], allow_unused=True))
    elif how == "twice":
        total.backward(retain_graph=True)
        total.backward()
    elif how == "penalty":
        found = torch.autograd.grad(total, wanted, allow_unused=True, create_graph=True)
        penalty = sum(g.square().sum() for g in found if g is not None and g.requires_grad)
        if isinstance(penalty, torch.Tensor):
            penalty.backward()
        return [g if g is None else g.detach() for g in found]
    elif how == "one result":
        (chosen[-1] * weights[-1]).sum().backward()
    elif how == "zeros":
        torch.autograd.backward(chosen, [torch.zeros_like(t) for t in chosen])
    elif how == "scaled inputs":
        (total * sum(leaves[n].sum() for n in program.trained)).backward()
    elif how == "retained":
        for t in chosen:
            t.retain_grad()
        total.backward()
        return [t.grad for t in chosen]
    return []


def observe(program, wrap):
    """What three calls and their backwards show, as (word, value)."""
    names = environment()
    exec(program.text(), names)
    f = names["f"] if program.whole else wrap(names["f"])

    def step(given, leaves):
        results = results_of(f(*given))
        return results, use(program, results, leaves)

    step = wrap(step) if program.whole else step
    shown = []
    for number in range(3):
        raised = False
        leaves, given = tensors(program, number)
        calls = []
        handles = []
        if program.hooks:
            first = leaves[program.trained[0]]
            handles.append(first.register_hook(lambda g, calls=calls: calls.append(g.clone())))
            handles.append(first.register_hook(lambda g: g * 2))
        torch.manual_seed(number)
        try:
            results, asked = step(given, leaves)
            for t in results:
                shown.append(("result", t.detach().clone()))
                shown.append(("strides", (t.shape, t.stride(), t.dtype)))
                shown.append(("requires_grad, is_leaf", (t.requires_grad, t.is_leaf)))
                shown.append(("has grad_fn", t.grad_fn is not None))
            shown.append(("versions", [t._version for t in given]))
            for value in asked:
                shown.append(("gradient asked for", value))
        except Exception as error:
            torch.set_grad_enabled(True)
            raised = True
            shown.append(("raised", (type(error).__name__, str(error).split("\n")[0][:60])))
        for name in NAMES:
            # What has been accumulated before a backward raises hangs on the order of its nodes.
            if not raised:
                shown.append((f"gradient of {name}", leaves[name].grad))
            shown.append((f"value of {name}", leaves[name].detach().clone()))
        shown.append(("grad mode", torch.is_grad_enabled()))
        shown.append(("drawn", torch.rand(1)))
        if not raised:
            shown.append(("gradients in hooks", list(calls)))
    return shown


def same(got, wanted):
    if isinstance(wanted, torch.Tensor):
        if not isinstance(got, torch.Tensor) or (got.shape, got.dtype) != (
            wanted.shape,
            wanted.dtype,
        ):
            return False
        if not wanted.is_floating_point():
            return torch.equal(got, wanted)
        scale = float(wanted.abs().nan_to_num(0, 0, 0).max()) if wanted.numel() else 0.0
        return torch.allclose(got, wanted, rtol=1e-7, atol=1e-9 * (1 + scale), equal_nan=True)
    if isinstance(wanted, list):
        return isinstance(got, list) and len(got) == len(wanted) and all(map(same, got, wanted))
    return got == wanted


def difference(program, backend="aten"):
    """What differs from eager, as text; None: nothing, or eager itself is not the same each time."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(None):
        warnings.simplefilter("ignore")
        wanted = observe(program, lambda f: f)
        got = observe(program, lambda f: braze.compile(f, backend=backend, dynamic=program.dynamic))
        braze.reset()
    for number, ((word, a), (other, e)) in enumerate(zip(got, wanted)):
        if word != other or not same(a, e):
            # The compiled code needs less than eager's formulas, or has a copy of it.
            if other == "raised" != word and "needed for gradient" in str(e):
                return None
            again = observe(program, lambda f: f)
            if not all(same(x, y) for (_, x), (_, y) in zip(again, wanted)):
                return None
            return f"{other}: {cut(a) if word == other else (word, cut(a))} for {cut(e)} ({number})"
    return None if len(got) == len(wanted) else "more or fewer results"


def show(seed, found):
    """The program made small, for people."""
    small = smaller(generate(seed))
    return f"seed {seed}: {found}\n{PRELUDE}\n{small.show()}"


def cut(value):
    text = str(value).replace("\n", " ")
    return text if len(text) < 300 else text[:300] + "..."


def smaller(program, backend="aten"):
    """A program of fewer lines that differs as well."""
    changed = True
    while changed:
        changed = False
        for i in range(len(program.lines)):
            lines = program.lines[:i] + program.lines[i + 1 :]
            less = dataclasses.replace(program, lines=lines)
            with contextlib.suppress(Exception):
                found = difference(less, backend)
                if found and "NameError" not in found and "UnboundLocal" not in found:
                    program, changed = less, True
                    break
    return program
