"""`torch.ops.braze.sum_by_place` on a CPU, where a graph for a GPU runs without kernels."""

import braze
import pytest
import torch

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("kind", [torch.int64, torch.int32], ids=str)
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_sums(dim, kind, dtype):
    assert braze  # registers the operator
    source = torch.randn(5, 6, 7).to(dtype)
    place = torch.randint(-1, 5, (source.shape[dim],)).to(kind)
    got = torch.ops.braze.sum_by_place(source, place, dim, 4, 2)
    sizes = list(source.shape)
    sizes[dim] = 4
    expected = torch.zeros(sizes, dtype=torch.float64)
    for i, to in enumerate(place.tolist()):
        if 0 <= to < 4 and to != 2:
            expected.select(dim, to).add_(source.select(dim, i).double())
    assert got.dtype == dtype and got.shape == expected.shape and got.is_contiguous()
    torch.testing.assert_close(
        got.double(), expected, rtol=1e-2 if got.itemsize == 2 else 1e-6, atol=1e-6
    )


def test_what_is_there_before():
    base, source = torch.randn(3, 4), torch.randn(5, 4)
    place = torch.tensor([2, 0, 2, 2, 0])
    kept = base.clone()
    got = torch.ops.braze.sum_by_place(source, place, 0, 3, -1, False, base)
    assert torch.equal(base, kept)
    torch.testing.assert_close(got, base.index_add(0, place, source))
    with pytest.raises(RuntimeError, match="the base is"):
        torch.ops.braze.sum_by_place(source, place, 0, 3, -1, False, base.double())
    with pytest.raises(RuntimeError, match="the base is"):
        torch.ops.braze.sum_by_place(source, place, 0, 4, -1, False, base)


def test_halves_are_rounded_once():
    source = torch.full((4097, 1), 1.0, dtype=torch.bfloat16)
    got = torch.ops.braze.sum_by_place(source, torch.zeros(4097, dtype=torch.int64), 0, 1)
    assert got.item() == 4096  # one by one it would stop at 256


def test_nothing():
    place = torch.zeros(0, dtype=torch.int64)
    got = torch.ops.braze.sum_by_place(torch.ones(0, 3), place, 0, 2)
    assert torch.equal(got, torch.zeros(2, 3))
    assert torch.ops.braze.sum_by_place(torch.ones(2, 3), place.new_zeros(2), 0, 0).shape == (0, 3)


def test_sizes_without_data():
    source = torch.ones(2, 3, 4, device="meta", dtype=torch.float16)
    place = torch.zeros(3, dtype=torch.int64, device="meta")
    got = torch.ops.braze.sum_by_place(source, place, 1, 9)
    assert (got.shape, got.dtype, got.stride()) == ((2, 9, 4), torch.float16, (36, 4, 1))


def test_refused():
    call = torch.ops.braze.sum_by_place
    source, place = torch.ones(4, 3), torch.tensor([0, 1, 2, 5])
    assert torch.equal(call(source, place, 0, 3), torch.ones(3, 3))
    with pytest.raises(IndexError, match="out of range"):
        call(source, place, 0, 3, -1, True)
    assert call(source, place, 0, 6, -1, True).sum() == 12
    with pytest.raises(RuntimeError, match="int64 or int32"):
        call(source, place.float(), 0, 3)
    with pytest.raises(RuntimeError, match="a place for each"):
        call(source, place, 1, 3)
    with pytest.raises(RuntimeError, match="a place for each"):
        call(source, place, 2, 3)
    with pytest.raises(RuntimeError, match="no sums of"):
        call(source.long(), place, 0, 3)
    with pytest.raises(RuntimeError, match="-1 rows"):
        call(source, place, 0, -1)
