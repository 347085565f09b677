"""Reductions of few rows over many elements: parts of them run on different threads."""

from pathlib import Path

import braze
import pytest
import torch
import torch.nn.functional as F

CASES = {
    "sum": lambda x: x.sum(),
    "norm": lambda x: (x * x).sum().sqrt(),
    "max": lambda x: x.amax(),
    "any": lambda x: (x > 3).any(),
    "all": lambda x: (x > -9).all(),
    "columns": lambda x: x.view(-1, 50).mean(0),
    "rows": lambda x: x.view(4, -1).amin(1),
    "outer and inner": lambda x: x.view(8, 50, -1).sum((0, 2)),
    "integers": lambda x: (x * 4).round().to(torch.int64).sum(),
    "loss": lambda x: F.mse_loss(x, x * 0.5),
    "several": lambda x: (x.sum(), x.amax(), (x * 2).mean()),
    "softmax": lambda x: torch.softmax(x, 0),
}


def check(function, compiled, x):
    """To sums that are exact to float32: eager's own have errors that grow with the length."""
    exact, got = function(x.double()), compiled(x)
    pairs = zip(exact, got) if isinstance(got, tuple) else [(exact, got)]
    for expected, actual in pairs:
        torch.testing.assert_close(
            actual, expected.to(actual.dtype), rtol=1e-4, atol=1e-3 * x.numel() ** 0.5
        )


@pytest.mark.parametrize("name", CASES)
def test_long_reduction(name):
    function = CASES[name]
    x = torch.randn(400_000)
    with torch.no_grad():
        check(function, braze.compile(function), x)
        dynamic = braze.compile(function, dynamic=True)
        for count in (1001 * 400, 2800, 400_000):
            check(function, dynamic, x[:400].repeat(count // 400))


def test_same_result_on_every_call_and_number_of_threads():
    x = torch.randn(1_000_003)
    compiled = braze.compile(lambda x: x.sum())
    threads = torch.get_num_threads()
    try:
        results = set()
        for count in (threads, 1, 2, threads):
            torch.set_num_threads(count)
            results |= {compiled(x).item() for _ in range(5)}
    finally:
        torch.set_num_threads(threads)
    assert len(results) == 1


def ticks_by_thread() -> dict[str, int]:
    ticks = {}
    for thread in Path("/proc/self/task").iterdir():
        fields = (thread / "stat").read_text().rpartition(")")[2].split()
        ticks[thread.name] = int(fields[11])
    return ticks


@pytest.mark.skipif(torch.get_num_threads() < 2, reason="needs two threads; a second core lifts it")
@pytest.mark.parametrize("name", ["sum", "pointwise"])
def test_work_is_shared_by_threads(name):
    x = torch.randn(1 << 20)
    compiled = braze.compile({"sum": lambda x: x.sin().sum(), "pointwise": lambda x: x.sin()}[name])
    compiled(x)
    before = ticks_by_thread()
    for _ in range(300):
        compiled(x)
    after = ticks_by_thread()
    assert sum(after[thread] > before.get(thread, 0) for thread in after) >= 2
