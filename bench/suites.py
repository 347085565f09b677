"""The suites. Each gives records (dicts), as they come, that report.py turns into tables."""

import itertools
import re
import sys
from collections.abc import Iterator

from bench import attention as attending
from bench import distributed as copies
from bench import draws as drawing
from bench import measure, processes
from bench import optimizers as updates
from bench import scans as operators
from bench import sizes as cases
from bench.compilers import COMPILERS
from bench.device_models import DEVICE_MODELS
from bench.processes import ChildError, empty_caches

SIZES = (8, 1024)  # of the overhead suite, in floats
WARM_PROCESSES = 5  # a first call happens once in a process: the median of so many new ones
PHASE = re.compile(
    r"\b(total|capture|in torch|passes|lower|schedule|codegen|build) (\d+(?:\.\d+)?)"
)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def models(names: list[str], compilers: list[str], samples: int, quick: bool) -> Iterator[dict]:
    """One record for each (model, compiler)."""
    for name in names:
        eager = {} if quick else processes.run("eager_baseline", {}, model=name)
        for compiler in compilers:
            say(f"models: {name}, {COMPILERS[compiler].title}")
            record = {"model": name, "compiler": compiler}
            record["eager_first_call_s"] = eager.get("first_call_s")
            record["eager_peak_rss_mb"] = eager.get("peak_rss_mb")
            try:
                record.update(_measure_model(name, compiler, samples, quick))
            except ChildError as error:
                record["error"] = str(error)
            yield record


def _measure_model(name: str, compiler: str, samples: int, quick: bool) -> dict:
    with empty_caches() as caches:
        cold = None if quick else processes.run("first_call", caches, model=name, compiler=compiler)
        warm = processes.run("steady", caches, model=name, compiler=compiler, samples=samples)
        warm_calls = [warm["first_call_s"]]
        while cold and len(warm_calls) < WARM_PROCESSES:
            again = processes.run("first_call", caches, model=name, compiler=compiler)
            warm_calls.append(again["first_call_s"])
    first = cold or warm
    eager, compiled = measure.median(warm["eager_ms"]), measure.median(warm["compiled_ms"])
    return {
        "imports_s": first["imports_s"],
        "cold_first_call_s": first["first_call_s"],
        "warm_first_call_s": measure.median(warm_calls) if cold else None,
        "warm_first_call_s_all": warm_calls,
        "samples": samples,
        "eager_ms": eager,
        "compiled_ms": compiled,
        "speedup": eager / compiled,
        "guard_check_us": warm.get("guard_check_us"),
        "peak_rss_mb": first["peak_rss_mb"],
        "accuracy": warm["accuracy"],
        "accuracy_later": warm["accuracy_later"],
        "eager_ms_all": warm["eager_ms"],
        "compiled_ms_all": warm["compiled_ms"],
    }


def device_models(
    names: list[str], device: str, compilers: list[str], samples: int, quick: bool
) -> Iterator[dict]:
    """One record for each (model of bench.device_models, compiler), with peak memory."""
    for name in names:
        eager = _peak(name, "eager", device) if not quick else {}
        for compiler in compilers:
            say(f"models: {name}, {COMPILERS[compiler].title}")
            record = {"model": name, "compiler": compiler, "samples": samples}
            record |= {f"eager_{key}": value for key, value in eager.items() if key != "error"}
            try:
                with empty_caches() as caches:
                    record |= processes.run(
                        "device_model",
                        caches,
                        model=name,
                        compiler=compiler,
                        samples=samples,
                        device=device,
                    )
                    record |= _peak(name, compiler, device, caches) if not quick else {}
                record.pop("stderr", None)
            except ChildError as error:
                record["error"] = str(error)
            yield record


def memory(names: list[str], device: str, compilers: list[str]) -> Iterator[dict]:
    """One record for each (model, compiler): the most memory of a later step, beside eager's."""
    for name in names:
        eager = _peak(name, "eager", device)
        for compiler in compilers:
            say(f"memory: {name}, {COMPILERS[compiler].title}")
            record = {"model": name, "compiler": compiler}
            record |= {f"eager_{key}": value for key, value in eager.items() if key != "error"}
            with empty_caches() as caches:
                yield {**record, **_peak(name, compiler, device, caches)}


def _peak(name: str, compiler: str, device: str, caches: dict | None = None) -> dict:
    """Of a process of its own; "error" where it fails."""
    try:
        if name in DEVICE_MODELS:
            found = processes.run(
                "device_peak", caches or {}, model=name, compiler=compiler, device=device
            )
        else:
            found = processes.run("peak_of_step", caches or {}, model=name, compiler=compiler)
    except ChildError as error:
        return {"error": str(error)}
    found.pop("stderr")
    return found


def training(names: list[str], compilers: list[str], samples: int, quick: bool) -> Iterator[dict]:
    """One record for each (model, compiler): a step's time, first and later, and its memory."""
    for name in names:
        eager = processes.run("peak_of_step", {}, model=name, compiler="eager")["peak_mb"]
        for compiler in compilers:
            say(f"training: {name}, {COMPILERS[compiler].title}")
            record = {"model": name, "compiler": compiler, "eager_peak_mb": eager}
            try:
                record.update(_measure_training(name, compiler, samples, quick))
            except ChildError as error:
                record["error"] = str(error)
            yield record


def _measure_training(name: str, compiler: str, samples: int, quick: bool) -> dict:
    given = {"model": name, "compiler": compiler}
    with empty_caches() as caches:
        cold = processes.run("steady_steps", caches, samples=samples, **given)
        warm = [] if quick else [processes.run("first_step", caches, **given) for _ in range(3)]
        peak = processes.run("peak_of_step", caches, **given)
    eager, compiled = measure.median(cold["eager_s"]), measure.median(cold["compiled_s"])
    return {
        "imports_s": cold["imports_s"],
        "cold_first_step_s": cold["first_step_s"],
        "warm_first_step_s": measure.median([w["first_step_s"] for w in warm]) if warm else None,
        "eager_ms": eager * 1e3,
        "compiled_ms": compiled * 1e3,
        "speedup": eager / compiled,
        "speedup_of_best": min(cold["eager_s"]) / min(cold["compiled_s"]),
        "peak_mb": peak["peak_mb"],
        "accuracy": cold["accuracy"],
        "eager_ms_all": [seconds * 1e3 for seconds in cold["eager_s"]],
        "compiled_ms_all": [seconds * 1e3 for seconds in cold["compiled_s"]],
    }


def overhead(compilers: list[str], samples: int, device: str) -> Iterator[dict]:
    """One record for each (size, compiler), eager's time from the same process beside it."""
    for size in SIZES:
        for compiler in compilers:
            say(f"overhead: {size} floats, {COMPILERS[compiler].title}")
            record = {"size": size, "compiler": compiler}
            try:
                with empty_caches() as caches:
                    times = processes.run(
                        "overhead",
                        caches,
                        compiler=compiler,
                        size=size,
                        samples=samples,
                        device=device,
                    )
                times.pop("stderr")
                record.update({f"{key}_ns": value * 1e9 for key, value in times.items()})
            except ChildError as error:
                record["error"] = str(error)
            yield record


def compile_time(names: list[str], compilers: list[str]) -> Iterator[dict]:
    """One record for each (model, compiler): where the first call's time goes, cold and warm."""
    for name in names:
        for compiler in compilers:
            say(f"compile_time: {name}, {COMPILERS[compiler].title}")
            with empty_caches() as caches:
                for state in ("cold", "warm"):
                    record = {"model": name, "compiler": compiler, "cache": state}
                    try:
                        result = processes.run(
                            "first_call",
                            {**caches, "BRAZE_LOG": "timing"},
                            model=name,
                            compiler=compiler,
                        )
                        record["first_call_s"] = result["first_call_s"]
                        record["imports_s"] = result["imports_s"]
                        phases = result["phases"] or braze_phases(result["stderr"])
                        record["phases_s"] = phases
                    except ChildError as error:
                        record["error"] = str(error)
                    yield record


def sizes(samples: int) -> Iterator[dict]:
    """One record for each (case, size): Braze with numbers for sizes, and with symbols."""
    tasks = [("kernel", name) for name in cases.KERNELS] + [
        ("model", name) for name in cases.MODELS
    ]
    for kind, name in tasks:
        say(f"sizes: {name}")
        try:
            with empty_caches() as caches:
                result = processes.run(
                    f"symbolic_{kind}", caches, **{kind: name, "samples": samples}
                )
        except ChildError as error:
            yield {"case": name, "kind": kind, "error": str(error)}
            continue
        for size, times in result["times"].items():
            record = {"case": name, "kind": kind, "size": size}
            record.update({f"{key}_us": seconds * 1e6 for key, seconds in times.items()})
            record["ratio"] = times["static"] / times["dynamic"]
            for change in ("fresh", "known"):
                if change in result:
                    record[f"{change}_us"] = result[change] * 1e6
            yield record


def scans(samples: int) -> Iterator[dict]:
    """One record for each (operator, threads, size): Braze beside eager."""
    for name, threads in itertools.product(operators.OPERATORS, operators.THREADS):
        say(f"scans: {name}, threads: {threads}")
        case = {"case": name, "threads": threads}
        try:
            with empty_caches() as caches:
                result = processes.run(
                    "scan", caches, operator=name, samples=samples, threads=threads
                )
        except ChildError as error:
            yield {**case, "error": str(error)}
            continue
        for size, times in result["times"].items():
            record = {**case, "size": size, "ratio": times["eager"] / times["compiled"]}
            record.update({f"{key}_us": seconds * 1e6 for key, seconds in times.items()})
            yield record


def attention(compilers: list[str], device: str, samples: int) -> Iterator[dict]:
    """One record for each (case, compiler, shape)."""
    for case, compiler in itertools.product(attending.CASES, compilers):
        say(f"attention: {case}, {COMPILERS[compiler].title}")
        record = {"case": case, "compiler": compiler}
        try:
            with empty_caches() as caches:
                times = processes.run(
                    "attention",
                    caches,
                    case=case,
                    compiler=compiler,
                    device=device,
                    samples=samples,
                )
        except ChildError as error:
            yield {**record, "error": str(error)}
            continue
        times.pop("stderr")
        for shape, taken in times.items():
            milliseconds = {f"{name}_ms": seconds * 1e3 for name, seconds in taken.items()}
            yield {**record, "shape": shape, **milliseconds}


def draws(samples: int) -> Iterator[dict]:
    """One record for each (case, size): eager, and Braze with either source of random numbers."""
    for name in drawing.CASES:
        say(f"draws: {name}")
        try:
            with empty_caches() as caches:
                result = processes.run("draw", caches, case=name, samples=samples)
        except ChildError as error:
            yield {"case": name, "error": str(error)}
            continue
        for size, times in result["times"].items():
            record = {"case": name, "size": size}
            record.update({f"{key}_us": seconds * 1e6 for key, seconds in times.items()})
            yield record


def optimizers(compilers: list[str], samples: int) -> Iterator[dict]:
    """One record for each width of the parameters: Braze beside PyTorch's own steps."""
    for width in updates.WIDTHS:
        say(f"optimizers: width {width}")
        record = {"width": width}
        try:
            with empty_caches() as caches:
                record.update(
                    processes.run(
                        "optimizer",
                        caches,
                        width=width,
                        samples=samples,
                        inductor="inductor" in compilers,
                    )
                )
            record.pop("stderr")
        except ChildError as error:
            record["error"] = str(error)
        yield record


def distributed(
    names: list[str], device: str, compilers: list[str], samples: int
) -> Iterator[dict]:
    """One record for each model: copies of it in two processes."""
    ways = [way for way in copies.WAYS if way != "torch.compile" or "inductor" in compilers]
    for model in names:
        say(f"distributed: {model}")
        record = {"model": model}
        try:
            with empty_caches() as caches:
                settings = {"model": model, "device": device, "ways": ways, "samples": samples}
                record.update(processes.run("copies", caches, **settings))
            record.pop("stderr")
        except ChildError as error:
            record["error"] = str(error)
        yield record


def kernels(
    names: list[str], device: str, compilers: list[str], samples: int, quick: bool
) -> Iterator[dict]:
    """One record for each (kernel, direction). All in a process, which begins anew behind a kernel
    that ends it."""
    names = list(names)
    with empty_caches() as caches:
        while names:
            begun = None
            given = {"names": names, "device": device, "chosen": compilers}
            try:
                for record in processes.stream(
                    "kernel_set", caches, **given, samples=samples, quick=quick
                ):
                    if "begun" in record:
                        begun = record["begun"]
                        say(f"kernels: {begun}")
                    else:
                        yield record
                return
            except ChildError as error:
                if begun is None:
                    raise
                yield {"kernel": begun, "error": str(error)}
            names = names[names.index(begun) + 1 :]


def capture(names: list[str], samples: int) -> Iterator[dict]:
    """One record for each model: Braze's capture alone, with sizes as numbers and as symbols."""
    for name in names:
        say(f"capture: {name}")
        record = {"model": name, "compiler": "braze"}
        try:
            record.update(processes.run("capture", {}, model=name, samples=samples))
            record.pop("stderr")
        except ChildError as error:
            record["error"] = str(error)
        yield record


def braze_phases(log: str) -> dict[str, float]:
    """Seconds by phase, summed over the lines that BRAZE_LOG=timing gives for each entry."""
    phases: dict[str, float] = {}
    for line in log.splitlines():
        if line.startswith("[braze:timing] ") and " total " in line:
            for phase, milliseconds in PHASE.findall(line):
                phases[phase] = phases.get(phase, 0.0) + float(milliseconds) / 1e3
    return phases
