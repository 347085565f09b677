"""What a call of a compiled function of CUDA tensors costs: `python -m bench.gpu_calls`.

Prints, for each function: the time of a call on the CPU until the kernel is on its stream, beside
eager's, and beside what the driver alone takes of it, which is cuLaunchKernel; the first call of a
fresh process, without and with what earlier processes have compiled; the time on the GPU of large
tensors, as bytes read and written in a second.
"""

import ctypes
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

FUNCTIONS = ("pointwise", "softmax", "layer_norm")
CALLS = 200  # at a time, so that the stream's queue is never full
ROUNDS = 25


def functions():
    import torch
    import torch.nn.functional as F

    return {
        "pointwise": lambda x: torch.relu(x + 1) * 2,
        "softmax": lambda x: torch.softmax(x, -1),
        "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    }


def call_time(function, x):
    """Median over rounds of the CPU's microseconds for a call. Results are given back to PyTorch's
    allocator outside of it: that is no part of the way to a launch."""
    import torch

    times, kept = [], [None] * CALLS
    for _ in range(ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for i in range(CALLS):
            kept[i] = function(x)
        times.append((time.perf_counter() - start) / CALLS * 1e6)
        kept = [None] * CALLS
    torch.cuda.synchronize()
    return statistics.median(times)


EMPTY_KERNEL = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry empty(.param .u64 first, .param .u64 second) { ret; }
"""


def launch_time():
    """Microseconds that the driver's cuLaunchKernel takes for a kernel that does nothing."""
    driver = ctypes.CDLL("libcuda.so.1")

    def call(name, *arguments):
        if error := getattr(driver, name)(*arguments):
            raise RuntimeError(f"{name}: CUDA error {error}")

    module, kernel, argument = (ctypes.c_void_p() for _ in range(3))
    call("cuModuleLoadData", ctypes.byref(module), EMPTY_KERNEL)
    call("cuModuleGetFunction", ctypes.byref(kernel), module, b"empty")
    arguments = (ctypes.c_void_p * 2)(*[ctypes.addressof(argument)] * 2)
    sizes = [ctypes.c_uint(n) for n in (64, 1, 1, 256, 1, 1, 0)]

    def launch(function):
        driver.cuLaunchKernel(function, *sizes, None, arguments, None)

    # One that is refused at once costs what ctypes does.
    return call_time(launch, kernel) - call_time(launch, ctypes.c_void_p())


def gpu_time(function, x, calls=20):
    """Median of the GPU's microseconds for a call, with what it reads not in the L2 cache."""
    import torch

    flush = torch.empty(64 << 20, device=x.device)
    times = []
    for _ in range(calls):
        flush.zero_()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        function(x)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times)


def first_call(name):
    """In a process of its own: milliseconds of the first call, CUDA being ready."""
    import braze
    import torch

    function = functions()[name]
    x = torch.randn(64, 768, device="cuda")
    with torch.no_grad():
        function(x)
        torch.cuda.synchronize()
        start = time.perf_counter()
        braze.compile(function)(x)
        torch.cuda.synchronize()
        spent = (time.perf_counter() - start) * 1e3
    print(json.dumps(spent))


def first_calls(name):
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "BRAZE_CACHE_DIR": cache}
        command = [sys.executable, "-m", "bench.gpu_calls", "--first-call", name]
        runs = [
            subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
            for _ in range(2)
        ]
        return [json.loads(run.stdout.splitlines()[-1]) for run in runs]


def main():
    import braze
    import torch

    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    torch.empty(1, device="cuda")
    print(f"the driver's own launch {launch_time():.2f} us")
    with torch.no_grad():
        small = torch.randn(64, 768, device="cuda")
        for name, function in functions().items():
            compiled = braze.compile(function)
            compiled(small)
            calls = call_time(compiled, small), call_time(function, small)
            cold, warm = first_calls(name)
            print(
                f"{name:12} call {calls[0]:6.2f} us (eager {calls[1]:6.2f}), "
                f"first call {cold:6.1f} ms, with cache {warm:6.1f} ms"
            )
        for dtype in (torch.float32, torch.float16):
            for shape in ((8192, 4096), (65536, 512), (64, 524288)):
                x = torch.randn(shape, device="cuda").to(dtype)
                for name, function in functions().items():
                    compiled = braze.compile(function)
                    compiled(x)
                    mine, eager = gpu_time(compiled, x), gpu_time(function, x)
                    rate = 2 * x.numel() * x.element_size() / mine / 1e3
                    print(
                        f"{name:12} {str(dtype)[6:]:8} {str(shape):16} {mine:8.1f} us "
                        f"(eager {eager:8.1f}) {rate:6.0f} GB/s"
                    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["--first-call"]:
        first_call(sys.argv[2])
    else:
        main()
