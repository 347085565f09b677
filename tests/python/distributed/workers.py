"""What the processes do. Each is a rank of `world`."""

import os
import time
from collections import Counter

import braze
import torch
import torch.distributed as dist
from braze._api import compiled_function_of
from small_model import (
    assert_same,
    assert_trains_as_one_process,
    batch,
    device,
    loss_of,
    model,
    train,
)
from support import entries
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel


def assert_compiled(functions):
    for function in functions:
        assert "plan" in [entry["kind"] for entry in entries(function)]


def copied(where, stage_bytes=25 << 20, **options):
    """A model in DistributedDataParallel, and what is compiled of it: nothing, the model inside or the
    whole from outside."""
    module = model()
    compiling = {"options": {"gradient_stage_bytes": stage_bytes}}
    if where == "inside":
        module = braze.compile(module, **compiling)
        functions = [compiled_function_of(module)]
    module = DistributedDataParallel(module, **options)
    if where == "outside":
        module = braze.compile(module, **compiling)
        functions = [compiled_function_of(module)]
    return module, [] if where == "eager" else functions


def count_buckets(module, hook):
    """The sizes of the buckets that the hook will have been called for."""
    sizes = []
    if hook == "allreduce":
        module.register_comm_hook(None, allreduce_hook)
    if hook == "counting":

        def count(state, bucket):
            state.append(bucket.buffer().numel())
            return allreduce_hook(None, bucket)

        module.register_comm_hook(sizes, count)
    return sizes


def copies(rank, world, where, hook=None, options={}, **settings):
    """Sizes of the buckets in eager and compiled."""
    buckets = []
    for which in ("eager", where):
        module, functions = copied(which, **options)
        buckets.append(count_buckets(module, hook))
        assert_trains_as_one_process(module, rank, world, **settings)
    assert_compiled(functions)
    return buckets


def copies_of_which_a_part_is_unused(rank, world, where):
    """What the step behind the one without all parameters says, in eager and compiled."""
    said = []
    for which in ("eager", where):
        module, _ = copied(which)
        try:
            train(module, rank, world, unused=[1])
        except RuntimeError as error:
            said.append(str(error))
    return said


def unlike_copies(rank, world, where):
    """Ranks of which one alone uses all parameters, with batches of different sizes."""
    results = []
    for which in ("eager", where):
        module, functions = copied(which, find_unused_parameters=True)
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        for step in range(5):
            rows = 1 + (step + rank) % 3
            optimizer.zero_grad()
            loss_of(module, *batch(step, rank, world)[:, :rows], rank == step % 3).backward()
            optimizer.step()
        results.append([p.detach() for p in module.parameters()])
    assert_same(results[1], results[0])
    assert_compiled(functions)


def sharded(where, before=lambda module: None):
    """A model sharded by blocks, and what is compiled of it: nothing, the whole from outside, the blocks
    before they are sharded, or behind them, or behind the whole."""
    module = model()
    before(module)
    mesh = init_device_mesh(device(), (dist.get_world_size(),))
    blocks, functions = module.blocks, []

    def compile_blocks():
        for i, block in enumerate(blocks):
            blocks[i] = braze.compile(block)
            functions.append(compiled_function_of(blocks[i]))

    if where == "blocks":
        compile_blocks()
    for block in blocks:
        fully_shard(block, mesh=mesh)
    if where == "sharded blocks":
        compile_blocks()
    fully_shard(module, mesh=mesh)
    if where == "blocks of what is sharded":
        compile_blocks()
    if where == "outside":
        module = braze.compile(module)
        functions.append(compiled_function_of(module))
    return module, functions


def count_calls(module, counts):
    """Counts the calls of hooks of all kinds on the blocks and their parameters."""

    def count(kind):
        return lambda *args: counts.update([kind])

    def forward(block, args, output):
        counts["forward"] += 1
        output.register_hook(count("gradient of the output"))

    for block in module.blocks:
        block.register_forward_pre_hook(count("before forward"))
        block.register_forward_hook(forward)
        block.register_full_backward_pre_hook(count("before backward"))
        block.register_full_backward_hook(count("backward"))
        for p in block.parameters():
            p.register_hook(count("gradient of a parameter"))
            p.register_post_accumulate_grad_hook(count("accumulated gradient"))


def shards(rank, world, where, first):
    """How often hooks were called in eager and compiled; they stand before or behind those of
    `fully_shard`."""
    calls = []
    for which in ("eager", where):
        counts = Counter()
        hook = lambda module: count_calls(module, counts)
        module, functions = sharded(which, hook if first else lambda module: None)
        if not first:
            hook(module)
        assert_trains_as_one_process(module, rank, world)
        calls.append(counts)
    assert_compiled(functions)
    return calls


def accumulated_shards(rank, world, where):
    """Gradients are reduced with the second of two batches."""
    results = []
    for which in ("eager", where):
        module, functions = sharded(which)
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        for step in range(6):
            module.set_requires_gradient_sync(step % 2 == 1)
            loss_of(module, *batch(step, rank, world)).backward()
            if step % 2 == 1:
                optimizer.step()
                optimizer.zero_grad()
        results.append([p.full_tensor().detach() for p in module.parameters()])
    assert_same(results[1], results[0])
    assert_compiled(functions)


def sharded_and_compiled_again(rank, world):
    module, _ = sharded("blocks")
    for i, block in enumerate(module.blocks):
        module.blocks[i] = braze.compile(block)
    assert_trains_as_one_process(module, rank, world)


def one_dies(rank, world, make, where):
    """After how many steps a survivor fails, how long it takes and what it says; the last rank ends in the
    middle of step 2."""
    steps = []

    def die(*args):
        if rank == world - 1 and len(steps) == 2:
            os._exit(1)

    if make == "copied":
        module, _ = copied(where)
        module.register_forward_hook(die)
        twin = model()
    else:
        module, _ = sharded(where, lambda module: module.blocks[1].register_forward_pre_hook(die))
    start = time.monotonic()
    try:
        while len(steps) < 5:
            start = time.monotonic()
            loss_of(module, *batch(len(steps), rank, world)).backward()
            steps.append("done")
    except RuntimeError as error:
        took = time.monotonic() - start
        if make == "copied":
            tokens = batch(0, rank, world)[0]
            assert_same(module.module(tokens), twin(tokens))
        return len(steps), took, str(error)


def use_cache(rank, world):
    """Whether what was compiled came from the cache; forward and backward, copied and sharded."""
    from_cache = []
    for module, functions in (copied("inside"), copied("outside"), sharded("blocks")):
        assert_trains_as_one_process(module, rank, world, steps=2)
        assert_compiled(functions)
        for function in functions:
            from_cache += [e["from_cache"] for e in entries(function) if e["kind"] == "plan"]
    return from_cache
