"""What a step of AdamW over 200 parameters takes: `python -m bench.optimizers`.

Prints, for small and for large parameters: the first two calls of a compiled step, in an empty
cache; the median of steps beside PyTorch's three implementations, measured in turns; the compiles
that 20 changes of the learning rate cause. `--inductor` adds torch.compile.
"""

import os
import statistics
import sys
import tempfile
import time

LAYERS = 20  # of ten parameters each
WIDTHS = (64, 512)
ROUNDS = 30
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


def measure(width, inductor):
    import braze
    import torch

    optimizer = make(width)
    steps = {"Braze": braze.compile(optimizer.step)}
    first = [seconds(steps["Braze"]) for _ in range(2)]
    for name in ("fused", "foreach"):
        steps[name] = make(width, **{name: True}).step
    steps["single"] = make(width).step
    if inductor:
        steps["torch.compile"] = torch.compile(make(width).step)
        first_of_inductor = seconds(steps["torch.compile"])
        print(f"  first step of torch.compile {first_of_inductor * 1e3:.0f} ms")
    times = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            times[name].append(seconds(step))
    print(f"  first steps of Braze {', '.join(f'{t * 1e3:.0f}' for t in first)} ms")
    for name, all_times in times.items():
        print(f"  {name:14} {statistics.median(all_times) * 1e3:8.2f} ms")
    compiled = len(steps["Braze"]._entries())
    for _ in range(CHANGES):
        for group in optimizer.param_groups:
            group["lr"] *= 0.9
        steps["Braze"]()
    print(f"  compiles by {CHANGES} learning rates: {len(steps['Braze']._entries()) - compiled}")


def main():
    with tempfile.TemporaryDirectory() as cache:
        os.environ["BRAZE_CACHE_DIR"] = cache
        for width in WIDTHS:
            print(f"width {width}")
            measure(width, "--inductor" in sys.argv)


if __name__ == "__main__":
    main()
