"""What a step of AdamW over 200 parameters takes.

For small and for large parameters: the first two calls of a compiled step, in an empty cache; the
median of steps beside PyTorch's three implementations, measured in turns; the compiles that 20
changes of the learning rate cause.
"""

import statistics
import time

LAYERS = 20  # of ten parameters each
WIDTHS = (64, 512)
CHANGES = 20


def make(width, **options):
    import torch

    torch.manual_seed(0)
    square, wide, bias = (width, width), (width, 2 * width), (width,)
    sizes = [square, bias, wide, (2 * width,), wide[::-1], bias, bias, bias, square, bias]
    parameters = [torch.nn.Parameter(torch.randn(size)) for size in sizes * LAYERS]
    for parameter in parameters:
        parameter.grad = torch.randn(parameter.shape)
    return torch.optim.AdamW(parameters, 1e-3, **options)


def seconds(step):
    start = time.perf_counter()
    step()
    return time.perf_counter() - start


def figures(width: int, samples: int, inductor: bool) -> dict:
    """Seconds of the first two steps ("first_s") and, by who makes it, of a later one ("times");
    how often Braze compiled for CHANGES learning rates ("compiles")."""
    import braze
    import torch

    optimizer = make(width)
    steps = {"Braze": braze.compile(optimizer.step)}
    first = [seconds(steps["Braze"]) for _ in range(2)]
    for name in ("fused", "foreach"):
        steps[name] = make(width, **{name: True}).step
    steps["single"] = make(width, foreach=False).step
    if inductor:
        steps["torch.compile"] = torch.compile(make(width).step)
    for step in steps.values():
        step()
    times = {name: [] for name in steps}
    for _ in range(samples):
        for name, step in steps.items():
            times[name].append(seconds(step))
    compiled = len(steps["Braze"]._entries())
    for _ in range(CHANGES):
        for group in optimizer.param_groups:
            group["lr"] *= 0.9
        steps["Braze"]()
    return {
        "first_s": first,
        "times": {name: statistics.median(taken) for name, taken in times.items()},
        "compiles": len(steps["Braze"]._entries()) - compiled,
    }
