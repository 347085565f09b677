"""Models trained by two processes, each with a GPU of its own."""

import pytest
import torch
import workers
from ranks import together
from test_distributed import COPIES

pytestmark = pytest.mark.skipif(
    torch.cuda.device_count() < 2, reason="needs two NVIDIA GPUs; a machine with them lifts it"
)


@pytest.mark.parametrize("settings", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_copies_on_gpus(where, settings):
    together(workers.copies, 2, backend="nccl", where=where, **settings)


@pytest.mark.parametrize("where", ["inside", "outside"])
def test_copies_on_gpus_that_differ_in_what_they_use(where):
    together(workers.unlike_copies, 2, backend="nccl", where=where)


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("where", ["outside", "blocks", "blocks of what is sharded"])
def test_shards_on_gpus(where, first):
    for eager, compiled in together(workers.shards, 2, backend="nccl", where=where, first=first):
        assert compiled == eager


@pytest.mark.parametrize("where", ["blocks", "outside"])
def test_shards_on_gpus_whose_gradients_add_up(where):
    together(workers.accumulated_shards, 2, backend="nccl", where=where)
