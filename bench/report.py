"""Records to Markdown."""

from collections.abc import Callable

from bench.compilers import COMPILERS
from bench.device_models import DEVICE_MODELS
from bench.kernel_tables import geometric_mean, kernels
from bench.models import CAPTURED, MODELS
from bench.tables import number, reason, table
from bench.training import TRAINED

# Timers of torch.compile that are shown beside ours; they nest, so they are not summed.
TORCH_PHASES = {
    "_compile.compile_inner": "all of it",
    "backend_compile": "behind capture",
    "compile_fx_inner": "TorchInductor",
    "async_compile.wait": "waiting for g++",
}


RUNNING = """\
`python -m bench SUITE ...` measures; `--json` keeps every record as it comes, so that a run that is
cut short keeps what it has, and `--resume` goes on with the kernels that are left. `kernels` takes
`--device cuda`, `--kernels` for those whose names have one of some parts in them, `--compilers` for
what stands beside eager, and `--quick` for few samples, on a CPU also for small inputs:

```sh
python -m bench kernels --device cuda --compilers braze --json kernels.json
python -m bench models overhead memory --device cuda --compilers inductor braze braze_graphs
python -m bench kernels --quick --kernels softmax layer_norm
```"""


def markdown(machine: dict, results: dict[str, list[dict]]) -> str:
    parts = [
        _with_device(machine, tables(results[suite]))
        for suite, tables in SECTIONS.items()
        if suite in results
    ]
    return "\n\n".join([_introduction(machine), *parts]) + "\n"


def _with_device(machine: dict, section: str) -> str:
    """Its first paragraph begins with what was measured."""
    title, _, rest = section.partition("\n\n")
    device = machine.get("device", machine["cpu"])
    return f"{title}\n\n{device}, PyTorch {machine['torch']}. {rest}"


def _introduction(machine: dict) -> str:
    return (
        "# Benchmarks\n\n"
        "Made by `python -m bench` (`make bench`); not edited by hand.\n\n"
        f"Machine: {_device(machine)}{machine['cpu']}, {machine['cores']} cores, "
        f"{machine['memory_gib']} GiB, {machine['isa']}; {machine['threads']} threads. "
        f"Python {machine['python']}, PyTorch {machine['torch']}. "
        f"Load before the run: {machine['load']}.\n\n{RUNNING}"
    )


def _device(machine: dict) -> str:
    """The GPU, where it is one that was measured."""
    device = machine.get("device", machine["cpu"])
    return "" if device == machine["cpu"] else f"{device}; "


def _table(header: list[str], records: list[dict], title: Callable, cells: Callable) -> str:
    """A row for each record: `title`, the compiler and `cells` of it, or why it failed."""
    rows = []
    for record in records:
        failed = "error" in record
        rest = [reason(record)] if failed else cells(record)
        row = [title(record), COMPILERS[record["compiler"]].title, *rest]
        rows.append(row + [""] * (len(header) - len(row)))
    return table(header, rows)


def _models(records: list[dict]) -> str:
    header = [
        "model", "compiler", "eager ms", "compiled ms", "speed-up", "first call, cold",
        "first call, warm", "eager's", "imports", "guards", "peak memory", "eager's", "accuracy",
        "max difference",
    ]  # fmt: skip

    def cells(record: dict) -> list[str]:
        accuracy, later = record["accuracy"], record["accuracy_later"]
        return [
            number(record["eager_ms"]),
            number(record["compiled_ms"]),
            number(record["speedup"], 2, "x"),
            number(record["cold_first_call_s"], 2, " s"),
            number(record["warm_first_call_s"], 2, " s"),
            number(record["eager_first_call_s"], 2, " s"),
            number(record["imports_s"], 2, " s"),
            number(record["guard_check_us"], 2, " us"),
            number(record["peak_rss_mb"], 0, " MB"),
            number(record["eager_peak_rss_mb"], 0, " MB"),
            "ok" if accuracy["ok"] and later["ok"] else "WRONG",
            f"{max(accuracy['max_difference'], later['max_difference']):.1e}",
        ]

    return (
        "## Models\n\n"
        "Inference, fp32, random weights. Times are medians of interleaved runs with eager in the "
        "same process. First call: compile and run, without the imports, which stand beside it; "
        "cold with empty caches, warm with the caches that the cold one left (the median of five "
        "new processes). "
        "Guards: the check of a call's guards with the binding of its arguments. Accuracy: "
        "rmse(compiled, fp64) <= k rmse(eager, fp64) + 1e-5, k = 2 (3 below 1000 elements), for "
        "the first call and a later one.\n\n"
        + _table(header, records, lambda record: MODELS[record["model"]].title, cells)
    )


def _training(records: list[dict]) -> str:
    header = [
        "model", "compiler", "eager ms", "compiled ms", "speed-up", "of the best",
        "first step, cold", "first step, warm", "imports", "peak memory", "eager's", "ratio",
        "gradients",
    ]  # fmt: skip

    def cells(record: dict) -> list[str]:
        return [
            number(record["eager_ms"]),
            number(record["compiled_ms"]),
            number(record["speedup"], 2, "x"),
            number(record["speedup_of_best"], 2, "x"),
            number(record["cold_first_step_s"], 2, " s"),
            number(record["warm_first_step_s"], 2, " s"),
            number(record["imports_s"], 2, " s"),
            number(record["peak_mb"], 0, " MB"),
            number(record["eager_peak_mb"], 0, " MB"),
            number(record["peak_mb"] / record["eager_peak_mb"]),
            "ok" if record["accuracy"]["ok"] else "WRONG",
        ]

    return (
        "## Training\n\n"
        "A step: forward, backward, gradients; fp32, random weights, no dropout, no optimizer but "
        "in programs, whose steps have theirs. "
        "Times are medians (`of the best`: the least) of steps in turn with eager's in the "
        "same process. Peak memory: what a third step has at most beyond the module and the "
        "imports, in a process of its own. Gradients: each by the rule of accuracy above.\n\n"
        + _table(header, records, lambda record: TRAINED[record["model"]].title, cells)
    )


def _device_models(records: list[dict]) -> str:
    header = [
        "model", "compiler", "eager ms", "compiled ms", "speed-up", "first call", "peak memory",
        "eager's", "reserved", "eager's", "accuracy",
    ]  # fmt: skip

    def cells(record: dict) -> list[str]:
        judged = record["accuracies"]
        right = "ok" if all(accuracy["ok"] for accuracy in judged) else "WRONG"
        return [
            number(record["eager_ms"]),
            number(record["compiled_ms"]),
            number(record["eager_ms"] / record["compiled_ms"], 2, "x"),
            number(record["first_call_s"], 2, " s"),
            *_memory_cells(record),
            right if judged else "no fp64",
        ]

    ratios = {
        title: geometric_mean([r["eager_ms"] / r["compiled_ms"] for r in chosen])
        for title, chosen in _by_compiler(records).items()
    }
    means = ", ".join(f"{title} {number(mean, 2, 'x')}" for title, mean in ratios.items())
    return (
        "## Models\n\n"
        "Random weights; a step of training is a forward and a backward of the mean square of the "
        "first result. Times are medians of steps in turn with eager's in the same process, on a "
        "GPU between two events. First call: all of it, with empty caches. Peak memory: of the "
        "tensors of a later step, and what PyTorch has reserved from the GPU. Accuracy: results "
        "and gradients by the rule rmse(compiled, fp64) <= k rmse(eager, fp64) + 1e-5, k = 2 (3 "
        "below 1000 elements), of the first call and a later one; models with dropout without it; "
        "`no fp64`: the model cannot be run in double precision."
        f"\n\nGeometric means of speed-ups: {means or '-'}.\n\n"
        + _table(header, records, lambda record: DEVICE_MODELS[record["model"]].title, cells)
    )


def _memory_cells(record: dict) -> list[str]:
    keys = ("peak_mb", "eager_peak_mb", "reserved_mb", "eager_reserved_mb")
    return [number(record.get(key), 0, " MB") for key in keys]


def _by_compiler(records: list[dict]) -> dict[str, list[dict]]:
    """Those that did not fail, by the title of the compiler."""
    found: dict[str, list[dict]] = {}
    for record in records:
        if "error" not in record:
            found.setdefault(COMPILERS[record["compiler"]].title, []).append(record)
    return found


def _memory(records: list[dict]) -> str:
    header = [
        "model", "compiler", "peak memory", "eager's", "reserved", "eager's", "peak / eager's",
    ]  # fmt: skip

    def cells(record: dict) -> list[str]:
        eager = record.get("eager_peak_mb")
        return [*_memory_cells(record), number(eager and record["peak_mb"] / eager)]

    known = {**TRAINED, **DEVICE_MODELS}
    return (
        "## Memory\n\n"
        "The most memory of a later step, in a process of its own. On a CPU what is resident "
        "beyond the module and the imports; on a GPU that of all tensors, and what PyTorch has "
        "reserved since the first step, which CUDA graphs keep.\n\n"
        + _table(header, records, lambda record: known[record["model"]].title, cells)
    )


def _overhead(records: list[dict]) -> str:
    header = ["floats", "compiler", "eager ns", "compiled ns", "guards ns", "a break ns"]

    def cells(record: dict) -> list[str]:
        return [
            number(record["eager_ns"], 0),
            number(record["compiled_ns"], 0),
            number(record.get("guard_check_ns"), 0),
            number(record.get("break_ns"), 0),
        ]

    return (
        "## Overhead of a call\n\n"
        "`f(x) = relu(x + 1) * 2`: one call in nanoseconds, with its work and the allocation of "
        "its output; on a GPU until it is launched.\n\n"
        + _table(header, records, lambda record: str(record["size"]), cells)
    )


def _compile_time(records: list[dict]) -> str:
    header = ["model", "compiler", "caches", "first call", "imports", "phases"]

    def cells(record: dict) -> list[str]:
        return [
            record["cache"],
            number(record["first_call_s"], 2, " s"),
            number(record["imports_s"], 2, " s"),
            _phases(record["compiler"], record["phases_s"]),
        ]

    return (
        "## Where the first call's time goes\n\n"
        "Phases in milliseconds. `in torch` is a part of `capture`; torch.compile's timers nest."
        "\n\n" + _table(header, records, lambda record: MODELS[record["model"]].title, cells)
    )


def _capture(records: list[dict]) -> str:
    header = [
        "model", "compiler", "static ms", "dynamic ms", "dynamic / static", "first, static",
        "first, dynamic", "bytecodes", "nodes", "guards",
    ]  # fmt: skip

    def cells(record: dict) -> list[str]:
        return [
            number(record["static_s"] * 1e3),
            number(record["dynamic_s"] * 1e3),
            number(record["dynamic_s"] / record["static_s"], 2, "x"),
            number(record["static_first_s"] * 1e3),
            number(record["dynamic_first_s"] * 1e3),
            number(record["bytecodes"], 0),
            number(record["nodes"], 0),
            number(record["guards"], 0),
        ]

    return (
        "## Capture\n\n"
        "Evaluating the Python code of a call and tracing its operators, without compiling. Best "
        "of many runs in one process with sizes as numbers and as symbols, and the first "
        "ones.\n\n" + _table(header, records, lambda record: CAPTURED[record["model"]].title, cells)
    )


def _phases(compiler: str, phases: dict[str, float]) -> str:
    if compiler == "inductor":
        shown = {label: phases[key] for key, label in TORCH_PHASES.items() if key in phases}
    else:
        shown = {name: seconds for name, seconds in phases.items() if seconds >= 5e-5}
    return ", ".join(f"{name} {seconds * 1e3:,.1f}" for name, seconds in shown.items()) or "-"


def _sizes(records: list[dict]) -> str:
    """One row for each case: static / dynamic by size."""
    kernels = [record for record in records if record["kind"] == "kernel"]
    models = [record for record in records if record["kind"] == "model"]
    tables = []
    if kernels:
        sizes = list(dict.fromkeys(record["size"] for record in kernels if "size" in record))
        rows = [
            [name, *(number(cell["ratio"]) for cell in cells)]
            for name, cells in _by_case(kernels).items()
        ]
        tables.append(table(["floats a row", *sizes], _filled(rows, len(sizes) + 1)))
    if models:
        rows = []
        for name, cells in _by_case(models).items():
            row = [name, *(f"{cell['size']}: {number(cell['ratio'])}" for cell in cells)]
            rows.append(row + [number(cells[0].get(f"{c}_us"), 1) for c in ("fresh", "known")])
        header = ["batch x length or side", "", "", "", "never seen us", "seen before us"]
        tables.append(table(header, _filled(rows, len(header))))
    failed = [f"{record['case']}: {reason(record)}" for record in records if "error" in record]
    return "\n\n".join(
        [
            "## Sizes that vary\n\n"
            "The time of a compile for the very sizes of the call, divided by that of one symbolic "
            "compile for all of them (1: no loss): medians of interleaved runs on one thread, in "
            "seconds of the processor. For some models also what a call takes longer because its "
            "sizes are not those of the call before.",
            *tables,
            *failed,
        ]
    )


def _scans(records: list[dict]) -> str:
    """A table for each number of threads; one row for each operator: eager's time by Braze's."""
    parts = [
        "## Scans and sums into places\n\n"
        "Eager's time divided by that of the compiled function, of interleaved runs: on one thread "
        "the medians, in seconds of the processor; on several the fastest, in seconds of the clock."
    ]
    for threads in dict.fromkeys(record["threads"] for record in records):
        chosen = [record for record in records if record["threads"] == threads]
        rows = [
            [name, *(f"{cell['size']}: {number(cell['ratio'])}" for cell in cells)]
            for name, cells in _by_case(chosen).items()
        ]
        ratios = [record["ratio"] for record in chosen if "error" not in record]
        width = max(map(len, rows), default=2)
        parts += [
            f"Threads: {threads}. Geometric mean: {number(geometric_mean(ratios))}.",
            table(["operator", *[""] * (width - 1)], _filled(rows, width)),
            *(f"{r['case']}: {reason(r)}" for r in chosen if "error" in r),
        ]
    return "\n\n".join(parts)


def _attention(records: list[dict]) -> str:
    """A row for each case and shape: milliseconds of each compiler."""
    compilers = list(dict.fromkeys(record["compiler"] for record in records))
    cells = {
        (record["case"], record["shape"], record["compiler"]): record
        for record in records
        if "error" not in record
    }
    rows = []
    for case, shape in dict.fromkeys((case, shape) for case, shape, _ in cells):
        found = [cells.get((case, shape, compiler), {}) for compiler in compilers]
        rows.append(
            [case, shape]
            + [
                number(one[key]) if key in one else ""
                for key in ("forward_ms", "step_ms")
                for one in found
            ]
        )
    titles = [COMPILERS[compiler].title for compiler in compilers]
    header = ["case", "batch x heads x length x depth"]
    header += [f"{way}, {title}" for way in ("forward", "forward and backward") for title in titles]
    parts = [
        "## flex_attention\n\nMilliseconds, medians; the forward alone is without gradients.",
        table(header, rows),
        *(f"{r['case']}, {r['compiler']}: {reason(r)}" for r in records if "error" in r),
    ]
    return "\n\n".join(parts)


def _draws(records: list[dict]) -> str:
    """One row for each case and size."""
    done = [record for record in records if "error" not in record]
    rows = [
        [
            record["case"],
            record["size"],
            number(record["plain_us"], 1),
            number(record["eager_us"], 1),
            number(record["counter_us"], 1),
            number(record["plain_us"] / record["counter_us"], 2, "x"),
            number(record["eager_us"] / record["counter_us"], 2, "x"),
        ]
        for record in done
    ]
    header = ["case", "size", "eager us", "rng eager us", "rng counter us"]
    return "\n\n".join(
        [
            "## Random numbers\n\n"
            'Eager beside functions that are compiled with `options={"rng": ...}`: medians of '
            "interleaved runs on one thread, in seconds of the processor. The last columns are the "
            "times of eager, and of eager's numbers compiled, divided by that of the counter's.",
            table([*header, "to eager", "to rng eager"], rows),
            *(f"{r['case']}: {reason(r)}" for r in records if "error" in r),
        ]
    )


def _optimizers(records: list[dict]) -> str:
    done = [record for record in records if "error" not in record]
    names = list(done[0]["times"]) if done else []
    rows = [
        [
            str(record["width"]),
            *(number(record["times"][name] * 1e3, 2, " ms") for name in names),
            ", ".join(number(seconds, 2, " s") for seconds in record["first_s"]),
            str(record["compiles"]),
        ]
        for record in done
    ]
    return "\n\n".join(
        [
            "## Optimizers\n\n"
            "A step of AdamW over 200 parameters by their width: medians of steps in turn; Braze's "
            "first two steps, the first of which makes the state; its compiles for 20 changes of "
            "the learning rate.",
            table(["width", *names, "first steps", "compiles"], rows),
            *(f"{r['width']}: {reason(r)}" for r in records if "error" in r),
        ]
    )


def _distributed(records: list[dict]) -> str:
    rows = []
    for record in records:
        if "error" in record:
            continue
        communication = record["communication_s"]
        for way, step in record["step_s"].items():
            alone = record["alone_s"][way]
            hidden = (alone + communication - step) / communication
            rows.append(
                [
                    f"{record['model']}, {way}",
                    *(number(seconds * 1e3, 2, " ms") for seconds in (step, alone, communication)),
                    number(step / max(alone, communication), 2),
                    number(100 * min(1, max(0, hidden)), 0, " %"),
                ]
            )
    header = ["copies of", "step", "alone", "communication", "to the larger", "hidden"]
    return "\n\n".join(
        [
            "## DistributedDataParallel\n\n"
            "Two processes with a copy of the model each: medians of a step, of one without "
            "communication and of the communication alone; the step divided by the larger of these "
            "two, and the part of the communication that computation hides.",
            table(header, rows),
            *(f"{r['model']}: {reason(r)}" for r in records if "error" in r),
        ]
    )


def _by_case(records: list[dict]) -> dict[str, list[dict]]:
    cases: dict[str, list[dict]] = {}
    for record in records:
        if "error" not in record:
            cases.setdefault(record["case"], []).append(record)
    return cases


def _filled(rows: list[list[str]], width: int) -> list[list[str]]:
    return [row + [""] * (width - len(row)) for row in rows]


SECTIONS: dict[str, Callable[[list[dict]], str]] = {
    "models": _models,
    "device_models": _device_models,
    "training": _training,
    "kernels": kernels,
    "overhead": _overhead,
    "compile_time": _compile_time,
    "sizes": _sizes,
    "capture": _capture,
    "scans": _scans,
    "draws": _draws,
    "attention": _attention,
    "optimizers": _optimizers,
    "memory": _memory,
    "distributed": _distributed,
}
