"""What the compiler generates for models and functions, as files: does a change change any?

    python tools/dump_kernels.py FOLDER           writes the generated C++ and the plans
    python tools/dump_kernels.py BEFORE AFTER     compares two such folders

Each plan of the models of bench/ and of the functions below becomes `<name>.<number>.cpp`, its
source as the C++ compiler gets it, and `<name>.<number>.plan`, its text form without the places in
the user's code. What is generated depends on the number of threads (`--threads`) and on the
instruction set (BRAZE_ISA), so both folders are to be made with the same. `--only` takes patterns
of names (`functions.*`, `zoo.bert*`).

A comparison names each file that differs or stands in one folder alone, then each kernel of BEFORE
that AFTER does not have to the letter (but for its number), and how many it has. It exits with 1
if any file differs.
"""

import argparse
import fnmatch
import os
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KERNEL = re.compile(r'^extern "C"', re.M)
NUMBERED = re.compile(r"\bk\d+_")
ORIGIN = re.compile(r"\s+// .*$", re.M)


@dataclass(frozen=True)
class Case:
    """make(): what is compiled, its positional and its keyword arguments."""

    name: str
    make: Callable[[], tuple[Callable, tuple, dict]]
    dynamic: bool | None = None


# --- Functions: each is there for a decision that lowering, scheduling or code generation takes ---


def functions() -> list[Case]:
    import torch
    from torch.nn import functional

    def normal(*sizes, dtype=torch.float32):
        return lambda: torch.randn(*sizes).to(dtype)

    def integers(*sizes, high=8):
        return lambda: torch.randint(0, high, sizes)

    def branches(x):
        return torch.exp(x), torch.tanh(x) * 2, x.abs() + 1

    def two_sums(x):
        return x.sum(), (x * x).sum(), x.max()

    def normalised(x):
        return (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + 1e-5).sqrt()

    def mask_of_table(x, table):
        scale = (table + 1).rsqrt()
        return x * scale, (x + 1) * scale

    def chain_of_places(x):
        x = torch.sigmoid(x.t().contiguous())
        return torch.relu(x.t().contiguous()).sum(0)

    def wide_beside_few_rows(x):
        y = torch.exp(x)
        return y, y.argmax()  # which is not split

    def writes(x):
        y = x.clone()
        y[:, 1:3] = 0
        y.add_(1).mul_(x)
        return y

    def products(x, w, b):
        hidden = torch.addmm(b, x, w).relu()
        return torch.mm(hidden, w) + x

    def attention(q, k, v):
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True) + 1

    def scaled_norm(x, weight):
        return functional.layer_norm(x, (256,), weight)

    def joined(x, y):
        return torch.cat([x, y * 2, x], 1).relu()

    def convolution(x, weight):
        x = functional.conv2d(x, weight)
        return functional.max_pool2d(functional.relu(x), 2).mean((2, 3))

    half, brain, double = torch.float16, torch.bfloat16, torch.float64
    table: list[tuple] = [
        ("pointwise", lambda x, y: torch.tanh(x + y) * x - 1, normal(64, 128), normal(64, 128)),
        ("pointwise_large", lambda x: (x * 2 + 1).relu(), normal(512, 1024)),
        ("pointwise_odd", lambda x: torch.exp(-x) + x, normal(7, 13)),
        ("broadcast", lambda x, y: x * y + y, normal(32, 1, 48), normal(16, 48)),
        ("transposed", lambda x, y: x.t() + y, normal(96, 64), normal(64, 96)),
        ("half", lambda x: torch.erf(x * 0.5) + 1, normal(40, 64, dtype=half)),
        ("bfloat16", lambda x, y: functional.silu(x) * y, *2 * [normal(40, 64, dtype=brain)]),
        ("double", lambda x: torch.log1p(x.abs()).sin(), normal(33, 17, dtype=double)),
        ("integers", lambda x: (x * 3 + 1) // 2 % 5, integers(100, 30)),
        ("bools", lambda x: (x > 0) & (x < 1) | x.isnan(), normal(50, 50)),
        ("where", lambda x, y: torch.where(x > y, x, y.exp()), normal(60, 64), normal(64)),
        ("casts", lambda x: x.double().sin().float() + x.int(), normal(64, 64)),
        ("sum_rows", lambda x: x.sum(-1), normal(128, 300)),
        ("sum_columns", lambda x: x.sum(0), normal(300, 128)),
        ("sum_all", lambda x: x.sum(), normal(1000, 1000)),
        ("sum_all_odd", lambda x: (x * x).sum(), normal(1000003)),
        ("several_reductions", two_sums, normal(700, 900)),
        ("few_long_rows", lambda x: x.amax(1), normal(6, 200000)),
        ("product_of_all", lambda x: (x * 0.1 + 1).prod(), normal(300000)),
        ("argmax", lambda x: (x.argmax(1), x.min(0)), normal(64, 200)),
        ("mean_and_variance", lambda x: torch.var_mean(x, 1), normal(30, 257)),
        ("normalised", normalised, normal(64, 384)),
        ("softmax", lambda x: torch.softmax(x, -1), normal(64, 512)),
        ("log_softmax_columns", lambda x: torch.log_softmax(x, 0), normal(80, 96)),
        ("layer_norm", scaled_norm, normal(8, 32, 256), normal(256)),
        ("group_norm", lambda x: functional.group_norm(x, 4), normal(2, 16, 10, 10)),
        ("branches", branches, normal(100, 100)),
        ("recomputed", mask_of_table, normal(64, 1024), normal(1024)),
        ("orders_of_axes", chain_of_places, normal(120, 130)),
        ("starved_threads", wide_beside_few_rows, normal(300, 400)),
        ("concatenation", joined, normal(8, 20), normal(8, 12)),
        ("embedding", lambda i, w: functional.embedding(i, w) * 2, integers(4, 16), normal(8, 64)),
        ("indexing", lambda x, i: x[i] + x.index_select(0, i), normal(8, 40), integers(12)),
        ("gather", lambda x, i: x.gather(1, i).exp(), normal(10, 8), integers(10, 8)),
        ("slices", lambda x: x[:, ::2] + x[:, 1::2].flip(1), normal(40, 64)),
        ("triangle", lambda x: x.tril(1).masked_fill(x > 1, 0.5), normal(4, 33, 33)),
        ("factories", lambda x: x + torch.arange(64.0) * torch.ones(32, 1), normal(32, 64)),
        ("cumulative", lambda x: torch.cumsum(x, 1) * 2, normal(16, 50)),
        ("writes", writes, normal(32, 64)),
        ("products", products, normal(64, 128), normal(128, 128), normal(128)),
        ("large_products", products, normal(256, 512), normal(512, 512), normal(512)),
        ("attention", attention, *3 * [normal(2, 4, 48, 32)]),
        ("convolution", convolution, normal(2, 3, 20, 20), normal(8, 3, 3, 3)),
        ("interpolated", lambda x: functional.interpolate(x, scale_factor=2), normal(1, 4, 9, 9)),
        ("padded", lambda x: functional.pad(x, (1, 2, 3, 0), value=1.5), normal(3, 10, 12)),
    ]  # fmt: skip
    varying = ("pointwise", "broadcast", "softmax", "normalised", "few_long_rows", "sum_all",
               "products", "writes", "recomputed", "concatenation")  # fmt: skip

    def case(name, function, arguments, dynamic):
        def make():
            torch.manual_seed(0)
            return function, tuple(argument() for argument in arguments), {}

        return Case(name, make, dynamic)

    static = [case(f"functions.{name}", f, args, False) for name, f, *args in table]
    return static + [
        case(f"varying.{name}", f, args, True) for name, f, *args in table if name in varying
    ]


# --- Models ---------------------------------------------------------------------------------------


def models() -> list[Case]:
    from bench.models import CAPTURED, MODELS, build
    from bench.zoo import ZOO

    def whole(name):
        return lambda: (*build(name), {})

    def small(model):
        return lambda: (model.build(), (), model.arguments(model.sizes[0]))

    return [Case(f"models.{name}", whole(name)) for name in {**MODELS, **CAPTURED}] + [
        Case(f"zoo.{name}", small(model)) for name, model in ZOO.items()
    ]


# --- Writing and comparing ------------------------------------------------------------------------


def plans_of(case: Case) -> list[tuple[str, str]]:
    """Source and plan of each entry that has one."""
    import braze
    import torch

    target, arguments, keywords = case.make()
    with torch.no_grad():
        explanation = braze.explain(target, dynamic=case.dynamic)(*arguments, **keywords)
    return [
        (entry["code"], ORIGIN.sub("", entry["plan"]))
        for entry in explanation.entries
        if entry["plan"]
    ]


def dump(folder: Path, cases: list[Case]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SystemExit(f"{folder} is not empty")
    for case in cases:
        plans = plans_of(case)
        for number, (code, plan) in enumerate(plans):
            (folder / f"{case.name}.{number}.cpp").write_text(code)
            (folder / f"{case.name}.{number}.plan").write_text(plan)
        kernels = sum(len(KERNEL.findall(code)) for code, _ in plans)
        print(f"{case.name}: {len(plans)} plans, {kernels} kernels", flush=True)


def compare(before: Path, after: Path) -> list[str]:
    """What differs, a line for each file."""
    names = [{path.name for path in folder.iterdir()} for folder in (before, after)]
    findings = [f"{name}: only in {before}" for name in names[0] - names[1]]
    findings += [f"{name}: only in {after}" for name in names[1] - names[0]]
    for name in names[0] & names[1]:
        old, new = ((folder / name).read_text() for folder in (before, after))
        if old != new:
            pairs = enumerate(zip(old.splitlines(), new.splitlines()), 1)
            line = next((number for number, (a, b) in pairs if a != b), None)
            where = f"from line {line} on" if line else "at the end"
            findings.append(f"{name}: differs {where}")
    return sorted(findings)


def kernels_of(source: str) -> list[str]:
    """The kernels of a plan's source, without their numbers; not the functions that they share."""
    starts = [match.start() for match in KERNEL.finditer(source)] + [len(source)]
    # Between two kernels stands the comment of the second, which says the same in the loop IR.
    texts = [source[begin:end] for begin, end in zip(starts, starts[1:])]
    return [NUMBERED.sub("", text.partition("\n}\n")[0]) for text in texts]


def changed_kernels(before: Path, after: Path) -> tuple[list[str], int]:
    """A line for each kernel that `after` has not, and how many kernels `before` has."""
    findings, count = [], 0
    for path in sorted(before.glob("*.cpp")):
        other = after / path.name
        left = Counter(kernels_of(other.read_text()) if other.exists() else [])
        for kernel in kernels_of(path.read_text()):
            count += 1
            if left[kernel]:
                left[kernel] -= 1
            else:
                name = kernel.partition("(")[0].rpartition(" ")[2]
                findings.append(f"{path.stem}: {name} is another")
    return findings, count


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="what is written; of two, the one before")
    parser.add_argument("after", type=Path, nargs="?")
    parser.add_argument("--threads", type=int, default=4, help="that kernels are made for (4)")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="PATTERN")
    arguments = parser.parse_args()
    if arguments.after:
        findings = compare(arguments.folder, arguments.after)
        changed, kernels = changed_kernels(arguments.folder, arguments.after)
        plans = len(list(arguments.folder.glob("*.cpp")))
        same = kernels - len(changed)
        print(*findings, *changed, f"{plans} plans, {same} of {kernels} kernels the same", sep="\n")
        return 1 if findings else 0
    os.environ.setdefault("BRAZE_CACHE", "0")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    sys.path.insert(0, str(ROOT))
    import torch

    torch.set_num_threads(arguments.threads)
    chosen = [
        case
        for case in functions() + models()
        if any(fnmatch.fnmatch(case.name, pattern) for pattern in arguments.only)
    ]
    if not chosen:
        parser.error(f"no name fits {' '.join(arguments.only)}")
    dump(arguments.folder, chosen)
    return 0


if __name__ == "__main__":
    sys.exit(main())
