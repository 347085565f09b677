"""Measures kernels (`bench.kernels`): each in eager and compiled, forward and backward, as a share
of the bandwidth that a large copy has in the same process."""

import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from bench import devices
from bench.kernels.case import (
    Draw,
    Kernel,
    copied,
    in_double,
    outputs_of,
    tensors_of,
    traffic,
)

FLOOR = 1e-6  # of an error, for numbers near zero
SMALL = 1000  # below as many numbers, an error may be that of their unlucky few


@dataclass
class Prepared:
    """What is measured of one function in one direction."""

    call: Callable  # without arguments: one run, over and over
    fresh: Callable[[], list[torch.Tensor]]  # results of the first inputs, which are left alone


def records(
    kernel: Kernel, device: devices.Cpu, size_bytes: int, compilers: dict, samples: int, rate: float
) -> Iterator[dict]:
    """One record for each direction. `compilers`: compile functions by name; `rate`: of a copy."""
    known = {"kernel": kernel.name, "dtype": str(kernel.dtype).removeprefix("torch.")}
    if lack := kernel.lacking(device.name):
        yield {**known, "skipped": lack}
        return
    torch.manual_seed(0)
    arguments = kernel.inputs(Draw(device.name, kernel.dtype, size_bytes))
    known["sizes"] = _sizes(arguments)
    with torch.no_grad():
        given = copied(arguments) if kernel.updates else arguments
        outputs = outputs_of(kernel, kernel.function(*given), given)
    for direction, words, prepare in (
        ("forward", kernel.forward, _forward),
        ("backward", kernel.backward, _backward),
    ):
        if words:
            moved = traffic(kernel, words, arguments, outputs)
            run = functools.partial(prepare, kernel, arguments)
            record = _measured(kernel, device, run, compilers, samples)
            times = record["times_s"]
            yield {
                **known,
                "direction": direction,
                "bytes": moved,
                "copy_bytes_a_second": rate,
                **record,
                "fractions": {name: moved / taken / rate for name, taken in times.items()},
            }
            device.forget()


def _measured(kernel: Kernel, device, run: Callable, compilers: dict, samples: int) -> dict:
    prepared = {"eager": run(kernel.function)}
    errors, first_calls = {}, {}
    for name, compile_with in compilers.items():
        try:
            compiled = compile_with(kernel.function, dynamic=False)
            begin = time.perf_counter()
            ready = run(compiled)
            ready.call()
            device.synchronize()
            first_calls[name] = time.perf_counter() - begin
            prepared[name] = ready
        except Exception as error:  # of any compiler's: the others are measured all the same
            device.synchronize()  # a device that is broken is no single compiler's failure
            errors[name] = f"{type(error).__name__}: {error}"
    accuracy = _accuracy(kernel, prepared, run)
    device.forget()
    calls = {name: ready.call for name, ready in prepared.items()}
    return {
        "times_s": devices.interleaved(device, calls, samples),
        "first_calls_s": first_calls,
        "accuracy": accuracy,
        "errors": errors,
    }


def _forward(kernel: Kernel, arguments: tuple, function: Callable, double=False) -> Prepared:
    first = in_double(arguments) if double else arguments
    own = copied(first) if kernel.updates else first

    def fresh():
        given = copied(first) if kernel.updates else first
        torch.manual_seed(1)
        with torch.no_grad():
            return outputs_of(kernel, function(*given), given)

    @torch.no_grad()
    def call():
        function(*own)

    return Prepared(call, fresh)


def _backward(kernel: Kernel, arguments: tuple, function: Callable, double=False) -> Prepared:
    """The gradients alone, of a graph that is kept."""
    own = in_double(arguments) if double else tuple(_leaf(argument) for argument in arguments)
    named = dict(zip(kernel.parameters, own))
    wanted = [named[name].requires_grad_() for name in kernel.differentiated]
    torch.manual_seed(1)
    with torch.enable_grad():
        outputs = [out for out in tensors_of(function(*own)) if out.requires_grad]
    if not outputs:
        raise RuntimeError("no output has a gradient")
    torch.manual_seed(2)
    given = [_tangent(out, kernel) for out in outputs]

    def call():
        return torch.autograd.grad(outputs, wanted, given, retain_graph=True)

    return Prepared(call, lambda: list(call()))


def _tangent(output: torch.Tensor, kernel: Kernel) -> torch.Tensor:
    """In the layout of the output; numbers of the kernel's dtype, so that the reference in double
    has the same ones."""
    drawn = torch.randn(output.shape, device=output.device).to(kernel.dtype).double()
    return torch.empty_like(output, requires_grad=False).copy_(drawn * kernel.tangent_scale)


def _leaf(argument):
    """The same memory, without a history and not yet with a gradient."""
    return argument.detach() if isinstance(argument, torch.Tensor) else argument


def _accuracy(kernel: Kernel, prepared: dict[str, Prepared], run: Callable) -> dict[str, dict]:
    """For each compiler, whether its results are right, and its error beside eager's."""
    if len(prepared) == 1:
        return {}
    eager = prepared["eager"].fresh()
    exact = eager if kernel.random else run(kernel.function, True).fresh()
    judge = same_moments if kernel.random else as_exact_as
    return {
        name: judge(exact, eager, ready.fresh())
        for name, ready in prepared.items()
        if name != "eager"
    }


def as_exact_as(exact: list, eager: list, compiled: list) -> dict:
    """Whether errors are at most twice eager's and a small floor: a quarter of the last place, on
    average; for less than SMALL numbers twice the last place.

    Against the same function of doubles. Integers and logic are compared as numbers. `ratio` is
    the largest of error / allowed.
    """
    ok = len(exact) == len(eager) == len(compiled)
    worst = 0.0
    for wanted, theirs, ours in zip(exact, eager, compiled):
        if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
            ok = False
            continue
        if not ours.numel():
            continue
        wanted = wanted.double()
        places = 0.25 if ours.numel() >= SMALL else 2.0
        last = torch.finfo(ours.dtype).eps if ours.is_floating_point() else 0.0
        size = wanted.nan_to_num(0.0, 0.0, 0.0).square().mean().sqrt().item()
        allowed = 2 * _error(theirs, wanted) + places * last * size + FLOOR * min(1.0, size)
        error = _error(ours, wanted)
        ok = ok and error <= allowed  # false where the error is NaN
        worst = max(worst, error / allowed if allowed else error)
    return {"ok": bool(ok), "ratio": worst}


def _error(ours: torch.Tensor, wanted: torch.Tensor) -> float:
    """Root of the mean square; infinities and NaNs have to stand in the same places."""
    ours = ours.double()
    same = (ours == wanted) | (ours.isnan() & wanted.isnan())
    return torch.where(same, 0.0, ours - wanted).square().mean().sqrt().item()


def same_moments(_, eager: list, compiled: list) -> dict:
    """Whether random results have eager's mean and deviation, as far as so many numbers tell."""
    ok = len(eager) == len(compiled)
    worst = 0.0
    for theirs, ours in zip(eager, compiled):
        ok = ok and ours.dtype == theirs.dtype and ours.shape == theirs.shape
        theirs, ours = theirs.double(), ours.double()
        spread = theirs.std().item()
        allowed = 10 * spread / theirs.numel() ** 0.5 + FLOOR
        for moment in (torch.mean, torch.std):
            distance = abs(moment(ours).item() - moment(theirs).item())
            ok = ok and distance <= allowed
            worst = max(worst, distance / allowed)
    return {"ok": bool(ok), "ratio": worst}


def _sizes(arguments: tuple) -> str:
    """Of the largest tensor, and how many there are where an argument is a list."""
    tensors = tensors_of(arguments)
    largest = max(tensors, key=lambda tensor: tensor.numel() * tensor.element_size())
    sizes = "x".join(map(str, largest.shape))
    lists = [argument for argument in arguments if not isinstance(argument, torch.Tensor)]
    return f"{len(lists[0])} up to {sizes}" if lists else sizes
