"""What runs in a benchmark's processes: `python -m bench.tasks TASK PARAMETERS_AS_JSON`."""

import copy
import functools
import json
import os
import sys
import time
from collections.abc import Iterator

import torch

from bench import (
    compilers,
    device_models,
    devices,
    distributed,
    draws,
    measure,
    models,
    optimizers,
    scans,
    sizes,
    training,
    zoo,
)
from bench.processes import MARK


def machine(device: str) -> dict:
    from bench import machine

    return machine.describe(device)


def eager_baseline(model: str) -> dict:
    module, arguments = models.build(model)
    first = measure.seconds_of(module, arguments)
    for _ in range(2):
        module(*arguments)
    return {"peak_rss_mb": measure.peak_rss_mb(), "first_call_s": first}


def first_call(model: str, compiler: str) -> dict:
    _, result = _compile_and_call(model, compiler)
    return result


def steady(model: str, compiler: str, samples: int, check: bool = True) -> dict:
    """A first call, then interleaved timings against eager, the guard check alone, accuracy."""
    (module, arguments, compiled, output), result = _compile_and_call(model, compiler)
    times = measure.interleaved({"eager": module, "compiled": compiled}, arguments, samples)
    result["eager_ms"] = [seconds * 1e3 for seconds in times["eager"]]
    result["compiled_ms"] = [seconds * 1e3 for seconds in times["compiled"]]
    guards = compilers.guard_check(compiled, arguments) if compiler == "braze" else None
    if guards:
        result["guard_check_us"] = _best(guards, ()) * 1e6
    if check:
        eager = [tensor.clone() for tensor in models.tensors(module(*arguments))]
        exact_module = copy.deepcopy(module).double()
        exact_arguments = [a.double() if a.is_floating_point() else a for a in arguments]
        exact = models.tensors(exact_module(*exact_arguments))
        result["accuracy"] = measure.accuracy(exact, eager, models.tensors(output))
        later = models.tensors(compiled(*arguments))
        result["accuracy_later"] = measure.accuracy(exact, eager, later)
    return result


def _compiled_step(model: str, compiler: str):
    module, arguments = training.build(model)
    begin = time.perf_counter()
    compile_with = compilers.load(compiler)
    imported = time.perf_counter()
    step = _step(module, compiler, compile_with, arguments)
    step()
    result = {
        "imports_s": imported - begin,
        "first_step_s": time.perf_counter() - imported,
    }
    return (module, step, arguments), result


def _step(module, compiler: str, compile_with, arguments: dict):
    if compilers.COMPILERS[compiler].whole_steps:
        forward = training.forward_of(module)
        return functools.partial(compile_with(training.step), module, forward, arguments)
    forward = training.forward_of(module, compile_with)
    return functools.partial(training.step, module, forward, arguments)


@torch.enable_grad()
def first_step(model: str, compiler: str) -> dict:
    return _compiled_step(model, compiler)[1]


@torch.enable_grad()
def peak_of_step(model: str, compiler: str) -> dict:
    """The most that a later step has in memory beyond the module and the imports, in MiB."""
    module, arguments = training.build(model)
    step = _step(module, compiler, compilers.load(compiler), arguments)
    return {"peak_mb": training.peak_mb(step)}


@torch.enable_grad()
def steady_steps(model: str, compiler: str, samples: int) -> dict:
    """A first step, then timings of steps in turn with eager's, and the gradients' accuracy."""
    (module, step, arguments), result = _compiled_step(model, compiler)
    forward = training.forward_of(module)
    eager_step = functools.partial(training.step, module, forward, arguments)
    result["accuracy"] = _accuracy(module, step, eager_step, arguments)
    times = measure.interleaved({"eager": eager_step, "compiled": step}, (), samples)
    return {**result, **{f"{name}_s": seconds for name, seconds in times.items()}}


def _accuracy(module, step, eager_step, arguments: dict) -> dict:
    """Of the loss and all gradients of one step, the same for both."""
    state = training.State(module)

    def run(step):
        state.restore()
        return {"loss": step(), **training.gradients(module)}

    compiled, eager = run(step), run(eager_step)
    try:
        state.restore()
        exact_module = training.in_double(module)
        exact = {n: t.double() if t.is_floating_point() else t for n, t in arguments.items()}
        loss = training.step(exact_module, training.forward_of(exact_module), exact)
        reference = {"loss": loss, **training.gradients(exact_module)}
    except RuntimeError:  # it has operators that are not there for doubles
        reference = eager
    return measure.accuracy(
        list(reference.values()), list(eager.values()), [compiled.get(n) for n in reference]
    )


def small_function(x):
    return torch.relu(x + 1) * 2


def without_breaks(x):
    return x * 2 * 2 * 2 * 2 * 2 * 2 * 2 * 2 * 2 * 2


def ten_breaks(x):
    for _ in range(10):
        x = x * 2
        os.getpid()
    return x


def capture(model: str, samples: int) -> dict:
    """Seconds that evaluating and tracing a call takes, with sizes as numbers and as symbols."""
    from bench import hooks

    module, arguments = models.build(model)
    call = torch.nn.Module.__call__.__get__(module)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(samples):
        for dynamic, times in seconds.items():
            captured = hooks.capture(call, arguments, {}, dynamic=dynamic)
            if captured["exit"] != "return":
                raise RuntimeError(captured["reason"])
            times.append(captured["seconds"])
    return {
        "static_first_s": seconds[False][0],
        "static_s": min(seconds[False]),
        "dynamic_first_s": seconds[True][0],
        "dynamic_s": min(seconds[True]),
        "bytecodes": captured["bytecodes"],
        "nodes": captured["nodes"],
        "guards": len(captured["guards"]),
    }


def _seconds_a_break(arguments) -> float:
    """What a graph break costs a call of Braze's, beyond the call that breaks."""
    import braze

    compiled = [braze.compile(function) for function in (ten_breaks, without_breaks)]
    for function in compiled:
        for _ in range(5):
            function(*arguments)
    broken, whole = (_best(function, arguments) for function in compiled)
    return (broken - whole) / 10 - _best(os.getpid, ())


def overhead(compiler: str, size: int, samples: int, device: str) -> dict:
    """Seconds a call of a function that does next to nothing; on a GPU until it is launched."""
    made = devices.DEVICES[device]()
    compiled = compilers.load(compiler)(small_function)
    arguments = (torch.randn(size, device=device),)
    for _ in range(5):
        compiled(*arguments)
    assert torch.equal(compiled(*arguments), small_function(*arguments))
    functions = {"eager": small_function, "compiled": compiled}
    times = measure.interleaved(
        functions, arguments, samples, settle=made.synchronize, most_calls=made.most_calls
    )
    result = {name: measure.median(values) for name, values in times.items()}
    is_braze = compiler in ("braze", "braze_graphs", "braze_triton")
    guards = compilers.guard_check(compiled, arguments) if is_braze else None
    if guards:
        result["guard_check"] = _best(guards, ())
        if device == "cpu":
            result["break"] = _seconds_a_break(arguments)
    return result


def symbolic_kernel(kernel: str, samples: int) -> dict:
    """Seconds a call by length of the rows: eager, a compile for that length, one for all."""
    import braze

    torch.set_num_threads(1)
    case = sizes.KERNELS[kernel]
    dynamic = braze.compile(case.function, fullgraph=True, dynamic=True)
    dynamic(*case.arguments(sizes.ROWS, sizes.TRACED))
    times = {}
    for length in sizes.LENGTHS:
        static = braze.compile(case.function, fullgraph=True, dynamic=False)
        times[str(length)] = _static_and_dynamic(
            case.function, static, dynamic, case.arguments(sizes.ROWS, length), samples
        )
    return {"times": times}


def symbolic_model(model: str, samples: int) -> dict:
    """The same for a small model by batch and length, and what a change of sizes costs."""
    import braze

    torch.set_num_threads(1)
    case = zoo.ZOO[model]
    module = case.build()

    dynamic = braze.compile(module, fullgraph=True, dynamic=True)
    of_model = sizes.MODELS[model]
    dynamic(**case.arguments(of_model.traced))
    times = {}
    for size in of_model.measured:
        static = braze.compile(case.build(), fullgraph=True, dynamic=False)
        given = case.arguments(size)
        functions = [functools.partial(f, **given) for f in (module, static, dynamic)]
        times["x".join(map(str, size))] = _static_and_dynamic(*functions, (), samples)
    changes = _changes(dynamic, case) if of_model.changes else {}
    return {"times": times, **changes}


def _static_and_dynamic(eager, static, dynamic, arguments, samples: int) -> dict:
    functions = {"eager": eager, "static": static, "dynamic": dynamic}
    expected = models.tensors(eager(*arguments))
    for function in (static, dynamic):
        for tensor, wanted in zip(models.tensors(function(*arguments)), expected, strict=True):
            torch.testing.assert_close(tensor, wanted, rtol=1e-4, atol=1e-5)
    times = measure.interleaved(functions, arguments, samples, clock=time.thread_time)
    return {name: measure.median(values) for name, values in times.items()}


def _changes(dynamic, case) -> dict:
    """Seconds that a call takes longer because its sizes are not those of the call before, for
    sizes seen before and for sizes never seen."""

    def seconds(arguments):
        begin = time.perf_counter()
        dynamic(**arguments)
        return time.perf_counter() - begin

    given = [case.arguments((2, length)) for length in range(4, 28)]
    fresh, known = [], []
    for arguments in given:
        first = seconds(arguments)
        fresh.append(first - seconds(arguments))
    for _ in range(5):
        for arguments in given:
            changed = seconds(arguments)
            again = seconds(arguments)
            known.append(changed - again)
    return {"fresh": measure.median(fresh), "known": measure.median(known)}


def attention(case: str, compiler: str, device: str, samples: int) -> dict:
    from bench import attention

    return attention.measured(case, compiler, device, samples)


def scan(operator: str, samples: int, threads: int) -> dict:
    """Seconds a call by size, eager's and Braze's in turn: on one thread the median, of the
    processor; on several the least, of the clock, which other processes take least from."""
    import braze

    torch.set_num_threads(threads)
    case = scans.OPERATORS[operator]
    times = {}
    for size in case.sizes:
        torch.manual_seed(0)
        arguments = case.arguments(size)
        compiled = braze.compile(case.function, fullgraph=True, dynamic=False)
        expected = models.tensors(case.function(*arguments))
        for tensor, wanted in zip(models.tensors(compiled(*arguments)), expected, strict=True):
            torch.testing.assert_close(tensor, wanted, rtol=1e-4, atol=1e-4)
        functions = {"eager": case.function, "compiled": compiled}
        clock = time.thread_time if threads == 1 else time.perf_counter
        taken = measure.interleaved(functions, arguments, samples, clock=clock)
        times["x".join(map(str, size))] = {
            name: measure.median(values) if threads == 1 else min(values)
            for name, values in taken.items()
        }
    return {"times": times}


def draw(case: str, samples: int) -> dict:
    """Seconds of the processor by size, on one thread: eager's, and those of Braze with either
    source of random numbers, in turn."""
    import braze

    torch.set_num_threads(1)
    chosen = draws.CASES[case]
    times = {}
    for size in draws.SIZES:
        torch.manual_seed(0)
        arguments = draws.arguments(chosen, size)
        functions = {"plain": chosen.function}
        for source in draws.SOURCES:
            functions[source] = braze.compile(
                chosen.function, fullgraph=True, dynamic=False, options={"rng": source}
            )
        functions = {name: draws.with_gradient(chosen, f) for name, f in functions.items()}
        for function in functions.values():
            function(*arguments)
        taken = measure.interleaved(functions, arguments, samples, clock=time.thread_time)
        times["x".join(map(str, size))] = {
            name: measure.median(values) for name, values in taken.items()
        }
    return {"times": times}


def device_model(model: str, compiler: str, samples: int, device: str) -> dict:
    """A first call, then steps in turn with eager's, and accuracy, of a model of its device."""
    made = devices.DEVICES[device]()
    made.prepare_for_models()
    described = device_models.DEVICE_MODELS[model]
    built = device_models.build(described, device)
    compile_with = compilers.load(compiler)
    made.synchronize()
    begin = time.perf_counter()
    compiled = compile_with(built.module)
    output = built.results(compiled)
    made.synchronize()
    first = time.perf_counter() - begin
    judged, calls = built, compiled
    if described.train and described.has_dropout:
        # Random numbers keep the results from being compared: once more, without them.
        judged = built.without_dropout()
        calls = compile_with(judged.module)
        output = judged.results(calls)
    eager = judged.results(judged.module)
    exact = _exact_results(judged)
    later = judged.results(calls)
    accuracy = [measure.accuracy(exact, eager, found) for found in (output, later)] if exact else []
    del judged, calls, output, eager, exact, later
    made.forget()
    steps = {
        "eager": functools.partial(built.step, built.module),
        "compiled": functools.partial(built.step, compiled),
    }
    for step in steps.values():
        for _ in range(3):
            step()
    times = devices.interleaved(made, steps, samples, made.step_seconds)
    return {
        "first_call_s": first,
        "eager_ms": times["eager"] * 1e3,
        "compiled_ms": times["compiled"] * 1e3,
        "accuracies": accuracy,
    }


def _exact_results(built) -> list[torch.Tensor]:
    """In double precision; none where the model has operators that are not there for doubles."""
    try:
        exact = built.in_double()
        return exact.results(exact.module)
    except RuntimeError:
        return []


def device_peak(model: str, compiler: str, device: str) -> dict:
    """The most memory that steps of such a model take."""
    made = devices.DEVICES[device]()
    made.prepare_for_models()
    built = device_models.build(device_models.DEVICE_MODELS[model], device)
    forward = compilers.load(compiler)(built.module)
    return made.peak_mb(functools.partial(built.step, forward))


def kernel_set(
    names: list[str], device: str, chosen: list[str], samples: int, quick: bool
) -> Iterator[dict]:
    """For each kernel that it begins a record with its name alone, then those of its figures."""
    from bench import kernel_runs
    from bench.kernels import KERNELS

    made = devices.DEVICES[device]()
    compile_with = {name: compilers.load(name) for name in chosen}
    if "inductor" in chosen:
        compilers.keep_graphs()
    rate = made.copy_rate(samples)
    made.forget()
    for name in names:
        yield {"begun": name}
        kernel = KERNELS[name]
        try:
            yield from kernel_runs.records(
                kernel, made, made.kernel_bytes(quick), compile_with, samples, rate
            )
        except Exception as error:
            made.synchronize()  # fails where the device is broken: a new process goes on
            yield {"kernel": name, "error": f"{type(error).__name__}: {error}"}
        torch.compiler.reset()
        made.forget()


@torch.enable_grad()
def optimizer(width: int, samples: int, inductor: bool) -> dict:
    return optimizers.figures(width, samples, inductor)


def copies(model: str, device: str, ways: list[str], samples: int) -> dict:
    return distributed.run(model, device, ways, samples)


def _best(function, arguments) -> float:
    return min(measure.seconds_of(function, arguments, 1000) for _ in range(20))


def _compile_and_call(model: str, compiler: str):
    module, arguments = models.build(model)
    begin = time.perf_counter()
    compile_with = compilers.load(compiler)
    imported = time.perf_counter()
    compiled = compile_with(module)
    output = compiled(*arguments)
    done = time.perf_counter()
    result = {
        "imports_s": imported - begin,
        "first_call_s": done - imported,
        "peak_rss_mb": measure.peak_rss_mb(),
        "phases": _torch_phases() if compiler == "inductor" else {},
    }
    return (module, arguments, compiled, output), result


def _torch_phases() -> dict[str, float]:
    """Seconds by torch.compile's own timers; they nest."""
    from torch._dynamo.utils import compilation_time_metrics

    return {name: sum(values) for name, values in compilation_time_metrics.items()}


TASKS = {
    task.__name__: task
    for task in (
        machine,
        attention,
        copies,
        eager_baseline,
        first_call,
        steady,
        first_step,
        steady_steps,
        peak_of_step,
        overhead,
        symbolic_kernel,
        symbolic_model,
        capture,
        scan,
        draw,
        optimizer,
        kernel_set,
        device_model,
        device_peak,
    )
}


def main() -> None:
    name, parameters = sys.argv[1], json.loads(sys.argv[2])
    with torch.no_grad():
        result = TASKS[name](**parameters)
        for record in [result] if isinstance(result, dict) else result:
            print(MARK + json.dumps(record), flush=True)


if __name__ == "__main__":
    main()
