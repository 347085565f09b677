"""Compiles four models and compares them with eager PyTorch: `make demo`.

Each model is built from its published configuration with random weights. The first call is timed
with an empty kernel cache.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from bench import models

SECONDS_PER_MODEL = 12  # of timing; the whole demo takes under two minutes


def milliseconds(function, arguments):
    begin = time.perf_counter()
    function(*arguments)
    return (time.perf_counter() - begin) * 1e3


def compare(name):
    """One line of the table, and the reason if the model was given up on."""
    import braze

    module, arguments = models.build(name)
    expected = [tensor.clone() for tensor in models.tensors(module(*arguments))]
    compiled = braze.compile(module, fullgraph=True)
    begin = time.perf_counter()
    try:
        output = compiled(*arguments)
    except braze.GraphBreakError as error:
        return [models.MODELS[name].title, "-", "-", "-", "-", "-"], str(error)
    first_call = time.perf_counter() - begin
    error = max(
        (a - b).abs().max().item() for a, b in zip(expected, models.tensors(output))
    )  # fmt: skip
    eager_times, compiled_times = [], []
    deadline = time.perf_counter() + SECONDS_PER_MODEL
    while len(eager_times) < 30 and time.perf_counter() < deadline:
        eager_times.append(milliseconds(module, arguments))
        compiled_times.append(milliseconds(compiled, arguments))
    eager, fast = statistics.median(eager_times), statistics.median(compiled_times)
    return [
        models.MODELS[name].title,
        f"{eager:.1f}",
        f"{fast:.1f}",
        f"{eager / fast:.2f}x",
        f"{first_call:.2f}",
        f"{error:.1e}",
    ], None


def show(cells):
    print(f"{cells[0]:<38}" + "".join(f"{cell:>14}" for cell in cells[1:]), flush=True)


def main():
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    print(f"PyTorch {torch.__version__}, {torch.get_num_threads()} threads, fp32 inference\n")
    show(["model", "eager ms", "braze ms", "speed-up", "first call s", "max error"])
    reasons = {}
    with tempfile.TemporaryDirectory(prefix="braze-demo-") as cache, torch.no_grad():
        os.environ["BRAZE_CACHE_DIR"] = cache
        for name in models.MODELS:
            cells, reason = compare(name)
            show(cells)
            if reason:
                reasons[name] = reason
    print("\nMax error: the largest difference from eager. First call: with an empty kernel cache.")
    for name, reason in reasons.items():
        print(f"\n{models.MODELS[name].title} ran in eager only:\n{reason}")
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main())
