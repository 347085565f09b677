"""What a step of DistributedDataParallel takes: two processes, each with a GPU of its own, or with
half of the CPU.

Beside the step: the same step without communication, and the communication alone, buckets of
25 MiB one behind the other. What of that is hidden behind computation is

    hidden = (alone + communication - step) / communication
"""

import functools
import json
import os
import tempfile
import time
from pathlib import Path

RANKS = 2
BUCKET_BYTES = 25 << 20  # DistributedDataParallel's default
MODELS = {"cpu": "llama_4l", "cuda": "llama_train"}  # where none is asked for
WAYS = ("eager", "torch.compile", "Braze", "Braze in one stage")


def compile_for(way: str):
    """What compiles a module so."""
    import braze
    import torch

    one_stage = {"gradient_stage_bytes": 0}
    return {
        "eager": lambda module: module,
        "torch.compile": torch.compile,
        "Braze": braze.compile,
        "Braze in one stage": functools.partial(braze.compile, options=one_stage),
    }[way]


class Steps:
    """Of one way."""

    def __init__(self, model: str, device: str, way: str):
        import torch
        from torch.nn.parallel import DistributedDataParallel

        from bench import device_models, training

        if device == "cuda":
            built = device_models.build(device_models.DEVICE_MODELS[model], device)
            self.module, self.arguments = built.module, built.arguments
            self._result_of = built.step
        else:
            self.module, self.arguments = training.build(model)
            self._result_of = lambda call: training.step(self.module, call, self.arguments)
        devices = [torch.cuda.current_device()] if device == "cuda" else None
        self.copies = DistributedDataParallel(compile_for(way)(self.module), device_ids=devices)

    def run(self):
        self._result_of(self.copies)

    def run_alone(self):
        with self.copies.no_sync():
            self._result_of(self.copies)

    def gradient_bytes(self) -> int:
        return sum(p.numel() * p.element_size() for p in self.module.parameters())


def seconds_of(function, device: str, samples: int) -> float:
    """Median of `samples` calls, each begun by all ranks at once, until its GPU is done."""
    import torch
    import torch.distributed as dist

    from bench import measure

    def finish():
        if device == "cuda":
            torch.cuda.synchronize()

    taken = []
    for i in range(samples + 3):
        finish()
        dist.barrier()
        begin = time.perf_counter()
        function()
        finish()
        if i >= 3:
            taken.append(time.perf_counter() - begin)
    return measure.median(taken)


def communicate(size: int, device: str):
    """Buckets of so many bytes in all."""
    import torch
    import torch.distributed as dist

    whole, rest = divmod(size, BUCKET_BYTES)
    sizes = [BUCKET_BYTES] * whole + [rest] * (rest > 0)
    buckets = [torch.zeros(n, dtype=torch.int8, device=device).view(torch.bfloat16) for n in sizes]

    def run():
        for work in [dist.all_reduce(bucket, async_op=True) for bucket in buckets]:
            work.wait()

    return run


def figures(model: str, device: str, ways: list[str], samples: int) -> dict:
    """Of a rank: seconds of steps by way ("step_s"), of those without communication ("alone_s"),
    of the communication ("communication_s"), and the bytes of gradients ("bytes")."""
    import torch

    step, alone = {}, {}
    size = 0
    with torch.enable_grad():
        for way in ways:
            steps = Steps(model, device, way)
            step[way] = seconds_of(steps.run, device, samples)
            alone[way] = seconds_of(steps.run_alone, device, samples)
            size = steps.gradient_bytes()
            del steps
    communication = seconds_of(communicate(size & ~1, device), device, samples)
    return {"step_s": step, "alone_s": alone, "communication_s": communication, "bytes": size}


def _serve(rank: int, folder: str, parameters: dict) -> None:
    import torch
    import torch.distributed as dist

    device = parameters["device"]
    if device == "cuda":
        torch.cuda.set_device(rank)
    else:
        torch.set_num_threads(max(1, (os.cpu_count() or RANKS) // RANKS))
        os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    backend = "nccl" if device == "cuda" else "gloo"
    place = f"file://{folder}/store"
    dist.init_process_group(backend, init_method=place, rank=rank, world_size=RANKS)
    found = figures(**parameters)
    if rank == 0:
        (Path(folder) / "figures").write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()
    # Not by the interpreter: threads of gloo that still drop a tensor would abort the process.
    os._exit(0)


def run(model: str, device: str, ways: list[str], samples: int) -> dict:
    """The figures of the first of the ranks, which this starts."""
    import torch

    if device == "cuda" and torch.cuda.device_count() < RANKS:
        raise RuntimeError(f"needs {RANKS} GPUs, and there is one")
    parameters = {"model": model, "device": device, "ways": ways, "samples": samples}
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(_serve, args=(folder, parameters), nprocs=RANKS)
        return json.loads((Path(folder) / "figures").read_text())
