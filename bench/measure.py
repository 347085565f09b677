"""Timing, memory and accuracy."""

import statistics
import time
from collections.abc import Callable
from itertools import repeat

import torch

SAMPLE_SECONDS = 0.01  # a sample of a short call is a loop of about this length


def seconds_of(function: Callable, arguments, calls: int = 1, clock=time.perf_counter) -> float:
    """Seconds of one call, averaged over `calls`."""
    begin = clock()
    for _ in repeat(None, calls):
        function(*arguments)
    return (clock() - begin) / calls


def interleaved(
    functions: dict[str, Callable],
    arguments,
    samples: int,
    clock=time.perf_counter,
    settle: Callable[[], object] = lambda: None,
    most_calls: int = 10_000,
) -> dict[str, list[float]]:
    """Seconds a call, `samples` times for each function, taken in turn and in alternating order.

    Whatever slows the machine for a while slows all of them. `clock`: `time.thread_time` for what
    runs on one thread leaves out what other processes take. `settle` is called before each sample;
    `most_calls`: of a sample.
    """
    longest = max(seconds_of(function, arguments) for function in functions.values())
    calls = max(1, min(most_calls, int(SAMPLE_SECONDS / max(longest, 1e-7))))
    for function in functions.values():
        seconds_of(function, arguments, calls)
    times = {name: [] for name in functions}
    order = list(functions)
    for i in range(samples):
        for name in order if i % 2 else reversed(order):
            settle()
            times[name].append(seconds_of(functions[name], arguments, calls, clock))
    return times


def median(values: list[float]) -> float:
    return statistics.median(values)


def peak_rss_mb() -> float:
    """Highest resident memory of this process so far, without its children."""
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    raise OSError("no VmHWM in /proc/self/status")


def rmse(a: torch.Tensor, b: torch.Tensor) -> float:
    return (a.double() - b.double()).square().mean().sqrt().item() if a.numel() else 0.0


def accuracy(exact: list, eager: list, compiled: list, tolerance: float = 1e-4) -> dict:
    """PyTorch's benchmark rule, for each tensor against the same model in fp64:

    rmse(compiled, fp64) <= k * rmse(eager, fp64) + tolerance / 10, k = 2, or 3 for fewer than 1000
    elements. Dtypes and shapes must be eager's. Also the largest difference from eager.
    """
    ok = len(exact) == len(eager) == len(compiled)
    worst_ratio = largest = 0.0
    for reference, expected, actual in zip(exact, eager, compiled):
        ok = ok and actual.dtype == expected.dtype and actual.shape == expected.shape
        if not ok:
            break
        if not expected.is_floating_point():
            ok = torch.equal(expected, actual)
            continue
        error, allowed = rmse(actual, reference), rmse(expected, reference)
        factor = 3.0 if expected.numel() < 1000 else 2.0
        ok = ok and error <= factor * allowed + tolerance / 10  # false where the error is NaN
        worst_ratio = max(worst_ratio, error / allowed if allowed else 0.0)
        if expected.numel():
            largest = max(largest, (actual.double() - expected.double()).abs().max().item())
    return {"ok": bool(ok), "rmse_ratio": worst_ratio, "max_difference": largest}
