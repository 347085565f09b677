"""What differs between benchmarks on a CPU and on a GPU: the clock, caches, memory, sizes."""

import gc
import time
from collections.abc import Callable

import torch

from bench import measure

MIB = 1 << 20


class Cpu:
    name = "cpu"
    copy_bytes = 64 * MIB
    flushed_bytes = 64 * MIB
    most_calls = 10_000  # one behind the other

    def __init__(self):
        self._flushed = None

    def title(self) -> str:
        from bench import machine

        return machine.cpu_model()

    def kernel_bytes(self, quick: bool) -> int:
        """Of the largest input of a kernel, so that all it moves is twice that or more, mostly."""
        return MIB // 2 if quick else 16 * MIB

    def prepare_for_models(self) -> None:
        """Sets what models are usually run with."""

    def synchronize(self) -> None:
        """Until all is done that was asked for."""

    def forget(self) -> None:
        """Gives back the memory of what nobody has any more."""
        gc.collect()

    def flush(self) -> None:
        """Leaves nothing of a kernel's inputs in the caches."""
        if self._flushed is None:
            self._flushed = torch.empty(self.flushed_bytes, dtype=torch.uint8, device=self.name)
        self._flushed.zero_()

    def seconds(self, function: Callable) -> float:
        """Of one call, with caches that hold nothing of its inputs."""
        self.flush()
        begin = time.perf_counter()
        function()
        return time.perf_counter() - begin

    def step_seconds(self, function: Callable) -> float:
        """Of one call as it comes in a loop of them."""
        begin = time.perf_counter()
        function()
        return time.perf_counter() - begin

    def peak_mb(self, function: Callable) -> dict[str, float]:
        """In MiB, the most memory that a later call has beyond what was there before all
        (`peak_mb`)."""
        from bench import training

        return {"peak_mb": training.peak_mb(function)}

    def copy_rate(self, samples: int) -> float:
        """Bytes a second that a copy of a large tensor moves, reads and writes counted."""
        source = torch.zeros(self.copy_bytes, dtype=torch.uint8, device=self.name)
        target = torch.ones_like(source)

        def copy():
            target.copy_(source)

        for _ in range(3):
            copy()
        taken = [self.seconds(copy) for _ in range(max(samples, 10))]
        return 2 * self.copy_bytes / measure.median(taken)


# Half a millisecond of a busy GPU, in which the CPU launches what is measured, so that the time of
# launches, of a node of autograd's above all, is not in that of kernels.
LEAD_CYCLES = 1_000_000


class Cuda(Cpu):
    name = "cuda"
    copy_bytes = 1024 * MIB
    flushed_bytes = 512 * MIB  # ten times an L2 cache
    most_calls = 200  # so that the queue of launches is never full, for which a call would wait

    def title(self) -> str:
        return torch.cuda.get_device_name()

    def kernel_bytes(self, quick: bool) -> int:
        """The same when quick: smaller ones would be measured in the L2 cache, of 50 MB."""
        return 128 * MIB

    def prepare_for_models(self) -> None:
        torch.set_float32_matmul_precision("high")  # TF32, for eager as for compilers

    def synchronize(self) -> None:
        torch.cuda.synchronize()

    def forget(self) -> None:
        gc.collect()
        torch.cuda.empty_cache()

    def peak_mb(self, function: Callable) -> dict[str, float]:
        """In MiB, the most memory that tensors have during a later call, the module's and the
        inputs' among them (`peak_mb`), and that PyTorch has from the GPU from the first call on,
        with the memory of CUDA graphs (`reserved_mb`)."""
        self.forget()
        torch.cuda.reset_peak_memory_stats()
        for _ in range(3):
            function()
        self.synchronize()
        reserved = torch.cuda.max_memory_reserved()
        torch.cuda.reset_peak_memory_stats()
        function()
        self.synchronize()
        return {
            "peak_mb": torch.cuda.max_memory_allocated() / MIB,
            "reserved_mb": reserved / MIB,
        }

    def seconds(self, function: Callable) -> float:
        self.flush()
        torch.cuda._sleep(LEAD_CYCLES)
        return self.step_seconds(function)

    def step_seconds(self, function: Callable) -> float:
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        function()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3


DEVICES: dict[str, Callable[[], Cpu]] = {"cpu": Cpu, "cuda": Cuda}


def interleaved(
    device: Cpu, functions: dict[str, Callable], samples: int, seconds: Callable | None = None
) -> dict[str, float]:
    """Median seconds of one call of each, taken in turn and in alternating order; by `seconds`,
    which is `device.seconds` by default."""
    seconds = seconds or device.seconds
    for function in functions.values():
        for _ in range(2):
            function()
    device.synchronize()
    times: dict[str, list[float]] = {name: [] for name in functions}
    order = list(functions)
    for i in range(samples):
        for name in order if i % 2 else reversed(order):
            times[name].append(seconds(functions[name]))
    return {name: measure.median(taken) for name, taken in times.items()}
