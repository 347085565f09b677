"""Functions that exchange tensors with other processes, called in eager and compiled."""

import time

import braze
import torch
import torch.distributed as dist
from small_model import assert_same
from torch.distributed import _functional_collectives as functional


def ranks(x):
    return x * dist.get_rank() + dist.get_world_size()


def all_reduce(x):
    y = x * 2 + 1
    dist.all_reduce(y)
    return y.relu() + x


def all_gather(x):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x * 2)
    return torch.cat(parts).cos()


def reduce_scatter(x):
    parts = list((x * 2).chunk(dist.get_world_size()))
    y = torch.empty_like(parts[0])
    dist.reduce_scatter(y, parts)
    return y + 1


def broadcast(x):
    y = x.clone()
    dist.broadcast(y, 1)
    return y * 2


def send_and_receive(x):
    y = x * 3
    if dist.get_rank() == 0:
        dist.send(y, 1)
    else:
        dist.recv(y, 0)
    return y + 1


def objects(x):
    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, {"rank": dist.get_rank() + x.shape[0]})
    return x * sum(part["rank"] for part in parts)


def functional_all_reduce(x):
    return functional.all_reduce(x * 2, "sum", dist.group.WORLD) + 1


class Reduced(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.clone()
        dist.all_reduce(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient * 2
        dist.all_reduce(gradient)
        return gradient


def differentiable_all_reduce(x):
    return Reduced.apply(x.sin()).cos()


def asynchronous_all_reduce(x):
    y = x * 2
    work = dist.all_reduce(y, async_op=True)
    z = x.sin()
    work.wait()
    return y + z


def future_of_a_collective(x):
    future = dist.all_reduce(x * 2, async_op=True).get_future()
    return future.then(lambda done: done.value()[0] * 3).wait() + 1


def asynchronous_send_and_receive(x):
    y = x * 3
    if dist.get_rank() == 0:
        dist.isend(y, 1).wait()
    else:
        dist.irecv(y, 0).wait()
    return y + 1


def compare(rank, world, names, differentiated=False):
    """Four calls each; the last rank comes late to each, so that nobody sees what did not arrive."""
    for name in names:
        function = globals()[name]
        fast = braze.compile(function)
        results = []
        for call in range(4):
            made = torch.Generator().manual_seed(10 * call + rank)
            x = torch.randn(4, 3, generator=made)
            for each in (function, fast):
                x = x.detach().requires_grad_(differentiated)
                dist.barrier()
                if rank == world - 1:
                    time.sleep(0.02)
                y = each(x)
                if differentiated:
                    y.sum().backward()
                results.append((y.detach(), x.grad))
        assert_same(results[1::2], results[::2])
