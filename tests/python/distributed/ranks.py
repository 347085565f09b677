"""Processes that work together through gloo, or, each with a GPU of its own, through NCCL."""

import contextlib
import multiprocessing
import os
import tempfile
import time
import traceback
from datetime import timedelta

import braze
import torch
import torch.distributed as dist

LIMIT = 100  # seconds; a machine under load is slow

# The ranks are forked from one process that has imported these, DistributedDataParallel's own imports
# among them.
multiprocessing.set_forkserver_preload(["braze", "torch._dynamo", "torch.distributed.fsdp"])


def _serve(pipe, work, rank, world, store, timeout, log, environment, backend, settings):
    if log:
        os.dup2(os.open(log / str(rank), os.O_WRONLY | os.O_CREAT), 2)
    os.environ.update(environment, GLOO_SOCKET_IFNAME="lo")
    if backend == "gloo":  # theirs are tensors of the CPU, whatever the machine has
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    else:
        torch.cuda.set_device(rank)
    braze._C.reload_options()
    torch.set_num_threads(1)
    try:
        dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=world)
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=timeout))
        answer = "returned", work(rank, world, **settings)
    except BaseException:
        answer = "raised", traceback.format_exc()
    pipe.send(answer)
    if answer[0] == "returned":
        with contextlib.suppress(EOFError):
            pipe.recv()  # The others may still need this one's connections.


def outcomes(
    work,
    world,
    timeout=60,
    log=None,
    environment={},
    method="forkserver",
    backend="gloo",
    **settings,
):
    """What `work(rank, world, **settings)` came to in each of `world` processes: ("returned", value),
    ("raised", traceback), ("ended", exit code) or ("hangs", None).

    Args:
        timeout: seconds that a collective may take.
        log: a folder that gets what each rank writes to stderr.
    """
    context = multiprocessing.get_context(method)
    end = time.monotonic() + LIMIT
    processes, pipes, answers = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        for rank in range(world):
            pipe, other_end = context.Pipe()
            common = world, f"{folder}/store", timeout, log, environment, backend, settings
            process = context.Process(target=_serve, args=(other_end, work, rank, *common))
            process.start()
            other_end.close()
            processes.append(process)
            pipes.append(pipe)
        for process, pipe in zip(processes, pipes):
            try:
                ready = pipe.poll(max(0, end - time.monotonic()))
                answers.append(pipe.recv() if ready else ("hangs", None))
            except EOFError:
                process.join()
                answers.append(("ended", process.exitcode))
        for process, pipe in zip(processes, pipes):
            pipe.close()
            process.join(10)
            process.kill()
            process.join()
    return answers


def together(work, world, **settings):
    """What `work` returned in each process; it must return in all."""
    answers = outcomes(work, world, **settings)
    failed = [
        f"rank {rank} {how} {what}" for rank, (how, what) in enumerate(answers) if how != "returned"
    ]
    assert not failed, "\n".join(failed)
    return [value for _, value in answers]
