"""The kernels of the benchmarks: that each runs, says what it moves, and is judged as it should be;
the tables and the process behind them."""

import dataclasses

import pytest
import torch

from bench import compilers, devices, kernel_runs, kernel_tables, processes, suites
from bench.kernels import FAMILIES, KERNELS
from bench.kernels.case import Draw, Kernel, outputs_of, traffic

TINY = 1 << 14  # bytes of the largest input


@pytest.fixture(autouse=True)
def _one_thread():
    """Tiny kernels take longest where threads wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


class SmallCpu(devices.Cpu):
    flushed_bytes = copy_bytes = 1 << 12

    def forget(self):
        """There is little, and a collection takes longer than the kernels."""


def _records(kernel, compile_functions, size_bytes=TINY):
    with torch.no_grad():
        return list(kernel_runs.records(kernel, SmallCpu(), size_bytes, compile_functions, 1, 1e9))


def test_the_set_is_broad():
    assert len(KERNELS) == sum(len(family.KERNELS) for family in FAMILIES)
    assert sum(bool(kernel.forward) for kernel in KERNELS.values()) > 100
    assert sum(bool(kernel.backward) for kernel in KERNELS.values()) > 80
    assert {kernel.dtype for kernel in KERNELS.values()} == {
        torch.float16, torch.bfloat16, torch.float32,
    }  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_each_kernel_runs_and_says_what_it_moves(name):
    kernel = KERNELS[name]
    known = {"y", "dy", *kernel.parameters, *("d" + name for name in kernel.parameters)}
    words = f"{kernel.forward} {kernel.backward}".replace("|", " ").split()
    assert words and set(words) <= known
    assert set(kernel.updates) <= set(kernel.parameters)
    # Against itself: what is the same is right, in double precision too, and all has a time.
    done = _records(kernel, {"same": lambda function, **options: function})
    assert [r["direction"] for r in done] == [
        direction for direction in ("forward", "backward") if getattr(kernel, direction)
    ]
    for record in done:
        assert record["errors"] == {}
        assert record["accuracy"]["same"]["ok"], record["accuracy"]
        assert record["bytes"] > 0
        assert set(record["times_s"]) == set(record["fractions"]) == {"eager", "same"}
        for taken, share in zip(record["times_s"].values(), record["fractions"].values()):
            assert share == pytest.approx(record["bytes"] / taken / 1e9)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__.split(".")[-1])
def test_a_kernel_of_each_family_compiles(family):
    kernel = family.KERNELS[0]
    for record in _records(kernel, {"braze": compilers.load("braze")}):
        assert record["errors"] == {}
        assert record["accuracy"]["braze"]["ok"], record["accuracy"]


@pytest.mark.parametrize("quick", (False, True))
def test_inputs_on_a_gpu_are_larger_than_its_cache(quick):
    assert devices.Cuda().kernel_bytes(quick) >= 100e6


@pytest.mark.parametrize("name", KERNELS)
def test_small_sizes_move_about_a_megabyte(name):
    kernel = KERNELS[name]
    if not kernel.forward:
        kernel = dataclasses.replace(kernel, forward="x y")
    size = devices.Cpu().kernel_bytes(quick=True)
    arguments = kernel.inputs(Draw("cpu", kernel.dtype, size))
    with torch.no_grad():
        outputs = outputs_of(kernel, kernel.function(*arguments), arguments)
    assert 0.6 * size <= traffic(kernel, kernel.forward, arguments, outputs) <= 10 * size


def _double_row(x, table):
    return torch.stack((x, x))


def test_traffic_counts_each_word_once():
    kernel = Kernel("k", torch.float32, _double_row, None, "x table|x y", "dy dx")
    x, table = torch.zeros(10), torch.zeros(7)
    outputs = [_double_row(x, table)]
    assert traffic(kernel, kernel.forward, (x, table), outputs) == 4 * (10 + 7 + 20)
    assert traffic(kernel, kernel.backward, (x, table), outputs) == 4 * (20 + 10)
    assert kernel.differentiated == ("x",)


def test_errors_up_to_twice_that_of_eager_are_right():
    exact = torch.linspace(-1, 1, 2000, dtype=torch.float64)
    eager = (exact + 1e-3).float()
    assert kernel_runs.as_exact_as([exact], [eager], [(exact - 1.99e-3).float()])["ok"]
    assert not kernel_runs.as_exact_as([exact], [eager], [(exact - 2.01e-3).float()])["ok"]
    # Where eager happens to be exact, roundings are allowed, and no more than that.
    assert kernel_runs.as_exact_as([exact], [exact.float()], [(exact + 2e-7).float()])["ok"]
    assert not kernel_runs.as_exact_as([exact], [exact.float()], [(exact + 2e-6).float()])["ok"]


def test_integers_infinities_and_shapes_are_compared():
    judge = kernel_runs.as_exact_as
    integers = torch.arange(2000)
    assert judge([integers], [integers], [integers.clone()])["ok"]
    assert not judge([integers], [integers], [integers + 1])["ok"]
    odd = torch.tensor([float("inf"), float("nan"), 1.0])
    assert judge([odd.double()], [odd], [odd.clone()])["ok"]
    assert not judge([odd.double()], [odd], [odd.nan_to_num()])["ok"]
    assert not judge([odd.double()], [odd], [odd[:2]])["ok"]
    assert not judge([odd.double()], [odd], [odd.double()])["ok"]
    assert not judge([odd.double()], [odd], [])["ok"]


def test_random_results_are_compared_by_their_moments():
    torch.manual_seed(0)
    eager, other = torch.randn(10_000), torch.randn(10_000)
    assert kernel_runs.same_moments(None, [eager], [other])["ok"]
    assert not kernel_runs.same_moments(None, [eager], [other + 0.2])["ok"]
    assert not kernel_runs.same_moments(None, [eager], [other * 1.2])["ok"]


def test_a_compiler_that_fails_leaves_the_others_their_figures():
    def fails(function, **options):
        raise ValueError("no such operator")

    def wrong(function, **options):
        return lambda *arguments: function(*arguments) + 1

    records = _records(KERNELS["silu"], {"inductor": fails, "braze": wrong})
    assert [record["direction"] for record in records] == ["forward", "backward"]
    for record in records:
        assert record["errors"] == {"inductor": "ValueError: no such operator"}
        assert set(record["times_s"]) == {"eager", "braze"}
    assert not records[0]["accuracy"]["braze"]["ok"]
    text = kernel_tables.kernels(records)
    assert "WRONG: Braze" in text
    assert "silu, backward, torch.compile: failed: ValueError: no such operator" in text


def test_what_a_device_lacks_is_told():
    kernel = dataclasses.replace(KERNELS["silu"], lacking=lambda device: f"nothing for a {device}")
    records = _records(kernel, {})
    assert [record["skipped"] for record in records] == ["nothing for a cpu"]
    assert "silu: not run: nothing for a cpu" in kernel_tables.kernels(records)


def _figures(kernel, direction, **seconds):
    return {
        "kernel": kernel, "direction": direction, "dtype": "float16", "sizes": "2x2",
        "bytes": 100, "copy_bytes_a_second": 100.0, "times_s": seconds, "errors": {},
        "fractions": {name: 1 / taken for name, taken in seconds.items()},
        "accuracy": {name: {"ok": True} for name in seconds if name != "eager"},
    }  # fmt: skip


def test_the_summary_is_of_what_all_have_run():
    records = [
        _figures("a", "forward", eager=4.0, inductor=2.0, braze=1.0),
        _figures("b", "forward", eager=16.0, inductor=2.0, braze=4.0),
        _figures("c", "forward", eager=1.0, braze=100.0),
        _figures("a", "backward", eager=2.0, inductor=2.0, braze=2.01),
    ]
    text = kernel_tables.kernels(records)
    assert "| forward | eager | 0.125 | 2 of 3 | 0 | 0 |" in text
    assert "| forward | torch.compile | 0.500 | 2 of 3 | 1 | 0 |" in text
    assert "| forward | Braze | 0.500 | 2 of 3 | 0 | 0 |" in text
    assert "| backward | Braze | 0.498 | 1 of 1 | 0 | 0 |" in text
    slower = text.partition("### Where Braze is slower")[2]
    assert [line.split(" | ")[:4] for line in slower.splitlines()[4:6]] == [
        ["| c", "forward", "eager", "100.00x"],
        ["| b", "forward", "torch.compile", "2.00x"],
    ]
    assert "backward" not in slower  # by less than noise is
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1


def test_a_kernel_that_ends_the_process_is_passed_over(monkeypatch):
    asked = []

    def stream(task, environment, names, **parameters):
        asked.append(names)
        for name in names:
            yield {"begun": name}
            if name == "b":
                raise processes.ChildError("exit code -11\nSegmentation fault")
            yield {"kernel": name}

    monkeypatch.setattr(processes, "stream", stream)
    records = list(suites.kernels(["a", "b", "c"], "cpu", ["braze"], 1, True))
    assert [record["kernel"] for record in records] == ["a", "b", "c"]
    assert "Segmentation fault" in records[1]["error"]
    assert asked == [["a", "b", "c"], ["c"]]


def test_records_of_a_process_come_one_by_one():
    records = processes.stream(
        "kernel_set", {}, names=["sum_last_64"], device="cpu", chosen=[], samples=1, quick=True
    )
    assert next(records) == {"begun": "sum_last_64"}
    assert [record["direction"] for record in records] == ["forward"]


def test_a_process_that_fails_or_hangs_is_an_error():
    with pytest.raises(processes.ChildError, match="KeyError: 'no such kernel'"):
        list(
            processes.stream(
                "kernel_set", {}, names=["no such kernel"], device="cpu", chosen=[], samples=1,
                quick=True,
            )
        )  # fmt: skip
    with pytest.raises(processes.ChildError, match="exit code -9"):
        list(processes.stream("kernel_set", {}, timeout=0.01, names=[]))


def test_gradients_of_losses_in_half_precision_are_not_zero():
    scaled = [kernel for kernel in KERNELS.values() if kernel.tangent_scale != 1]
    assert {kernel.dtype for kernel in scaled} == {torch.float16}
    for kernel in scaled:
        arguments = kernel.inputs(Draw("cpu", kernel.dtype, 1 << 18))
        ready = kernel_runs._backward(kernel, arguments, kernel.function)
        gradient = ready.fresh()[0]
        assert gradient.isfinite().all()
        assert gradient.count_nonzero() > 0.9 * gradient.numel()
