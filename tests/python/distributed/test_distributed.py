"""Models trained by several processes: DistributedDataParallel, `fully_shard`, collectives."""

import braze
import collectives
import pytest
import torch
import torch.distributed as dist
import workers
from ranks import outcomes, together

TIMEOUT = 10  # seconds that a collective may take


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_copies(where, world):
    together(workers.copies, world, where=where)


COPIES = {
    "buckets are the gradients": dict(options=dict(gradient_as_bucket_view=True)),
    "a static graph": dict(options=dict(static_graph=True)),
    "an unused part": dict(options=dict(find_unused_parameters=True), unused=[2]),
    "micro batches": dict(micro_batches=2),
    "micro batches into buckets": dict(micro_batches=2, options=dict(gradient_as_bucket_view=True)),
    "a hook": dict(hook="allreduce"),
    "stages": dict(options=dict(stage_bytes=512, bucket_cap_mb=5e-4)),
    "stages into buckets": dict(options=dict(stage_bytes=512, gradient_as_bucket_view=True)),
    "stages and an unused part": dict(
        options=dict(stage_bytes=512, find_unused_parameters=True), unused=[2]
    ),
}


@pytest.mark.parametrize("settings", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_settings_of_copies(where, settings):
    together(workers.copies, 2, where=where, **settings)


@pytest.mark.parametrize("megabytes", [25, 5e-4, 1e-7])
@pytest.mark.parametrize("where", ["inside", "outside"])
def test_calls_of_a_hook(where, megabytes):
    settings = dict(where=where, hook="counting", options=dict(bucket_cap_mb=megabytes))
    for eager, compiled in together(workers.copies, 2, **settings):
        assert sum(compiled) == sum(eager) == 5 * 1459
        if megabytes == 5e-4:
            # From the second step on filled in the order of the gradients, which is not eager's.
            assert len(eager) > 5 and len(compiled) > 5
        else:
            assert sorted(compiled) == sorted(eager)
            assert len(eager) == (5 if megabytes == 25 else 1 + 4 * 29)


@pytest.mark.parametrize("where", ["inside", "outside"])
def test_copies_that_differ_in_what_they_use(where):
    together(workers.unlike_copies, 3, where=where)


@pytest.mark.parametrize("where", ["inside", "outside"])
def test_an_unused_part_that_was_not_announced(where):
    for eager, compiled in together(workers.copies_of_which_a_part_is_unused, 2, where=where):
        assert "Expected to have finished reduction" in eager
        assert compiled == eager


@pytest.mark.parametrize("world, first", [(2, False), (2, True), (4, False)])
@pytest.mark.parametrize("where", ["outside", "blocks", "blocks of what is sharded"])
def test_shards(where, world, first):
    for eager, compiled in together(workers.shards, world, where=where, first=first):
        assert eager["before forward"] == eager["gradient of the output"] == 10
        assert first or eager["accumulated gradient"] == 120
        assert compiled == eager


@pytest.mark.parametrize(
    "where",
    [
        "blocks",
        "outside",
        "blocks of what is sharded",
    ],
)
def test_shards_whose_gradients_add_up(where):
    together(workers.accumulated_shards, 2, where=where)


def test_blocks_compiled_behind_their_sharding():
    for eager, compiled in together(workers.shards, 2, where="sharded blocks", first=False):
        assert compiled == eager


def test_blocks_sharded_and_compiled_again():
    together(workers.sharded_and_compiled_again, 2)


@pytest.mark.parametrize("world", [2, 3])
@pytest.mark.parametrize(
    "make, where",
    [
        ("copied", "eager"),
        ("copied", "inside"),
        ("copied", "outside"),
        ("sharded", "eager"),
        ("sharded", "outside"),
        ("sharded", "blocks"),
    ],
)
def test_a_rank_that_dies(make, where, world):
    *others, dead = outcomes(workers.one_dies, world, timeout=TIMEOUT, make=make, where=where)
    assert dead == ("ended", 1)
    for how, what in others:
        assert how == "returned", what
        steps, seconds, error = what
        assert steps == 2 and seconds < 3 * TIMEOUT and "gloo" in error


def files_of(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


def test_ranks_that_share_a_cache(tmp_path):
    """Those of the first run fill it at the same time; those of the second, started as programs of their
    own, compile nothing."""

    def run(name, world, **settings):
        (tmp_path / name).mkdir()
        environment = {"BRAZE_CACHE_DIR": str(tmp_path / "cache"), "BRAZE_LOG": "timing"}
        work = workers.use_cache
        found = together(work, world, log=tmp_path / name, environment=environment, **settings)
        return found, [(tmp_path / name / str(rank)).read_text() for rank in range(world)]

    found, logs = run("first", 4)
    assert not all(map(all, found)) and "host compiler" in "".join(logs)
    files = files_of(tmp_path / "cache")
    assert files and not [path for path in files if ".tmp" in path.name]
    found, logs = run("second", 2, method="spawn")
    assert found[0] and all(map(all, found))
    for log in logs:
        assert "(plan from the cache)" in log and "host compiler" not in log
    assert files_of(tmp_path / "cache") == files


def test_collectives():
    names = [
        "ranks",
        "all_reduce",
        "all_gather",
        "reduce_scatter",
        "broadcast",
        "send_and_receive",
        "objects",
        "functional_all_reduce",
    ]
    together(collectives.compare, 2, names=names)
    together(collectives.compare, 2, names=["differentiable_all_reduce"], differentiated=True)


@pytest.mark.parametrize(
    "name",
    ["asynchronous_all_reduce", "asynchronous_send_and_receive", "future_of_a_collective"],
)
def test_asynchronous_collectives(name):
    together(collectives.compare, 2, names=[name], timeout=5)


def test_a_store_counts_each_call():
    store = dist.HashStore()
    fast = braze.compile(lambda x: x + store.add("calls", 1))
    assert [fast(torch.zeros(())).item() for _ in range(3)] == [1, 2, 3]


def test_a_future_has_the_value_of_its_call():
    def f(x):
        future = torch.futures.Future()
        future.set_result(x * 2)
        return future.wait() + 1

    fast = braze.compile(f)
    assert [fast(torch.tensor(float(n))).item() for n in range(3)] == [1, 3, 5]
